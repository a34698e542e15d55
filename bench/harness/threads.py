"""Searches of many threads at once, also beside a writer: how many a second, and whether all
hold."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence
from typing import Any

from harness.corpus import Edit, Feed, document_of
from harness.system import System

SECONDS = 2.0
A_TRY = 0.2  # of a corpus too small to time
WORTH_TIMING = 1_000
THREADS = (1, 2, 8)
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


def rate(
    system: System, feed: Feed, lane: str, threads: int, *, writing: bool = False
) -> dict[str, float]:
    """Searches a second of so many threads; ``writing``: while a writer writes."""
    counts = [0] * threads
    errors: list[BaseException] = []
    writer = _Writer(system, feed.edits if writing else ())
    began = time.perf_counter()
    stop = began + (SECONDS if feed.size >= WORTH_TIMING else A_TRY)

    def search(number: int) -> None:
        try:
            asked = itertools.cycle(feed.asked["mixed"])
            for text, vector in itertools.islice(asked, number * 7, None):
                if time.perf_counter() > stop:
                    return
                hits = system.search(lane, text, vector, LIMIT)
                least = 0 if lane == "keyword" else LIMIT  # words may stand in fewer chunks
                if len(hits) < least or any(not content for _, content in hits):
                    raise RuntimeError(f"a search beside others found {len(hits)} of {LIMIT}")
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


def threads(system: System, feed: Feed) -> dict[str, Any]:
    """Searches a second of one, two and eight threads in the poorest and the richest lane.

    The better of two turns each.
    """
    found: dict[str, Any] = {}
    for lane in dict.fromkeys((system.lanes[0], system.lanes[-1])):
        turns = [
            {count: rate(system, feed, lane, count)["searches_per_second"] for count in THREADS}
            for _ in range(2)
        ]
        best = {count: max(turn[count] for turn in turns) for count in THREADS}
        found[lane] = {f"{count}_over_1": round(best[count] / best[1], 2) for count in THREADS}
        found[lane] |= {str(count): best[count] for count in THREADS}
    return found


def beside_a_writer(system: System, feed: Feed) -> dict[str, Any]:
    """Searches a second of one thread and of eight, in turn and twice; what the writer lost."""
    lane = system.lanes[-1]
    one, many = [], []
    for _ in range(2):
        one.append(rate(system, feed, lane, 1, writing=True))
        many.append(rate(system, feed, lane, max(THREADS), writing=True))
    rates = [max(run["searches_per_second"] for run in runs) for runs in (one, many)]
    searched = "keyword" if "keyword" in system.lanes else "vector"
    lost = 0
    for edit in feed.edits:
        hits = system.search(searched, edit.needle, edit.chunk.vector, LIMIT)
        lost += all(document_of(hit) != edit.document.name for hit, _ in hits)
    return {"one": one, "eight": many, "ratio": round(rates[1] / rates[0], 2), "lost": lost} | {
        "one_per_second": rates[0],
        "eight_per_second": rates[1],
    }
