"""Numbers of a database that are counted seldom: how many texts it has, how many hold a word."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final

__all__ = ["Counts"]

_SECONDS: Final = 60.0
"""So long a number is used again: what is not ours changes, but its statistics hardly."""

_MOST: Final = 10_000


class Counts:
    """Counts, kept for a minute. Thread-safe."""

    def __init__(self, seconds: float = _SECONDS) -> None:
        self._seconds = seconds
        self._known: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, count: Callable[[], int]) -> int:
        """The number that is kept under ``key``, or what ``count`` gives now."""
        with self._lock:
            kept = self._known.get(key)
        if kept is not None and time.monotonic() <= kept[0]:
            return kept[1]
        number = count()
        with self._lock:
            self._known[key] = time.monotonic() + self._seconds, number
            self._known.move_to_end(key)
            while len(self._known) > _MOST:
                self._known.popitem(last=False)
        return number
