"""What keeps a sync from deleting most of a folder's documents by surprise.

A disk that is not mounted leaves an empty folder, and a mistaken pattern leaves files out: neither
is a reason to delete the documents. So a pass that would delete more than half of a root's
documents deletes none of them, and reports it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import attrs

WAVE = 60.0
"""Seconds without a deletion after which the next one is counted from the beginning. A watched
folder that is emptied tells of its files a few at a time, and each few alone are no half."""


@attrs.define(slots=True)
class Wave:
    """Deletions of a root that follow each other: how many it had before, how many are done."""

    documents: int
    deleted: int
    last: float


class DeletionGuard:
    """Counts what the passes of one `DirectorySync` delete, root by root. Not thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waves: dict[str, Wave] = {}

    def holds(self, key: str, count: int, documents: Callable[[], int]) -> Wave | None:
        """What the root had and lost so far, if ``count`` more deletions are too many; else None.

        ``documents`` counts those that it has; it is asked only at the beginning of a wave.
        """
        wave = self._waves.get(key)
        if wave is None or self._clock() - wave.last > WAVE:
            wave = self._waves[key] = Wave(documents(), 0, self._clock())
        return wave if 2 * (wave.deleted + count) > wave.documents else None

    def deleted(self, key: str, count: int) -> None:
        """Note that ``count`` documents of the root were deleted, if `holds` was asked of them."""
        if (wave := self._waves.get(key)) is not None:
            wave.deleted += count
            wave.last = self._clock()
