"""Time limits of parsers that run in the caller's own process."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from triptych import deadlines
from triptych.errors import ParseError

_Each = TypeVar("_Each")
_STEPS = 2048


def timed(steps: Iterable[_Each], name: str, seconds: float) -> Iterator[_Each]:
    """``steps``, as long as they and what is done with them take no more than ``seconds``.

    Raises:
        ParseError: they took longer.
        CancelledError: the deadline around this call has passed.
    """
    end = time.monotonic() + seconds
    for count, each in enumerate(steps):
        if count % _STEPS == _STEPS - 1:
            deadlines.check(f"reading {name!r}")
            if time.monotonic() > end:
                raise ParseError(
                    f"{name!r} could not be read in {seconds:g} seconds: split it, or raise "
                    "seconds of ParseLimits"
                )
        yield each
