"""The report of a reloader on each of its rebuilds."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from triptych.records import RebuildReport, RebuildScope


@attrs.frozen(kw_only=True, slots=True)
class RebuildRecord:
    """One rebuild that a reloader has made, or tried to make.

    Attributes:
        scope: what was to be rebuilt.
        events: how many events asked for it, those of failed windows before it included.
        attempt: 1, and one more for every failure in a row before it.
        duration: seconds.
        report: what the rebuild did, its cost included; None when it raised.
        error: what it raised; None when it did not. A report with ``failed`` items is a
            failure as well, without an error.
        retry: what is pending again because it failed; None when nothing is.
        retry_in: seconds until it is tried again without new events; None when it is not:
            all was done, or the named dataset is gone, or the reloader was closed.
    """

    scope: RebuildScope
    events: int
    attempt: int
    duration: float
    report: RebuildReport | None = None
    error: Exception | None = attrs.field(default=None, eq=False)
    retry: RebuildScope | None = None
    retry_in: float | None = None


RebuildCallback = Callable[[RebuildRecord], None]
"""Called after each rebuild, in the thread that rebuilds: events go on being gathered, but the
next rebuild waits for it."""
