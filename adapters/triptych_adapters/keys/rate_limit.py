"""How often a key may ask: a bucket of tokens for each (Turner, New directions, 1986)."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

import attrs

__all__ = ["RateLimiter"]

_MOST = 10_000  # buckets that are kept; a key that has none begins with a full one


@attrs.define
class _Bucket:
    rate: float  # a second
    most: float
    left: float
    at: float


class RateLimiter:
    """One bucket for each key that has a limit. Each process counts by itself. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, key_id: str, requests_per_minute: int | None, requests: int = 1) -> float:
        """Take so many tokens; 0.0 where they were there, else after how many seconds they are."""
        if requests_per_minute is None:
            return 0.0
        now, most = self._clock(), float(requests_per_minute)
        with self._lock:
            bucket = self._buckets.get(key_id)
            if bucket is None or bucket.most != most:
                bucket = self._buckets[key_id] = _Bucket(most / 60, most, most, now)
            self._buckets.move_to_end(key_id)
            while len(self._buckets) > _MOST:
                self._buckets.popitem(last=False)
            bucket.left = min(bucket.most, bucket.left + (now - bucket.at) * bucket.rate)
            bucket.at = now
            if bucket.left < requests:
                return (requests - bucket.left) / bucket.rate
            bucket.left -= requests
            return 0.0
