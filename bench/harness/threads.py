"""Searches of many threads at once, beside a writer: how many a second, and whether all hold."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence
from typing import Any

from harness.corpus import Edit, Feed, document_of
from harness.system import System

SECONDS = 6.0
A_TRY = 0.2  # of a corpus too small to time
WORTH_TIMING = 1_000
THREADS = 8
LIMIT = 10
WRITES_PER_SECOND = 40
"""A writer without a pace takes what the searchers leave: the same system then shows fewer
searches when its writes become cheaper."""


class _Writer(threading.Thread):
    """Deletes documents and puts them in again, at a pace, until it is stopped."""

    def __init__(self, system: System, edits: Sequence[Edit]) -> None:
        super().__init__(daemon=True)
        self._system = system
        self._edits = edits
        self._stop_now = threading.Event()
        self.writes = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        due = time.perf_counter()
        try:
            for edit in itertools.cycle(self._edits):
                if self._stop_now.wait(max(0.0, due - time.perf_counter())):
                    break
                self._system.delete(edit.document.name)
                self._system.replace(edit)
                self.writes += 2
                # A writer that fell behind does not catch up in a burst.
                due = max(due + 2 / WRITES_PER_SECOND, time.perf_counter())
        except BaseException as error:  # noqa: BLE001 - told by the caller
            self.error = error

    def finish(self) -> None:
        self._stop_now.set()
        self.join()
        if self.error is not None:
            raise self.error


def _rate(system: System, feed: Feed, lane: str, threads: int) -> dict[str, float]:
    """Searches a second of so many threads, while a writer writes."""
    asked = list(zip(feed.queries, feed.query_vectors, strict=True))
    counts = [0] * threads
    errors: list[BaseException] = []
    writer = _Writer(system, feed.edits)
    began = time.perf_counter()
    stop = began + (SECONDS if feed.chunks >= WORTH_TIMING else A_TRY)

    def search(number: int) -> None:
        try:
            for text, vector in itertools.islice(itertools.cycle(asked), number * 7, None):
                if time.perf_counter() > stop:
                    return
                hits = system.search(lane, text, vector, LIMIT)
                if len(hits) != LIMIT or any(not content for _, content in hits):
                    raise RuntimeError(f"a search beside a writer found {len(hits)} of {LIMIT}")
                counts[number] += 1
        except BaseException as error:  # noqa: BLE001 - told by the caller
            errors.append(error)

    searchers = [threading.Thread(target=search, args=(at,), daemon=True) for at in range(threads)]
    writer.start()
    for one in searchers:
        one.start()
    for one in searchers:
        one.join()
    took = time.perf_counter() - began
    writer.finish()
    if errors:
        raise errors[0]
    return {
        "searches_per_second": round(sum(counts) / took, 1),
        "writes_per_second": round(writer.writes / took, 1),
    }


def throughput(system: System, feed: Feed) -> dict[str, Any]:
    """One thread's searches a second and eight's, in turn and twice; what the writer lost."""
    lane = system.lanes[-1]
    one, many = [], []
    for _ in range(2):
        one.append(_rate(system, feed, lane, 1))
        many.append(_rate(system, feed, lane, THREADS))
    rates = [max(run["searches_per_second"] for run in runs) for runs in (one, many)]
    searched = "keyword" if "keyword" in system.lanes else "vector"
    lost = 0
    for edit in feed.edits:
        hits = system.search(searched, edit.needle, edit.chunk.vector, LIMIT)
        lost += all(document_of(hit) != edit.document.name for hit, _ in hits)
    return {
        "lane": lane,
        "threads": THREADS,
        "one": one,
        "many": many,
        "one_per_second": rates[0],
        "many_per_second": rates[1],
        "ratio": round(rates[1] / rates[0], 2),
        "lost": lost,
    }
