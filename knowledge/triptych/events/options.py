"""How an `EventReloader` times its rebuilds."""

from __future__ import annotations

import math
from typing import Any

import attrs

from triptych.errors import ValidationError


@attrs.frozen(kw_only=True, slots=True)
class ReloaderOptions:
    """Times of an `EventReloader`, all in seconds.

    Attributes:
        debounce: a rebuild starts when no event has come for this long; 0 waits for nothing.
        max_delay: under a steady stream of events, it starts this long after the first.
        rebuild_timeout: the deadline of one rebuild; None sets none. What the rebuild has
            committed by then stays, and the window counts as failed.
        backoff_initial: how long after the first failure a window is tried again.
        backoff_max: the wait doubles with every failure in a row, up to this.

    Raises:
        ValidationError: a field is not a duration, ``max_delay`` is below ``debounce``, or
            ``backoff_max`` below ``backoff_initial``.
    """

    debounce: float = 0.5
    max_delay: float = 5.0
    rebuild_timeout: float | None = 30.0
    backoff_initial: float = 1.0
    backoff_max: float = 300.0

    def __attrs_post_init__(self) -> None:
        _check_seconds(self.debounce, "debounce")
        _check_seconds(self.max_delay, "max_delay")
        if self.rebuild_timeout is not None:
            _check_seconds(self.rebuild_timeout, "rebuild_timeout", positive=True)
        _check_seconds(self.backoff_initial, "backoff_initial", positive=True)
        _check_seconds(self.backoff_max, "backoff_max", positive=True)
        if self.max_delay < self.debounce:
            raise ValidationError(
                f"max_delay ({self.max_delay}) is below debounce ({self.debounce}), which "
                "could then never be waited for: raise the one or lower the other"
            )
        if self.backoff_max < self.backoff_initial:
            raise ValidationError(
                f"backoff_max ({self.backoff_max}) is below backoff_initial "
                f"({self.backoff_initial}): raise the one or lower the other"
            )


def _check_seconds(value: Any, what: str, *, positive: bool = False) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and math.isfinite(value) and (value > 0 or (value == 0 and not positive)):
        return
    least = "above 0" if positive else "from 0 up"
    raise ValidationError(f"{what} is a finite number of seconds {least}, not {value!r:.60}")
