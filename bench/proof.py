"""Measures how many planted faults `ask` finds in answers, and how often it is wrong about others.

    python bench/proof.py                           measures bench/data/proof.jsonl
    python bench/proof.py --show 20                 prints misses and false alarms of one half, too
    python bench/proof.py make                      writes it again from the passages and notes
    python bench/proof.py passages                  chooses the passages again
    python bench/proof.py measure FASTAPI_DOCS      another set, with passages in eight languages

The passages of proof-passages.jsonl are of this project's documentation. The notes of
proof-notes.jsonl were written for this set in seven languages, with answers in other words.
FASTAPI_DOCS is the folder docs of https://github.com/fastapi/fastapi (c3f316b7 was measured), whose
passages are added for a set that is made for the run alone. All other answers
are cut from the passages: sentences as they stand, sentences with numbers and dates written another
way, quotations, quotations with something left out, lists.

A fault is planted by a rule that does not know how faults are looked for, and is not taken back
where the wrong figure happens to be in the passage. It counts as found if a claim that touches the
place is not "supported". A false alarm is an answer without a fault of which any claim is not.
Half of the passages, with an even number, were looked at while the rules were written ("tune");
the other half were not ("test"), but for the notes, of which all were. A changed negation is out of
reach: 25 such answers show it.
Needs no network; the same files give the same set.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from triptych.answers import Citation, Claim, Piece, prove
from triptych.text import split_sentences

DATA = Path(__file__).parent / "data"
ROOT = Path(__file__).parents[1]
SEED = 7
FAULTS = {
    "figure": 160,
    "date": 40,
    "name": 50,
    "code": 60,
    "stitched quotation": 70,
    "made-up quotation": 60,
    "neighbour's citation": 60,
}
OUT_OF_REACH = {"negation": 25}
CLEAN = 500
LANGUAGES = {"de": 12, "en": 12, "es": 12, "fr": 12, "ja": 12, "pt": 12, "ru": 12, "zh": 12}
OWN = 206
Row = dict[str, Any]

# Passages


def paragraphs(text: str) -> Iterator[tuple[str, str]]:
    """Heading and text of each paragraph of prose."""
    heading = ""
    text = re.sub(r"^(`{3,}|~{3,}).*?^\1", "", text, flags=re.DOTALL | re.MULTILINE)
    for block in re.split(r"\n\s*\n", text):
        block = block.strip()
        if block.startswith("#"):
            heading = re.sub(r"\s*\{.*\}$", "", block.splitlines()[0].lstrip("# "))
        elif block and not re.match(r"[|<>/!{*\-+\d]", block) and "\n|" not in block:
            yield heading, block


def chosen(files: Sequence[Path], base: Path, language: str, count: int, least: int) -> list[Row]:
    """So many paragraphs of these files, which hold a number, code or a name."""
    found = [
        {
            "language": language,
            "doc": str(path.relative_to(base)),
            "heading": heading,
            "text": text,
        }
        for path in files
        for heading, text in paragraphs(path.read_text(encoding="utf-8"))
        if least <= len(text) <= 900 and re.search(r"[0-9`]|[a-z] [A-Z]", text)
    ]
    return random.Random(SEED).sample(found, count)


def own_passages() -> list[Row]:
    """Those of this project's documentation."""
    own = sorted((ROOT / "docs").glob("*/*.md"))
    return chosen([each for each in own if "api" not in each.parts], ROOT, "en", OWN, 160)


def fastapi_passages(folder: Path) -> list[Row]:
    """Those of FastAPI's documentation, in each of `LANGUAGES`."""
    rows: list[Row] = []
    for language, count in LANGUAGES.items():
        least = 60 if language in ("ja", "zh") else 140
        files = sorted((folder / language / "docs").rglob("*.md"))
        rows += chosen(files, folder, language, count, least)
    return rows


def read(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write(path: Path, rows: Sequence[Row]) -> None:
    lines = (json.dumps(row, ensure_ascii=False) for row in rows)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


# Answers

INTRO = {
    "de": "Im Dokument steht: ",
    "en": "The document says: ",
    "es": "El documento dice: ",
    "fr": "Le document dit : ",
    "ja": "文書には次のようにあります：",
    "pt": "O documento diz: ",
    "ru": "В документе сказано: ",
    "zh": "文档中写道：",
}
QUOTES = {"de": "„“", "es": "«»", "fr": "«»", "ja": "「」", "ru": "«»", "zh": "「」"}
NUMBER = re.compile(r"(?<![\w.,:/@#’'\-–−])\d+(?:[.,]\d+)*(?![\w/@]|[.,:\-–]\d)")
MONTHS = "January February March April May June July August September October November December"
SPELT = re.compile(rf"\b(\d{{1,2}}) ({MONTHS.replace(' ', '|')}) (\d{{4}})\b")
ISO = re.compile(r"\b(20\d\d)-(\d\d)-(\d\d)\b")
ANY_DATE = re.compile(
    rf"{SPELT.pattern}|{ISO.pattern}|\b(?:{MONTHS.replace(' ', '|')}) \d{{1,2}}, \d{{4}}"
    r"|\b\d{1,2}[./]\d{1,2}[./]\d{4}|\b\d{1,2}\.? (?:de )?[^\W\d]{3,10} (?:de )?20\d\d"
    r"|\d{4}年\d{1,2}月\d{1,2}日"
)


def plain(text: str) -> str:
    """A passage as a model repeats it: links as their text, on one line."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"<[^<>]{1,200}>", "", text)
    return " ".join(text.replace("**", "").split())


def sentences(passage: Row) -> list[str]:
    low, high = (12, 150) if passage["language"] in ("ja", "zh") else (40, 320)
    found = split_sentences(plain(passage["text"]))
    return [each for each in found if low <= len(each) <= high and each[-1] in ".!。！"]


def cited(sentence: str, number: int) -> str:
    return f"{sentence[:-1].rstrip()} [{number}]{sentence[-1]}"


def words_of(text: str, language: str) -> list[str]:
    if language in ("ja", "zh"):  # a character, a word in Latin letters, or code
        return re.findall(r"`[^`]*`|[A-Za-z0-9_.-]+|[^`]", text)
    return text.split(" ")


def join(words: Sequence[str], language: str) -> str:
    return ("" if language in ("ja", "zh") else " ").join(words)


def run_of(sentence: str, language: str, random_: random.Random) -> list[str]:
    """A run of words of a sentence, long enough to quote."""
    words = words_of(sentence.rstrip(".!。！"), language)
    least = 12 if language in ("ja", "zh") else 6
    size = min(len(words), random_.randint(least, 2 * least))
    at = random_.randint(0, len(words) - size)
    return words[at : at + size]


def quoted(words: Sequence[str], language: str, number: int, random_: random.Random) -> str:
    inner = join(words, language).strip(" ,;:")
    pair = QUOTES.get(language, "“”") if random_.random() < 0.7 else '""'
    if '"' in inner and pair == '""':
        pair = "“”"
    gap = " " if language == "fr" and pair == "«»" else ""
    return f"{INTRO[language]}{pair[0]}{gap}{inner}{gap}{pair[1]} [{number}]."


def rewritten(sentence: str, language: str, random_: random.Random) -> str:
    """The sentence with its numbers, dates and mark-up written another way."""
    english = language == "en"

    def number(found: re.Match[str]) -> str:
        said = found[0]
        if english and re.fullmatch(r"\d{1,3}(,\d{3})+", said):
            return said.replace(",", "")
        if english and re.fullmatch(r"\d{5,}", said):
            return f"{int(said):,}"
        return said

    def spelt(found: re.Match[str]) -> str:
        return f"{found[2]} {found[1]}, {found[3]}"

    text = SPELT.sub(spelt, sentence) if english else sentence
    text = NUMBER.sub(number, text)
    text = re.sub(r"(\d) (MB|GB|KB|ms|s|%|W)\b", r"\1\2", text) if random_.random() < 0.5 else text
    if english and random_.random() < 0.5:
        text = text.replace("%", " percent")
    if random_.random() < 0.3:
        dated = ANY_DATE.search(text) is not None
        text = text if dated else NUMBER.sub(lambda found: f"**{found[0]}**", text)
    return text


class Maker:
    """Makes answers from passages, with faults and without, drawn from a seed."""

    def __init__(self, passages: Sequence[Row], notes: Sequence[Row]) -> None:
        self.random = random.Random(SEED)
        self.all = [*passages, *notes]
        self.notes = range(len(passages), len(self.all))
        self.usable = [at for at, each in enumerate(self.all) if sentences(each)]

    def shown(self, at: int) -> tuple[list[int], int]:
        """Four passages of one language in some order, and the number of this one. Where a language
        has fewer, others are among them."""
        mine = self.all[at]
        others = [each for each, row in enumerate(self.all) if row["doc"] != mine["doc"]]
        same = [each for each in others if self.all[each]["language"] == mine["language"]]
        others = same if len(same) >= 3 else others
        pieces = [at, *self.random.sample(others, 3)]
        self.random.shuffle(pieces)
        return pieces, pieces.index(at) + 1

    def clean(self) -> Row:
        """An answer without a fault."""
        random_ = self.random
        if random_.random() < 0.25:
            at = random_.choice(self.notes)
            pieces, number = self.shown(at)
            answer = random_.choice(self.all[at]["answers"])
            text = answer["text"].replace("[1]", f"[{number}]")
            row = {"kind": "clean", "passage": at, "pieces": pieces}
            return row | {"question": answer["question"], "answer": text}
        at = random_.choice(self.usable)
        pieces, number = self.shown(at)
        language = self.all[at]["language"]
        sentence = random_.choice(sentences(self.all[at]))
        form = random_.choice(("as it is", "rewritten", "quoted", "left out", "list", "wrapped"))
        if form == "quoted":
            text = quoted(run_of(sentence, language, random_), language, number, random_)
        elif form == "left out":
            run = run_of(sentence, language, random_)
            third = max(len(run) // 3, 1)
            parts = [*run[:third], "…" if language in ("ja", "zh") else "[…]", *run[third + 1 :]]
            text = quoted(parts, language, number, random_)
        elif form == "list":
            other = random_.choice([each for each in pieces if sentences(self.all[each])])
            second = random_.choice(sentences(self.all[other]))
            text = f"- {cited(sentence, number)}\n- {cited(second, pieces.index(other) + 1)}"
        elif form == "wrapped":
            text = re.sub(r"(.{30,50}?) ", r"\1\n", cited(sentence, number))
        else:
            sentence = rewritten(sentence, language, random_) if form == "rewritten" else sentence
            text = cited(sentence, number)
        row = {"kind": "clean", "passage": at, "pieces": pieces}
        return row | {"question": "", "answer": text}

    def faulty(self, kind: str) -> Row:
        """An answer with a fault, and the span of it."""
        plant = PLANTS.get(kind)
        while True:
            if plant is not None:
                row = self.clean()
                made = plant(self, row)
            else:
                made = self.misquoted(kind)
            if made is not None:
                return {**made, "kind": kind}

    def misquoted(self, kind: str) -> Row | None:
        at = self.random.choice(self.usable)
        row, language = self.all[at], self.all[at]["language"]
        pieces, number = self.shown(at)
        said = sentences(row)
        least = 8 if language in ("ja", "zh") else 4
        if kind == "stitched quotation":
            if len(said) < 2:
                return None
            one, two = self.random.sample(said, 2)
            first, second = words_of(one, language), words_of(two.rstrip(".!。！"), language)
            if min(len(first), len(second)) < 2 * least:
                return None
            words = first[: least + 1] + second[-least - 1 :]
            if join(words, language) in plain(row["text"]):
                return None
        else:
            words = run_of(self.random.choice(said), language, self.random)
            other = self.all[self.random.choice([each for each in pieces if each != at])]
            strange = [each for each in words_of(plain(other["text"]), language) if each.isalpha()]
            known = plain(row["text"]).casefold()
            strange = [each for each in strange if each.casefold() not in known]
            if len(strange) < 2 or len(words) < least:
                return None
            for place in self.random.sample(range(1, len(words) - 1), 2):
                words[place] = self.random.choice(strange)
        text = quoted(words, language, number, self.random)
        made = {"passage": at, "pieces": pieces, "question": "", "answer": text}
        return made | {"fault": [0, len(text)]}


Planted = Callable[[Maker, Row], Row | None]


def replaced(row: Row, start: int, end: int, by: str) -> Row | None:
    text = row["answer"]
    if text[start:end] == by:
        return None
    return {**row, "answer": text[:start] + by + text[end:], "fault": [start, start + len(by)]}


def quotation_free(text: str) -> bool:
    return not re.search('[“”„«»「」"]', text)


def wrong_figure(maker: Maker, row: Row) -> Row | None:
    text = row["answer"]
    ticked = [each.span() for each in re.finditer(r"`[^`]*`", text)]
    dates = [each.span() for each in ANY_DATE.finditer(text)]
    found = [
        each
        for each in NUMBER.finditer(text)
        if not (text[each.start() - 1 : each.start()] == "[" and text[each.end()] == "]")
        and not any(a <= each.start() < b for a, b in (*ticked, *dates))
        and not re.search(r"(?:^|\n)$", text[: each.start()])
        and not re.match(r"[月年日.]\d", text[each.end() :])
    ]
    if not found:
        return None
    chosen = maker.random.choice(found)
    digits = chosen[0]
    first, rest = digits[0], digits[1:]
    ways = [str(int(first) % 9 + 1) + rest]
    if rest[:1].isdigit():
        ways.append(first + str((int(rest[0]) + 3) % 10) + rest[1:])
    if digits.isdigit():
        ways.append(digits + "0")
        if rest and first != rest[-1] != "0":
            ways.append(rest[-1] + rest[:-1] + first)
    return replaced(row, *chosen.span(), maker.random.choice(ways))


def wrong_date(maker: Maker, row: Row) -> Row | None:
    found = list(ANY_DATE.finditer(row["answer"]))
    if not found:
        return None
    chosen = maker.random.choice(found)
    numbers = list(re.finditer(r"\d+", chosen[0]))
    part = maker.random.choice(numbers)
    value = int(part[0])
    value = value + maker.random.choice((1, 2, -1)) if value > 31 else value % 12 + 1
    by = chosen[0][: part.start()] + f"{value:0{len(part[0])}d}" + chosen[0][part.end() :]
    if sorted(re.findall(r"\d+", by)) == sorted(re.findall(r"\d+", chosen[0])):
        return None
    return replaced(row, *chosen.span(), by)


STRANGERS = ("Oracle", "Zephyr Labs", "Marta Lindqvist", "CouchDB", "Brussels", "Jenkins", "Osaka")
CAPITALISED = re.compile(r"(?<=[a-zа-яé,] )[A-Z][A-Za-z]{3,}(?: [A-Z][a-z]{2,})*(?=[ ,.;)])")


def wrong_name(maker: Maker, row: Row) -> Row | None:
    text = row["answer"]
    if "`" in text and not quotation_free(text):
        return None
    found = [
        each
        for each in CAPITALISED.finditer(text)
        if quotation_free(text) and each[0] not in MONTHS.split()
    ]
    if not found or re.match(r"\b(Der|Die|Das|Im|Ein|Wenn|Sie)\b", text) or " der " in text:
        return None  # German nouns are capitalised like names
    chosen = maker.random.choice(found)
    return replaced(row, *chosen.span(), maker.random.choice(STRANGERS))


def wrong_code(maker: Maker, row: Row) -> Row | None:
    found = [
        each
        for each in re.finditer(r"`([^`\s]{3,40})`", row["answer"])
        if not re.fullmatch(r"[\d.,]+", each[1])
    ]
    if not found or not quotation_free(row["answer"]):
        return None
    chosen = maker.random.choice(found)
    code = chosen[1]
    ways = [code.replace("_", "-")] if "_" in code.strip("_") else []
    core = re.match(r"[\w-]+", code.lstrip("-./\"'"))
    if core:
        end = code.index(core[0]) + core.end()
        ways += [code[:end] + each + code[end:] for each in ("_all", "s2", "Async")]
    if not ways:
        return None
    by = maker.random.choice(ways)
    return replaced(row, *chosen.span(1), by)


def neighbour(maker: Maker, row: Row) -> Row | None:
    found = list(re.finditer(r"\[(\d)\]", row["answer"]))
    chosen = maker.random.choice(found)
    wrong = maker.random.choice([each for each in (1, 2, 3, 4) if each != int(chosen[1])])
    made = replaced(row, *chosen.span(), f"[{wrong}]")
    if made is None:
        return None
    # The fault is the sentence: from the citation before it to this one.
    start = max((each.end() for each in found if each.end() <= chosen.start()), default=0)
    return {**made, "fault": [start, chosen.end()], "right": int(chosen[1])}


NOT = {
    "is": "is not",
    "are": "are not",
    "can": "cannot",
    "does": "does not",
    "may": "may not",
}


def negation(maker: Maker, row: Row) -> Row | None:
    found = list(re.finditer(rf"(?<= )(?:{'|'.join(NOT)})(?= [a-z])", row["answer"]))
    if not found or not quotation_free(row["answer"]):
        return None
    chosen = maker.random.choice(found)
    return replaced(row, *chosen.span(), NOT[chosen[0]])


PLANTS: dict[str, Planted] = {
    "figure": wrong_figure,
    "date": wrong_date,
    "name": wrong_name,
    "code": wrong_code,
    "neighbour's citation": neighbour,
    "negation": negation,
}


def make(more: Sequence[Row] = ()) -> list[Row]:
    """The set, of the passages here and ``more``."""
    passages = [*read(DATA / "proof-passages.jsonl"), *more]
    maker = Maker(passages, read(DATA / "proof-notes.jsonl"))
    rows = [maker.clean() for _ in range(CLEAN)]
    for kind, count in (*FAULTS.items(), *OUT_OF_REACH.items()):
        rows += [maker.faulty(kind) for _ in range(count)]
    return rows


# Measuring


def pieces_of(row: Row, passages: Sequence[Row]) -> list[Piece]:
    pieces = []
    for number, at in enumerate(row["pieces"], 1):
        passage = passages[at]
        text = passage["text"]
        citation = Citation(
            dataset_id="d",
            doc_name=passage["doc"],
            version=1,
            start=0,
            end=len(text),
            heading_path=tuple(passage["heading"].split(" > ")),
            text=text,
        )
        pieces.append(Piece(number=number, citation=citation))
    return pieces


def claims_of(row: Row, passages: Sequence[Row]) -> tuple[Claim, ...]:
    return prove(row["answer"], pieces_of(row, passages), row["question"])


def measure(show: int, more: Sequence[Row] = ()) -> dict[str, Any]:
    """Recall by kind and half, and false alarms; prints up to ``show`` of each kind of error.

    With ``more`` passages of a set that is made of them, too.
    """
    notes = read(DATA / "proof-notes.jsonl")
    passages = [*read(DATA / "proof-passages.jsonl"), *more, *notes]
    rows = make(more) if more else read(DATA / "proof.jsonl")
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    claims: Counter[str] = Counter()
    alarms: Counter[str] = Counter()
    shown: Counter[str] = Counter()
    begun = time.process_time()
    for row in rows:
        found = claims_of(row, passages)
        wrong = [each for each in found if each.status != "supported"]
        kind = row["kind"]
        if kind == "clean":
            claims.update(each.kind for each in found)
            alarms.update(each.kind for each in wrong)
            hit = bool(wrong)
        else:
            start, end = row["fault"]
            hit = any(each.start < end and start < each.end for each in wrong)
            if "right" in row and hit:
                named = {each.found.number for each in wrong if each.found}
                counted["right number"].update({"named": row["right"] in named, "of": 1})
        half = "test" if row["passage"] % 2 else "tune"
        counted[kind].update({half: 1, f"{half} found": hit})
        if half == "tune" and hit is (kind == "clean") and shown[kind] < show:
            shown[kind] += 1
            print(
                f"--- {kind}, {half}: {row['answer']}\n    fault {row.get('fault')}",
                *wrong,
                sep="\n    ",
            )
    seconds = time.process_time() - begun
    return {"counted": counted, "claims": claims, "alarms": alarms, "seconds": seconds}


def report(measured: dict[str, Any]) -> None:
    counted = measured["counted"]

    def line(name: str, kinds: Sequence[str]) -> None:
        row = [name]
        for half in ("tune", "test"):
            of = sum(counted[kind][half] for kind in kinds)
            found = sum(counted[kind][f"{half} found"] for kind in kinds)
            row.append(f"{found} of {of} ({found / max(of, 1):.3f})")
        print("| " + " | ".join(row) + " |")

    print("| found | tune | test |\n|---|---|---|")
    for kind in (*FAULTS, *OUT_OF_REACH):
        line(kind if kind in FAULTS else f"{kind} (out of reach)", [kind])
    line("all but what is out of reach", list(FAULTS))
    line("false alarms, answers", ["clean"])
    named = counted.pop("right number")
    print(f"\nneighbour's citations with the right number: {named['named']} of {named['of']}")
    claims, alarms = measured["claims"], measured["alarms"]
    told = ", ".join(f"{kind} {alarms[kind]} of {claims[kind]}" for kind in sorted(claims))
    print(f"false alarms by claim: {told}")
    answers = sum(each["tune"] + each["test"] for each in counted.values())
    print(f"CPU time of an answer: {measured['seconds'] / answers * 1000:.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "task", nargs="?", choices=("measure", "make", "passages"), default="measure"
    )
    parser.add_argument("fastapi", nargs="?", type=Path, help="FastAPI's folder docs")
    parser.add_argument("--show", type=int, default=0, metavar="N")
    given = parser.parse_args()
    if given.task == "passages":
        write(DATA / "proof-passages.jsonl", own_passages())
    elif given.task == "make":
        write(DATA / "proof.jsonl", make())
    else:
        more = [] if given.fastapi is None else fastapi_passages(given.fastapi)
        report(measure(given.show, more))


if __name__ == "__main__":
    main()
