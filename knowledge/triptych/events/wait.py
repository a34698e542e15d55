"""Waiting on a condition inside a deadline."""

from __future__ import annotations

import threading
from collections.abc import Callable

from triptych import deadlines

POLL = 0.1


def wait_for(condition: threading.Condition, predicate: Callable[[], bool], doing: str) -> None:
    """Wait until ``predicate`` holds; the caller holds ``condition``.

    Raises:
        CancelledError: the deadline around this call passed, or was cancelled.
    """
    while not predicate():
        deadlines.check(doing)
        left = deadlines.remaining()
        # Cancelling a deadline cannot notify this condition, so it is looked for.
        condition.wait(POLL if left is None else min(left, POLL))
