"""Reading a store's changes: a page, or page after page as they come."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator

from triptych import deadlines
from triptych.contracts import ChangeReader
from triptych.errors import NotAvailableError, ValidationError
from triptych.records import ChangeCursor, ChangePage, check_identifier, check_whole

__all__ = ["LIMIT", "check_poll", "follow_changes", "next_wait", "read_changes"]

LIMIT = 10_000
"""Maximum number of changes of a page."""


def read_changes(
    reader: ChangeReader | None, since: str | None, dataset_id: str | None, limit: int
) -> ChangePage:
    """What `Service.changes` returns."""
    cursor = None if since is None else ChangeCursor.parse(since)
    if dataset_id is not None:
        check_identifier(dataset_id, "dataset_id")
    if check_whole(limit, "limit", least=1) > LIMIT:
        raise ValidationError(f"limit is at most {LIMIT:,}, not {limit!r:.60}: read page by page")
    if reader is None:
        raise NotAvailableError("this store has no log of its changes")
    if cursor is not None and max(cursor.number, cursor.until or 0) > sys.maxsize:
        raise ValidationError(f"{since!r} is no cursor of changes: its number is too great")
    return reader.read_changes(cursor, dataset_id=dataset_id, limit=limit)


def check_poll(poll: object) -> float:
    """Return ``poll``, if it is a number of seconds above 0.

    Raises:
        ValidationError: it is not.
    """
    if isinstance(poll, int | float) and not isinstance(poll, bool):
        seconds = float(poll)
        if math.isfinite(seconds) and seconds > 0:
            return seconds
    raise ValidationError(f"poll is a number of seconds above 0, not {poll!r:.60}")


def next_wait(poll: float) -> float:
    """Seconds to the next look: ``poll``, or what the deadline around the loop leaves.

    Raises:
        CancelledError: the deadline passed.
    """
    deadlines.check("following the changes")
    left = deadlines.remaining()
    return poll if left is None else min(poll, left)


def follow_changes(
    page_after: Callable[[str | None], ChangePage],
    head: Callable[[], str],
    since: str | None,
    poll: float,
) -> Iterator[ChangePage]:
    """Yield each page that says something; look for another every ``poll`` seconds.

    A page is read only where ``head`` has changed since the last one was.
    """
    while True:
        # Read first: what is committed in between is seen the next time.
        seen = head()
        page = page_after(since)
        since = page.cursor
        if page.changes or page.reset:
            yield page
        while not page.more and head() == seen:
            time.sleep(next_wait(poll))
        deadlines.check("following the changes")
