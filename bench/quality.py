"""Retrieval quality on a collection in BEIR layout, through the public API.

    python bench/quality.py scifact.zip --store /tmp/scifact.db
    python bench/quality.py cmrc2018.zip --embedder local

Puts the collection (title and text as the content, the title as metadata), runs every test
query in every mode at document level, and prints nDCG@10 with a paired randomisation test of
hybrid against each lane. A store that is there already is used as it is.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

import triptych
from triptych import NewDocument, Progress, RRFRanker, WeightedRanker

K = 10


def read_lines(archive: zipfile.ZipFile, ending: str) -> Iterator[str]:
    name = next(name for name in archive.namelist() if name.endswith(ending))
    with archive.open(name) as lines:
        for line in lines:
            yield line.decode("utf-8").rstrip("\n")


def ndcg(ranking: list[str], grades: Mapping[str, int], k: int = K) -> float:
    """nDCG@k with linear gain (Järvelin and Kekäläinen, 2002), as trec_eval computes it."""
    gain = sum(grades.get(doc, 0) / math.log2(at + 2) for at, doc in enumerate(ranking[:k]))
    ideal = sorted(grades.values(), reverse=True)[:k]
    best = sum(grade / math.log2(at + 2) for at, grade in enumerate(ideal))
    return gain / best if best else 0.0


def p_value(left: np.ndarray, right: np.ndarray, rounds: int = 20_000) -> float:
    """Two-sided paired randomisation test on the difference of means, fixed seed."""
    difference = left - right
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(rounds, len(difference)))
    extreme = np.abs((signs * difference).mean(axis=1)) >= abs(difference.mean()) - 1e-12
    return float((extreme.sum() + 1) / (rounds + 1))


def show(progress: Progress) -> None:
    print(f"\r{progress.phase}: {progress.done}", end="", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("collection", type=Path, help="a zip in BEIR layout")
    parser.add_argument("--embedder", default="local")
    parser.add_argument("--store", default="memory://")
    parser.add_argument("--ranker", choices=["rrf", "min-max"], default="rrf")
    parser.add_argument("--queries", type=int, default=None, help="only the first so many")
    parser.add_argument("--no-title", action="store_true", help="no title before the chunks")
    parser.add_argument("--json", type=Path, help="write the per-query scores here")
    options = parser.parse_args()

    with zipfile.ZipFile(options.collection) as archive:
        corpus = [json.loads(line) for line in read_lines(archive, "corpus.jsonl")]
        texts = {
            row["_id"]: row["text"] for row in map(json.loads, read_lines(archive, "queries.jsonl"))
        }
        qrels: dict[str, dict[str, int]] = {}
        for line in list(read_lines(archive, "qrels/test.tsv"))[1:]:
            query, doc, grade = line.split("\t")
            if int(grade) > 0:
                qrels.setdefault(query, {})[doc] = int(grade)
    queries = sorted(qrels)[: options.queries]

    ranker = WeightedRanker() if options.ranker == "min-max" else RRFRanker()
    with triptych.open(options.store, embedder=options.embedder, ranker=ranker) as kb:
        if "collection" not in kb.list_datasets():
            began = time.perf_counter()
            report = kb.put_documents(
                "collection",
                (
                    NewDocument(
                        name=row["_id"],
                        content="\n\n".join(filter(None, (row.get("title"), row["text"]))),
                        metadata={"title": row["title"]}
                        if row.get("title") and not options.no_title
                        else {},
                    )
                    for row in corpus
                ),
                progress=show,
            )
            took = time.perf_counter() - began
            print(f"\nput {report.added} documents, {report.chunks} chunks in {took:.0f} s")
        print(kb.stats("collection")[0])
        scores: dict[str, np.ndarray] = {}
        for mode in ("bm25", "vector", "hybrid"):
            values, warned = [], 0
            for query in queries:
                try:
                    result = kb.search_documents(
                        texts[query], dataset_id="collection", mode=mode, top_k=K
                    )
                except (triptych.NotAvailableError, triptych.ValidationError):
                    values.append(0.0)
                    warned += 1
                    continue
                warned += bool(result.warnings)
                values.append(ndcg([hit.doc_name for hit in result.hits], qrels[query]))
            scores[mode] = np.array(values)
            print(f"{mode:8} nDCG@10 {scores[mode].mean():.4f}   ({warned} queries warned)")
        for mode in ("bm25", "vector"):
            gain = (scores["hybrid"] - scores[mode]).mean()
            p = p_value(scores["hybrid"], scores[mode])
            print(f"hybrid - {mode:6} {gain:+.4f}   p = {p:.4f}")
    if options.json:
        options.json.write_text(
            json.dumps({m: dict(zip(queries, v.tolist(), strict=True)) for m, v in scores.items()})
        )


if __name__ == "__main__":
    main()
