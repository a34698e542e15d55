"""A notifier for programs that report their own changes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator

from triptych.errors import ValidationError
from triptych.events.options import wait_for
from triptych.records import ChangeEvent, EventKind, check_whole


class QueueNotifier:
    """An `EventNotifier` to which any thread of the program can report changes.

    It holds at most ``capacity`` events and loses no change: if more are waiting, the events of
    each dataset become one bulk event; if there are too many datasets, all become one bulk event
    for all datasets. An event replaces an equal waiting one. `notify` never blocks.
    """

    def __init__(self, *, capacity: int = 1024) -> None:
        """Hold at most ``capacity`` events, 1 or more.

        Raises:
            ValidationError: ``capacity`` is not a whole number from 1 up.
        """
        self._capacity = check_whole(capacity, "capacity", least=1)
        self._changed = threading.Condition()
        self._waiting: OrderedDict[ChangeEvent, None] = OrderedDict()
        self._in_hand = False
        self._closed = False

    def notify(self, event: ChangeEvent) -> bool:
        """Report a change; return False if the notifier is closed and the event is lost.

        Raises:
            ValidationError: ``event`` is not a `ChangeEvent`.
        """
        if not isinstance(event, ChangeEvent):
            raise ValidationError(f"notify takes a ChangeEvent, not {type(event).__name__}")
        with self._changed:
            if self._closed:
                return False
            self._waiting[event] = None
            self._waiting.move_to_end(event)
            if len(self._waiting) > self._capacity:
                self._collapse()
            self._changed.notify_all()
            return True

    def events(self) -> Iterator[ChangeEvent]:
        """Yield every event in order, for one reader; end after `close` when all were read."""
        while (event := self._next()) is not None:
            yield event

    def join(self) -> None:
        """Return once the reader has received each event from before this call, or after `close`.

        Raises:
            CancelledError: the deadline around this call passed, such as without a reader.
        """
        with self._changed:
            wait_for(self._changed, self._taken_in, "waiting for the reader of events")

    def close(self) -> None:
        """Accept no more events; `events` ends after the waiting ones. Idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _next(self) -> ChangeEvent | None:
        with self._changed:
            # A reader that asks for the next event is done with the one before.
            self._in_hand = False
            self._changed.notify_all()
            while not self._waiting and not self._closed:
                self._changed.wait()
            if not self._waiting:
                return None
            self._in_hand = True
            event, _ = self._waiting.popitem(last=False)
            return event

    def _taken_in(self) -> bool:
        return self._closed or not (self._waiting or self._in_hand)

    def _collapse(self) -> None:
        datasets = dict.fromkeys(event.dataset_id for event in self._waiting)
        # Half of the room stays free, so that a full queue is not collapsed at every event.
        if "" in datasets or len(datasets) > max(1, self._capacity // 2):
            datasets = {"": None}
        self._waiting = OrderedDict(
            (ChangeEvent(kind=EventKind.BULK, dataset_id=dataset_id), None)
            for dataset_id in datasets
        )
