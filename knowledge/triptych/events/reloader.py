"""The reloader: starting and ending the threads of its loop."""

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
    """Debounces the events of a notifier and rebuilds what they affect, one rebuild at a time.

    - A rebuild starts ``debounce`` after the last event of a window, and no later than
      ``max_delay`` after its first. Events during a rebuild form the next window.
    - The scope is the smallest that covers the window: some documents of one dataset; the dataset,
      if it was named itself or more than `RebuildScope.MAX_DOC_NAMES` of its documents were; else
      everything.
    - If a rebuild raises, exceeds ``rebuild_timeout`` or reports ``failed`` items, its scope, or
      that of the failed items, remains pending. It is retried with exponential backoff. A new event
      ends the wait: the merged window is due by the first rule.
    - `NotFoundError` from the rebuild of a dataset or document drops the window, because there is
      nothing to rebuild.
    - When the notifier ends by itself, the pending scope is tried once more, and `run` returns.

    Call `run` in your own thread, or `start`; call `close` before you close the target. A reloader
    runs only once. Without target or notifier its methods do nothing, so that a program can create
    one unconditionally.
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
        """Connect a Rebuilder to a notifier; nothing runs yet.

        ``on_rebuild`` is called after each rebuild; its errors are logged and stop nothing. Without
        it failed rebuilds are logged as warnings. The logger is ``triptych.events``. ``clock`` and
        ``random`` (for the backoff's jitter) are for tests.

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
        """The scope that waits for a rebuild or a retry; None if there is none.

        A scope that is being rebuilt is not pending. After `close`, an unfinished scope is.
        """
        return self._loop.pending

    def run(self) -> None:
        """Collect events and rebuild until `close` is called or the notifier ends.

        After `close` it returns at once. A deadline around the call ends it too.

        Raises:
            NotAvailableError: this reloader was run or started before.
            CancelledError: the deadline around this call passed or was cancelled.
            Exception: the error of the notifier's `events`, after the pending scope was tried.
        """
        if self._parts is not None and self._claim():
            self._work(*self._parts)

    def start(self) -> None:
        """Call `run` in a new thread and return at once.

        Errors of `run` are logged by the logger ``triptych.events``. A reloader that still runs
        when the interpreter exits is closed then.

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
        """Rebuild the pending scope now and wait for it; return None if nothing was pending.

        It first waits for a running rebuild. It covers every event that the notifier has yielded,
        and for a `QueueNotifier` every event from before the call.

        Raises:
            NotAvailableError: the reloader is not running, or this is its own thread.
            CancelledError: the reloader was closed meanwhile; or the deadline around this call
                passed, while the rebuild continues.
            Exception: the error of the rebuild. Its scope remains pending.
        """
        if self._parts is None:
            return None
        if threading.get_ident() in self._own_threads:
            raise NotAvailableError(
                "flush waits for a rebuild, so neither a rebuild nor on_rebuild can call it: "
                "the pending scope will be rebuilt when it is due"
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

        The rebuild stops between batches; committed work remains. After this no rebuild or callback
        runs. In a rebuild, a callback or a signal handler in the thread of `run`, it does not wait:
        `run` then returns as soon as it has control again. Idempotent; callable from any thread.

        Raises:
            Exception: the error of the notifier's `close`, after everything else was done.
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
        """Return whether the run may start; False if the reloader is already closed."""
        with self._changed:
            if self._claimed:
                raise NotAvailableError("a reloader runs only once: create a new EventReloader")
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
        """Close it only once; return whether closing succeeded."""
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
