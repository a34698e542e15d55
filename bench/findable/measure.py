"""Asks sets of questions of a checkout of Triptych, in a process of its own.

python -m findable.measure --work DIR --out FILE SET.json ...
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import triptych
from context import Question, held
from findable.sets import Asked, QuestionSet, read_set
from findable.vectors import VectorCache
from triptych import NewDocument, Service
from triptych.errors import NotAvailableError
from triptych.records import Hit
from triptych_evaluation.metrics import ndcg_at

MODES = ("bm25", "vector", "hybrid")
K = 10
DATASET = "d"
BUDGETS = (2_000, 4_000)


def reciprocal(asked: Asked, hits: Sequence[Hit]) -> float:
    """One over the rank of the first chunk that has a line which answers; 0 without one."""
    for rank, hit in enumerate(hits, 1):
        if hit.doc_name in asked.answers:
            lines = asked.answers[hit.doc_name]
            last = hit.start_line + hit.content.rstrip("\n").count("\n")
            if not lines or any(hit.start_line <= line <= last for line in lines):
                return 1 / rank
    return 0.0


def gain(asked: Asked, hits: Sequence[Hit]) -> float:
    """nDCG of documents."""
    return ndcg_at(K, [hit.doc_name for hit in hits], dict.fromkeys(asked.answers, 1))


def documents(made: QuestionSet) -> list[NewDocument]:
    """The set's documents, with the titles that it has."""
    return [
        NewDocument(
            name=name,
            content=text,
            metadata={"title": made.titles[name]} if name in made.titles else {},
        )
        for name, text in made.texts.items()
    ]


def ranked(kb: Service, made: QuestionSet) -> dict[str, Any]:
    """The value of each question in each mode, in the order of the questions."""
    over_chunks = made.metric == "mrr"
    search, value = (kb.search, reciprocal) if over_chunks else (kb.search_documents, gain)

    def valued(each: Asked, mode: str) -> float:
        try:
            return value(each, search(each.text, dataset_id=DATASET, mode=mode, top_k=K).hits)
        except NotAvailableError:  # the embedder does not know the question's language
            return 0.0

    return {mode: [valued(each, mode) for each in made.asked] for mode in MODES}


def strength(kb: Service, text: str) -> str:
    """What a search says of itself, in the words of whichever version says it."""
    result = kb.search(text, dataset_id=DATASET, top_k=K)
    if not result.hits:
        return "none"
    evidence = getattr(result, "evidence", None)
    return str(getattr(result, "strength", None) if evidence is None else evidence.level)


def strengths(kb: Service, made: QuestionSet) -> dict[str, Any]:
    """What is said of each question: as it is, of foreign ones, and without its answer.

    Answers are deleted by halves, and the questions of the other half are asked then too.
    """
    found = {
        "answerable": [strength(kb, each.text) for each in made.asked],
        "foreign": [strength(kb, each) for each in made.foreign],
        "gone": [],
    }
    kept = {each.name: each for each in documents(made)}
    for half in (made.asked[0::2], made.asked[1::2]):
        gone = sorted({name for each in half for name in each.answers})
        for name in gone:
            kb.delete_document(DATASET, name)
        found["gone"] += [strength(kb, each.text) for each in half]
        kb.put_documents(DATASET, [kept[name] for name in gone])
    return found


def packed(kb: Service, made: QuestionSet) -> dict[str, Any]:
    """Of each question and budget: the share of its passages in the context, and its tokens."""
    asked = [
        Question(
            id=str(at),
            text=each.text,
            evidence=tuple(
                (
                    name,
                    frozenset(
                        at for at in range(first, last) if not made.texts[name][at].isspace()
                    ),
                )
                for name, first, last in each.passages
            ),
        )
        for at, each in enumerate(made.asked)
    ]
    found: dict[str, Any] = {}
    for budget in BUDGETS:
        packs = [kb.context(each.text, budget, dataset_id=DATASET) for each in asked]
        shares = [held(each, pack.pieces) for each, pack in zip(asked, packs, strict=True)]
        found[str(budget)] = {"held": shares, "tokens": [pack.tokens for pack in packs]}
    return found


MEASURES = {"mrr": ranked, "ndcg": ranked, "strength": strengths, "context": packed}


def measure(kb: Service, made: QuestionSet) -> dict[str, Any]:
    """What the set's metric measures."""
    report = kb.put_documents(DATASET, documents(made))
    values = MEASURES[made.metric](kb, made)
    return {"metric": made.metric, "chunks": report.chunks, "values": values}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sets", type=Path, nargs="+")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--ranker", help="else the one that the checkout takes")
    options = parser.parse_args()
    # Ended from outside, it takes its store away.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    wired: Any = {"ranker": options.ranker} if options.ranker else {}
    cache = VectorCache(options.work / "vectors.db")
    found = {}
    for path in options.sets:
        made = read_set(path)
        began, before = time.monotonic(), cache.made
        try:
            embedder = cache.embedder(made.embedder)
            embedder.embed([""], kind="query")
        except NotAvailableError as error:
            print(f"{made.name} is left out: {error}", file=sys.stderr, flush=True)
            continue
        with (
            tempfile.TemporaryDirectory(dir=options.work) as folder,
            triptych.open(Path(folder, "kb.db"), embedder=embedder, **wired) as kb,
        ):
            found[made.name] = measure(kb, made)
        took = time.monotonic() - began
        print(
            f"{made.name}: {found[made.name]['chunks']} chunks, {len(made.asked)} questions, "
            f"{cache.made - before} texts embedded, {took:.1f} s",
            file=sys.stderr,
            flush=True,
        )
        options.out.write_text(json.dumps(found), encoding="utf-8")
    cache.close()


if __name__ == "__main__":
    main()
