"""Contexts over several kinds of collection: is the best piece right, and does the context answer?

    python bench/mixed_context.py --work DIR fastapi-docs.zip rust-book.zip [--locomo FOLDER]
    python bench/mixed_context.py --work DIR fastapi-docs.zip --try beside=0 best_chunk=0

The sets: FastAPI's pages with the passages of their questions; short notes (bench/data) beside
these pages and beside the Rust book, asked in their own words and in others; R's small tables, by
the words of their titles; functions of Celery, by their docstrings; and, from the ten JSON files of
LoCoMo (https://github.com/snap-research/locomo, CC BY-NC 4.0), conversations, a document each
session, whose answers are turns. pip downloads the packages into DIR, where the stores stay.

"First" is the share of questions whose best piece is of a document that answers, beside the first
hit of the search; "held" the mean share of a question's passages that the context holds as a whole
within so many tokens. With ``--try`` each field of `ContextParameters` is a variant, compared with
the defaults by a paired bootstrap (95%) over the questions of each set; a comma joins fields into
one variant. ``--search`` compares with the plain chunks of a search, in their order.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs
import numpy as np

import triptych
from build_collections import Packages
from context import Question, held, plain
from findable import code, given, pages
from findable.sets import SEED, Asked, QuestionSet
from triptych.answers import ContextParameters
from triptych.layers import LayerBuilder
from triptych.records import NewDocument
from triptych.service import Service
from triptych.text.tokens import ESTIMATE

NOTES = Path(__file__).parent / "data/short-notes.jsonl"
BUDGETS = (300, 1_000)
DATASET = "docs"
CONVERSATIONS, TURNS = 2, 50
Values = dict[str, list[float]]
"""By measure, the value of each question."""


def notes(beside: QuestionSet) -> Iterator[QuestionSet]:
    """Short notes beside the documents of another set, asked in their words and in others."""
    rows = [json.loads(line) for line in NOTES.read_text(encoding="utf-8").splitlines()]
    texts = {row["name"]: row["text"] for row in rows} | dict(beside.texts)
    for kind in ("asked", "reworded"):
        asked = [
            Asked(text=text, answers={row["name"]: ()}, passages=[(row["name"], *_body(row))])
            for row in rows
            for text in row[kind]
        ]
        yield QuestionSet(
            name=f"notes by {beside.name.removeprefix('context ')}, {kind}",
            metric="context",
            texts=texts,
            asked=asked,
        )


def _body(row: Mapping[str, str]) -> tuple[int, int]:
    """Where a note's text stands, without its heading."""
    start = row["text"].find("\n\n") + 2 if row["text"].startswith("#") else 0
    return start, len(row["text"])


def tables(packages: Packages) -> QuestionSet:
    """Tables by their titles: any part of the table answers."""
    return attrs.evolve(pages.tables(packages, by="name"), name="tables", metric="context")


def conversations(folder: Path) -> Iterator[QuestionSet]:
    """Conversations, a document each session; a turn that a question names is a passage."""
    for path in sorted(folder.rglob("*.json"))[:CONVERSATIONS]:
        read = json.loads(path.read_text(encoding="utf-8"))
        texts: dict[str, str] = {}
        turns: dict[str, tuple[str, int, int]] = {}
        for at in range(1, 100):
            if not isinstance(read.get(f"session_{at}"), list):
                continue
            name = f"session {at}.md"
            text = f"{read[f'session_{at}_date_time']}\n\n"
            for turn in read[f"session_{at}"]:
                said = f"{turn['speaker']}: {turn['text']}"
                turns[turn["dia_id"]] = name, len(text), len(text) + len(said)
                text += f"{said}\n\n"
            texts[name] = text
        asked = [
            Asked(
                text=each["question"],
                answers=dict.fromkeys((turns[turn][0] for turn in each["evidence"]), ()),
                passages=[turns[turn] for turn in each["evidence"]],
            )
            for each in read["qa"]
            if each["evidence"] and all(turn in turns for turn in each["evidence"])
        ]
        asked = random.Random(SEED).sample(asked, min(TURNS, len(asked)))
        yield QuestionSet(
            name=f"conversation {path.stem}", metric="context", texts=texts, asked=asked
        )


def sets(given_zips: Sequence[Path], packages: Packages, locomo: Path | None) -> list[QuestionSet]:
    """All sets that can be made of what is given."""
    made: list[QuestionSet] = []
    for path in given_zips:
        if path.stem == "fastapi-docs":
            whole = given.contexts(path)
            asked = [
                attrs.evolve(each, answers=dict.fromkeys((n for n, _, _ in each.passages), ()))
                for each in whole.asked
            ]
            made += [attrs.evolve(whole, asked=asked), *notes(whole)]
        else:
            made += notes(given.given(path))
    made.append(tables(packages))
    found = code.contexts("celery", code.code_files(packages, "celery", True))
    made.append(found)
    if locomo is not None:
        made += conversations(locomo)
    return made


def measured(kb: Service, made: QuestionSet, *, search: bool) -> Values:
    """First and held of each question; of the chunks of a search instead, in their order."""
    values: Values = {}
    for asked in made.asked:
        evidence = tuple(
            (name, frozenset(at for at in range(*span) if not made.texts[name][at].isspace()))
            for name, *span in asked.passages
        )
        question = Question(id="", text=asked.text, evidence=evidence)
        hits = kb.search(asked.text, dataset_id=DATASET, top_k=100 if search else 1).hits
        values.setdefault("search", []).append(bool(hits) and hits[0].doc_name in asked.answers)
        for budget in BUDGETS:
            if search:
                pieces: Sequence[triptych.answers.Piece] = plain(hits, budget, ESTIMATE)
            else:
                pack = kb.context(asked.text, budget, dataset_id=DATASET, counter=ESTIMATE)
                pieces = pack.pieces
            best = min(pieces, key=lambda each: each.number, default=None)
            right = best is not None and best.citation.doc_name in asked.answers
            values.setdefault(f"first {budget}", []).append(right)
            names = {each.citation.doc_name for each in pieces if each.citation.layer == "L2"}
            found = held(question, pieces) if evidence else bool(names & asked.answers.keys())
            values.setdefault(f"held {budget}", []).append(found)
    return values


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The mean's 95% interval, by bootstrap."""
    drawn = np.random.default_rng(SEED).choice(values, (2_000, len(values))).mean(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)


def variant(text: str) -> ContextParameters:
    fields = {}
    for each in text.split(","):
        name, _, value = each.partition("=")
        fields[name] = json.loads(value)
    return ContextParameters(**fields)


def show(name: str, values: Values, base: Values | None) -> None:
    if base is None:
        cells = [f"{np.mean(each):.3f}" for each in values.values()]
    else:
        cells = []
        for measure, each in values.items():
            less = np.array(each, float) - np.array(base[measure], float)
            low, high = interval(less)
            cells.append(f"{less.mean():+.3f} [{low:+.3f}, {high:+.3f}]" if less.any() else "=")
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("zips", nargs="*", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--locomo", type=Path)
    parser.add_argument("--set", nargs="*", default=(), help="only sets whose name begins so")
    parser.add_argument("--try", dest="tried", nargs="*", default=(), metavar="FIELD=VALUE")
    parser.add_argument("--search", action="store_true", help="compare with a search's chunks")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    made = sets(options.zips, Packages(options.work), options.locomo)
    chosen = [each for each in made if each.name.startswith(tuple(options.set) or "")]
    measures = [f"{each} {budget}" for budget in BUDGETS for each in ("first", "held")]
    print(f"| set | search | {' | '.join(measures)} |")
    print("|" + "---|" * 6)
    total: dict[str, Values] = {}
    for each in chosen:
        store = options.work / f"{each.name.replace(' ', '-').split(',')[0]}.db"
        base: Values | None = None
        for way in ("", *options.tried, *(["search"] if options.search else [])):
            recipe = variant(way) if "=" in way else None
            with triptych.open(store, embedder="local", context=recipe) as kb:
                if base is None:
                    kb.put_documents(
                        DATASET,
                        [NewDocument(name=name, content=t) for name, t in each.texts.items()],
                    )
                    builder = LayerBuilder(kb)
                    builder.apply(builder.plan(DATASET))
                values = measured(kb, each, search=way == "search")
            show(f"{each.name}{', ' + way if way else f' ({len(each.asked)})'}", values, base)
            for measure, found in values.items():
                total.setdefault(way, {}).setdefault(measure, []).extend(found)
            base = values if base is None else base
    for way, values in total.items():
        show(f"all{', ' + way if way else ''}", values, total[""] if way else None)


if __name__ == "__main__":
    main()
