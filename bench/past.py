"""What a search of the past costs: the first of a moment, the next, and one after a write.

    python bench/past.py --chunks 10000

The text is that of ``bench/peers.py``, with its vectors, in SQLite. After the moment a tenth of the
documents are edited.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime

import triptych
from harness.corpus import SECTIONS, Given, ZipfText

_DATASET = "d"


def milliseconds(call: Callable[[], object], times: int = 1) -> float:
    """The median time of a call."""
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return 1000 * statistics.median(seconds)


def peak() -> float:
    """The most memory that the process had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=10_000)
    chunks = parser.parse_args().chunks
    text = ZipfText()
    documents = dict(text.documents(chunks // SECTIONS))
    with (
        tempfile.TemporaryDirectory() as folder,
        triptych.open(f"{folder}/kb.db", embedder=Given(), language="english") as kb,
    ):
        ingest = milliseconds(lambda: kb.put_documents(_DATASET, documents))
        moment = datetime.now(UTC)
        for name in list(documents)[::10]:
            kb.put_document(_DATASET, name, documents[name] + "\n\n## Added\n\nOne more.\n")
        (query,) = text.queries(1)

        def search(as_of: datetime | None = None, mode: str = "hybrid") -> triptych.Result:
            return kb.search(query, dataset_id=_DATASET, as_of=as_of, mode=mode)

        search()
        before = peak()
        found = kb.stats(_DATASET)[0].chunks
        print(f"{found:,} chunks in {len(documents):,} documents, ingested in {ingest:,.0f} ms")
        print(f"now                  {milliseconds(search, 15):9.1f} ms")
        print(f"first of a moment    {milliseconds(lambda: search(moment)):9.1f} ms")
        print(f"next                 {milliseconds(lambda: search(moment), 15):9.1f} ms")
        print(f"memory               {peak() - before:9.1f} MB")
        kb.put_document(_DATASET, next(iter(documents)), "Edited.\n")
        print(f"next, after a write  {milliseconds(lambda: search(moment)):9.1f} ms")
        later = datetime.now(UTC)
        print(f"first, by keyword    {milliseconds(lambda: search(later, 'bm25')):9.1f} ms")


if __name__ == "__main__":
    main()
