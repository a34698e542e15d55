"""Building pages of changes from a store's log, by the rules of `ChangeReader`.

A run of pages covers the changes committed after ``base`` and up to ``until``, the end of the log
when the run began. Later changes belong to the next run. So all pages of a run describe the
difference between the same two states.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from triptych import deadlines
from triptych.contracts import ChangeReader
from triptych.errors import NotAvailableError, ValidationError
from triptych.records import (
    ChangeCursor,
    ChangeKind,
    ChangePage,
    DocumentChange,
    check_identifier,
    check_whole,
)
from triptych.records.values import check_number


class LogHead(NamedTuple):
    """The end of the log: the greatest committed number and its mark."""

    number: int
    mark: str


class ChangeRow(NamedTuple):
    """A change: its number, its document, and how the document changed since the run's base."""

    number: int
    dataset_id: str
    name: str
    version: int
    kind: ChangeKind


class ChangeLogReader(Protocol):
    """A snapshot of the change log, of one dataset or of all.

    A document that is deleted and stored again is a new one for the log.
    """

    def head(self) -> LogHead:
        """The end of the log."""
        ...

    def mark(self, number: int) -> str:
        """Return the random mark of a position; mark and number identify one history.

        Copies of a log that are written separately have different marks from then on.
        """
        ...

    def forgotten(self) -> int:
        """Return the greatest number of a deletion that the log has dropped, 0 for none."""
        ...

    def rows(self, *, after: int, base: int, until: int, limit: int) -> Sequence[ChangeRow]:
        """Return the first ``limit`` changes with numbers above ``after`` up to ``until``, in
        order.

        An existing document has its last change; it is "added" if no document of this name existed
        at ``base``. A deletion is included if it is the last of its name up to ``until``, and a
        document of this name existed at ``base`` but not at ``until``.
        """
        ...


def read_page(log: ChangeLogReader, since: ChangeCursor | None, limit: int) -> ChangePage:
    """Return the page of at most ``limit`` changes after ``since``; see
    `ChangeReader.read_changes`.

    With a ``limit`` of 0 it only tells by ``reset`` whether the store can continue from ``since``.
    """
    head = log.head()
    reset = since is not None and not _continues(log, head, since)
    position = base = 0
    end = head
    if since is not None and not reset:
        position = base = since.number
        if since.base is not None and since.until is not None:
            base, end = since.base, LogHead(since.until, since.mark)
    found = log.rows(after=position, base=base, until=end.number, limit=limit + 1)
    if not found and limit and end.number < head.number and not reset:
        return read_page(log, ChangeCursor(number=end.number, mark=end.mark), limit)
    changes = tuple(
        DocumentChange(
            dataset_id=row.dataset_id,
            name=row.name,
            kind=row.kind,
            version=row.version,
            cursor=str(_cursor(row.number, base, end)),
        )
        for row in found[:limit]
    )
    cut = 0 < limit < len(found)
    return ChangePage(
        changes=changes,
        cursor=changes[-1].cursor if cut else str(_cursor(end.number, base, end)),
        reset=reset,
        more=cut or end.number < head.number,
    )


def _continues(log: ChangeLogReader, head: LogHead, since: ChangeCursor) -> bool:
    """Return whether ``since`` is of this log, and all deletions after its base are in it."""
    if since.marked > head.number or log.mark(since.marked) != since.mark:
        return False
    base = since.number if since.base is None else since.base
    # Who began with nothing misses no deletion of what was gone by then; what is forgotten of the
    # time after that is found when the run is over.
    return base == 0 or log.forgotten() <= base


def _cursor(number: int, base: int, end: LogHead) -> ChangeCursor:
    if number == end.number:
        return ChangeCursor(number=number, mark=end.mark)
    return ChangeCursor(number=number, mark=end.mark, base=base, until=end.number)


LIMIT = 10_000
"""Maximum number of changes of a page."""


def read_changes(
    reader: ChangeReader | None, since: str | None, dataset_id: str | None, limit: int
) -> ChangePage:
    """Return the result of `Service.changes`."""
    cursor = None if since is None else ChangeCursor.parse(since)
    if dataset_id is not None:
        check_identifier(dataset_id, "dataset_id")
    if check_whole(limit, "limit", least=1) > LIMIT:
        raise ValidationError(f"limit is at most {LIMIT:,}, not {limit!r:.60}: read page by page")
    if reader is None:
        raise NotAvailableError("this store has no change log")
    if cursor is not None and max(cursor.number, cursor.until or 0) > sys.maxsize:
        raise ValidationError(f"{since!r} is not a cursor of changes: its number is too large")
    return reader.read_changes(cursor, dataset_id=dataset_id, limit=limit)


def check_poll(poll: object) -> float:
    """Check that ``poll`` is a number of seconds above 0; return it.

    Raises:
        ValidationError: it is not.
    """
    return check_number(poll, "poll", above=True, of="seconds")


def next_wait(poll: float) -> float:
    """Return the seconds until the next check: ``poll``, or less if the deadline is nearer.

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
    """Yield each page with changes or a reset; check for another every ``poll`` seconds.

    A page is read only if ``head`` has changed since the last one.
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
