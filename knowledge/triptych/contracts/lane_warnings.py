"""The warnings that a lane adds to the result of a search, from whatever thread it runs in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

COLLECTED: ContextVar[list[str] | None] = ContextVar("lane_warnings", default=None)
"""The warnings of the current search, where they are collected."""


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect the warnings of lanes, including from threads with a copy of this context."""
    collected: list[str] = []
    token = COLLECTED.set(collected)
    try:
        yield collected
    finally:
        COLLECTED.reset(token)


def warn(message: str) -> None:
    """Add a warning to the result of the current search, if there is one."""
    collected = COLLECTED.get()
    if collected is not None and message not in collected:
        collected.append(message)
