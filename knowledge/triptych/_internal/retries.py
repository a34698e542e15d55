"""Retries: how often, and after which pauses."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import attrs

from triptych._internal.numbers import number
from triptych.records.values import whole

MOST_ATTEMPTS = 1_000

_SLICE = 0.05  # seconds between two looks at whether the call was cancelled


@attrs.frozen(kw_only=True, slots=True)
class Retries:
    """When a failed attempt is made again.

    The pause before attempt n + 1 is uniform between 0 and ``min(longest, base * 2**(n - 1))``
    seconds ("full jitter"; M. Brooker, Exponential Backoff and Jitter, 2015). A provider that
    says how long to wait (``Retry-After``) is given that and up to a tenth more; when it asks
    for more than ``longest``, the call ends at once.
    """

    attempts: int = attrs.field(default=4, validator=whole(least=1, most=MOST_ATTEMPTS))
    base: float = attrs.field(default=0.5, validator=number(of="seconds"))
    longest: float = attrs.field(default=60.0, validator=number(of="seconds"))

    def pause(
        self, made: int, retry_after: float | None, rng: random.Random | None = None
    ) -> float | None:
        """Seconds to wait after ``made`` failed attempts; None when no other may follow."""
        if made >= self.attempts:
            return None
        chance = (rng or random).random()
        if retry_after is None:
            return chance * min(self.longest, self.base * 2.0 ** (made - 1))
        if retry_after > self.longest:
            return None
        return retry_after * (1.0 + 0.1 * chance)


def wait(seconds: float, check: Callable[[], None]) -> None:
    """Sleep, and let ``check`` raise as soon as there is nothing to wait for."""
    until = time.monotonic() + seconds
    while True:
        check()
        left = until - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(left, _SLICE))
