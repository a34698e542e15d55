"""The contracts of change events: who sends them, and who acts on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from triptych.records import ChangeEvent, RebuildReport, RebuildScope


class Rebuilder(Protocol):
    """The consumer of change events: the Service, and a directory sync, are Rebuilders."""

    def rebuild(self, scope: RebuildScope) -> RebuildReport:
        """Bring everything in ``scope`` up to date; failures are in the report."""
        ...


class EventNotifier(Protocol):
    """The producer of change events: a watcher of files, a consumer of messages.

    It is an iterator rather than a method that is asked with a timeout, because that is what
    watchers and message consumers are made of: a generator around one of them, and a `close`
    that sets its stop flag, are a whole notifier.

    One that can tell when its reader has taken everything in has ``join()``, which returns once
    each event of before the call was handed over, or after `close`.
    """

    def events(self) -> Iterator[ChangeEvent]:
        """Every event once, as it comes; waits for the next one, and ends after `close`.

        Called once, and read by one thread of the reader's. Order does not matter. Nothing
        is lost in between: what cannot be named one by one comes as a bulk event, of a
        dataset or, with ``dataset_id`` "", of all. May raise what it likes, and ends by it.
        """
        ...

    def close(self) -> None:
        """End `events` soon, also while it waits. From any thread; idempotent.

        May be called before `events`, which then ends at once, after what was waiting.
        """
        ...
