"""The reloader: the loop's threads, and their beginning and end."""

from __future__ import annotations

import atexit
import logging
import threading
from random import Random

from triptych._internal.close_on_exit import CloseOnExit
from triptych.contracts import EventNotifier, Rebuilder
from triptych.errors import NotAvailableError, ValidationError
from triptych.events.loop import RebuildLoop
from triptych.events.options import LOOK_UP, Clock, RebuildCallback, ReloaderOptions, SystemClock
from triptych.records import ChangeEvent, RebuildReport, RebuildScope

_logger = logging.getLogger("triptych.events")


class EventReloader(CloseOnExit):
    """Debounces the events of a notifier, and rebuilds what they touch, one rebuild at a time.

    - A rebuild starts on the trailing edge: ``debounce`` after the last event of a window,
      and no later than ``max_delay`` after its first. Events that come while one is running
      form the next window.
    - Its scope is the smallest that covers the window: some documents of one dataset; the
      dataset, when it was touched itself or more than `RebuildScope.MAX_DOC_NAMES` of its
      documents were; else everything.
    - A rebuild that raises, runs into ``rebuild_timeout`` or reports ``failed`` items leaves
      its scope, or that of the failed items, pending. It merges with what comes next, and
      is retried with exponential backoff without new events; a new event ends the wait, and
      the merged window is due by the rule above.
    - `NotFoundError` from the rebuild of a dataset or document drops the window: there is
      nothing to rebuild, and a dataset that comes back does so by a put, which derives.
    - When the notifier ends of itself, what is pending is tried once more, and `run` returns.

    Call `run` in a thread of your own, or `start`; then `close`, before the target is closed.
    A reloader works once. Without target or notifier it does nothing, whatever is called, so
    that a program can wire one up unconditionally.
    """

    def __init__(
        self,
        target: Rebuilder | None,
        notifier: EventNotifier | None,
        options: ReloaderOptions | None = None,
        *,
        on_rebuild: RebuildCallback | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        """Wire a Rebuilder to a notifier; nothing runs yet.

        ``on_rebuild`` is called after each rebuild. Without one, rebuilds that fail are logged as
        warnings by the logger ``triptych.events``. What it raises is logged as an error by the
        logger ``triptych.events``, and stops nothing. ``clock`` and ``random`` (the backoff's
        jitter) are for tests.

        Raises:
            ValidationError: ``options`` is not a `ReloaderOptions`.
        """
        if options is not None and not isinstance(options, ReloaderOptions):
            raise ValidationError(f"options is a ReloaderOptions, not {type(options).__name__}")
        self._parts = None if target is None or notifier is None else (target, notifier)
        self._loop = RebuildLoop(
            options or ReloaderOptions(), clock or SystemClock(), random or Random(), on_rebuild
        )
        self._changed = self._loop.changed
        self._claimed = self._running = False
        self._thread: threading.Thread | None = None
        self._own_threads: set[int] = set()
        self._reading_error: Exception | None = None
        self._notifier_lock = threading.RLock()
        self._notifier_closed: bool | None = None

    @property
    def pending(self) -> RebuildScope | None:
        """What waits for a rebuild, or failed and waits for its retry; None when nothing does.

        A scope that is being rebuilt is not pending. After `close`, what was left undone is.
        """
        return self._loop.pending

    def run(self) -> None:
        """Gather events and rebuild until `close` is called, or the notifier ends.

        After `close` it returns at once. A deadline around the call ends it as well, by
        passing or by being cancelled.

        Raises:
            NotAvailableError: this reloader has been run, or started, before.
            CancelledError: the deadline around this call passed, or was cancelled.
            Exception: what the notifier's events raised, once what was pending was tried.
        """
        if self._parts is not None and self._claim():
            self._work(*self._parts)

    def start(self) -> None:
        """`run` in a thread of its own; returns at once.

        What `run` would raise is logged as an error by the logger ``triptych.events``. A
        reloader that still runs when the interpreter exits is closed then.

        Raises:
            NotAvailableError: as `run`.
        """
        if self._parts is None or not self._claim():
            return
        # A daemon, because the interpreter calls its exit handlers only once all other
        # threads have ended: without one, a forgotten close would hang the program for ever.
        self._thread = threading.Thread(
            target=self._thread_main, args=self._parts, name="triptych-events", daemon=True
        )
        atexit.register(self.close)
        try:
            self._thread.start()
        except BaseException:
            self._thread = None
            self._finish()
            raise

    def flush(self) -> RebuildReport | None:
        """Rebuild what is pending now, and wait for it; None when nothing was.

        A rebuild that is running is waited for first. Covers every event that the notifier
        has handed over, and of a `QueueNotifier` every event of before the call.

        Raises:
            NotAvailableError: the reloader is not running, or this is its own thread.
            CancelledError: the reloader was closed meanwhile; or the deadline around this
                call passed, and the rebuild goes on.
            Exception: what the rebuild raised. Its scope stays pending, as ever.
        """
        if self._parts is None:
            return None
        if threading.get_ident() in self._own_threads:
            raise NotAvailableError(
                "flush waits for a rebuild, so neither a rebuild nor on_rebuild can call it: "
                "what is pending will be rebuilt when it is due"
            )
        self._check_running()
        join = getattr(self._parts[1], "join", None)
        if join is not None:
            join()
        with self._changed:
            self._check_running()
            return self._loop.flush()

    def close(self) -> None:
        """Cancel a running rebuild, close the notifier, and wait until `run` has returned.

        The rebuild stops between batches, and what it has committed stays. When this
        returns, no rebuild and no callback is running or ever will. Called from inside a
        rebuild, a callback or a signal handler in the thread of `run`, it does not wait:
        `run` then returns as soon as it has control again. Idempotent, from any thread, at
        any time.

        Raises:
            Exception: what the notifier's close raised; all else is done nevertheless.
        """
        if self._parts is None:
            return
        self._loop.close()
        try:
            self._close_notifier(self._parts[1])
        finally:
            if threading.get_ident() not in self._own_threads:
                with self._changed:
                    while self._running:
                        self._changed.wait(LOOK_UP)
                if self._thread is not None:
                    self._thread.join()

    def _claim(self) -> bool:
        """Whether the one run may begin; False when the reloader is closed already."""
        with self._changed:
            if self._claimed:
                raise NotAvailableError(
                    "a reloader runs once, and this one has: make a new EventReloader"
                )
            self._claimed = True
            self._running = not self._loop.closing
            return self._running

    def _check_running(self) -> None:
        with self._changed:
            if not self._running:
                raise NotAvailableError("this reloader is not running: start it, then flush it")

    def _thread_main(self, target: Rebuilder, notifier: EventNotifier) -> None:
        try:
            self._work(target, notifier)
        except Exception:
            _logger.exception("the event reloader has ended: fix the cause and make a new one")

    def _work(self, target: Rebuilder, notifier: EventNotifier) -> None:
        reader = threading.Thread(
            target=self._read, args=(notifier,), name="triptych-events-reader", daemon=True
        )
        try:
            self._own_threads.add(threading.get_ident())
            reader.start()
            self._loop.run(target)
        finally:
            try:
                if self._close_notifier(notifier) and reader.ident is not None:
                    reader.join()
            finally:
                self._own_threads.discard(threading.get_ident())
                self._finish()
        # Once closed, a notifier has ended as it should, in whatever way.
        if self._reading_error is not None and not self._loop.closing:
            raise self._reading_error

    def _read(self, notifier: EventNotifier) -> None:
        """Move events from the notifier to the loop, until it ends."""
        self._own_threads.add(threading.get_ident())
        try:
            for event in notifier.events():
                if not isinstance(event, ChangeEvent):
                    raise ValidationError(
                        f"a notifier gives ChangeEvents, not {type(event).__name__}"
                    )
                self._loop.add(event)
        except Exception as error:  # noqa: BLE001 - it may fail in any way; `run` raises it
            self._reading_error = error
        finally:
            self._own_threads.discard(threading.get_ident())
            self._loop.end()

    def _close_notifier(self, notifier: EventNotifier) -> bool:
        """Close it once, whoever comes first; whether it could be closed."""
        with self._notifier_lock:
            if self._notifier_closed is None:
                self._notifier_closed = False
                notifier.close()
                self._notifier_closed = True
            return self._notifier_closed

    def _finish(self) -> None:
        atexit.unregister(self.close)
        with self._changed:
            self._running = False
            self._loop.dismiss_flushes()
            self._changed.notify_all()
