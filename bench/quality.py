"""Retrieval quality on a collection in BEIR layout, through the public API.

    python bench/quality.py scifact.zip --store /tmp/scifact.db
    python bench/quality.py cmrc2018.zip --embedder local

Puts the collection (title and text as the content, the title as metadata), runs every test
query in every mode at document level, and prints nDCG@10 with a paired randomisation test of
hybrid against each lane. A store that is there already is used as it is.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import attrs

import triptych
from triptych import ChunkConfig, Progress
from triptych.chunking import default_chunkers
from triptych.evaluation import compare_modes, evaluate, read_beir, write_evaluation
from triptych.search.fusion import RANKERS

K = 10


def show(progress: Progress) -> None:
    print(f"\r{progress.phase}: {progress.done}", end="", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("collection", type=Path, help="a folder or a zip in BEIR layout")
    parser.add_argument("--embedder", default="local")
    parser.add_argument("--store", default="memory://")
    parser.add_argument("--ranker", choices=list(RANKERS), default="z-score")
    parser.add_argument("--queries", type=int, default=None, help="only the first so many")
    parser.add_argument("--chunk-size", type=int, help="windows of so many code points")
    parser.add_argument("--no-title", action="store_true", help="no title before the chunks")
    parser.add_argument("--json", type=Path, help="write the whole evaluation here")
    options = parser.parse_args()

    collection = read_beir(options.collection)
    by_id = sorted(collection.queries, key=lambda query: query.query_id)
    collection = attrs.evolve(collection, queries=tuple(by_id[: options.queries]))
    size = options.chunk_size
    config = ChunkConfig() if size is None else ChunkConfig(size=size, overlap=size // 8)
    with triptych.open(
        options.store,
        embedder=options.embedder,
        ranker=options.ranker,
        chunkers=default_chunkers(config),
    ) as kb:
        if "collection" not in kb.list_datasets():
            assert collection.documents is not None
            documents = collection.documents()
            if options.no_title:
                documents = (attrs.evolve(document, metadata={}) for document in documents)
            began = time.perf_counter()
            report = kb.put_documents("collection", documents, progress=show)
            took = time.perf_counter() - began
            print(f"\nput {report.added} documents, {report.chunks} chunks in {took:.0f} s")
        print(kb.stats("collection")[0])
        found = evaluate(kb, collection, dataset_id="collection", cutoffs=(K,))
    for warning in found.warnings:
        print(f"warning: {warning}")
    for mode, result in found.modes.items():
        ndcg = result.estimates[f"ndcg@{K}"]
        print(f"{mode:8} nDCG@{K} {ndcg.mean:.4f} [{ndcg.low:.4f}, {ndcg.high:.4f}]")
        for warning in result.warnings:
            print(f"         warning: {warning}")
    for mode in ("bm25", "vector"):
        if {mode, "hybrid"} <= set(found.modes):
            (gain,) = compare_modes(found, mode, "hybrid", metrics=[f"ndcg@{K}"]).differences
            print(f"hybrid - {mode:6} {gain.estimate.mean:+.4f}   p = {gain.p:.4f}")
    if options.json:
        write_evaluation(options.json, found)


if __name__ == "__main__":
    main()
