"""Warnings of a lane that answered, but otherwise than it should have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_COLLECTED: ContextVar[list[str] | None] = ContextVar("lane_warnings", default=None)


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect what the lanes warn of, in threads with a copy of this context too."""
    collected: list[str] = []
    token = _COLLECTED.set(collected)
    try:
        yield collected
    finally:
        _COLLECTED.reset(token)


def warn(message: str) -> None:
    """Add a warning to the result of the search that is under way, if there is one."""
    collected = _COLLECTED.get()
    if collected is not None and message not in collected:
        collected.append(message)
