"""Asks sets of questions of a checkout of Triptych, in a process of its own.

python -m findable.measure --work DIR --out FILE SET.json ...
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import triptych
from findable.sets import Asked, QuestionSet, read_set
from findable.vectors import VectorCache
from triptych import NewDocument, Service
from triptych.evaluation.metrics import ndcg_at
from triptych.records import Hit

MODES = ("bm25", "vector", "hybrid")
K = 10
DATASET = "d"


def reciprocal(asked: Asked, hits: Sequence[Hit]) -> float:
    """One over the rank of the first chunk that has a line which answers; 0 without one."""
    for rank, hit in enumerate(hits, 1):
        lines = asked.answers.get(hit.doc_name, ())
        last = hit.start_line + hit.content.rstrip("\n").count("\n")
        if any(hit.start_line <= line <= last for line in lines):
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


def measure(kb: Service, made: QuestionSet) -> dict[str, Any]:
    """The value of each question in each mode, in the order of the questions."""
    report = kb.put_documents(DATASET, documents(made))
    over_chunks = made.metric == "mrr"
    search, value = (kb.search, reciprocal) if over_chunks else (kb.search_documents, gain)
    values = {
        mode: [
            value(each, search(each.text, dataset_id=DATASET, mode=mode, top_k=K).hits)
            for each in made.asked
        ]
        for mode in MODES
    }
    return {"metric": made.metric, "chunks": report.chunks, "values": values}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sets", type=Path, nargs="+")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    cache = VectorCache(options.work / "vectors.db")
    found = {}
    for path in options.sets:
        made = read_set(path)
        began, before = time.monotonic(), cache.made
        with (
            tempfile.TemporaryDirectory(dir=options.work) as folder,
            triptych.open(Path(folder, "kb.db"), embedder=cache.embedder(made.embedder)) as kb,
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
