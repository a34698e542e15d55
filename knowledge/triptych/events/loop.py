"""The loop inside a reloader: waits until its window is due, rebuilds, and reports."""

from __future__ import annotations

import logging
import math
import threading
from random import Random

import attrs

from triptych import deadlines
from triptych.contracts import Rebuilder
from triptych.errors import CancelledError, NotFoundError
from triptych.events.clock import Clock
from triptych.events.options import ReloaderOptions
from triptych.events.record import RebuildCallback, RebuildRecord
from triptych.events.scopes import failed_scope, scope_of
from triptych.events.wait import wait_for
from triptych.events.window import Taken, Window
from triptych.records import ChangeEvent, RebuildReport, RebuildScope

_logger = logging.getLogger("triptych.events")


@attrs.define(eq=False)
class _Flush:
    """Somebody who waits for all that was pending when they asked."""

    taken: bool = False
    done: bool = False
    report: RebuildReport | None = None
    error: Exception | None = None


class RebuildLoop:
    """`run` is called once, by one thread; everything else by any, at any time.

    ``changed`` guards all of it, and its owner's state as well. It is reentrant, so that a
    signal handler in the thread of `run` can close.
    """

    def __init__(
        self,
        options: ReloaderOptions,
        clock: Clock,
        random: Random,
        on_rebuild: RebuildCallback | None,
    ) -> None:
        self.changed: threading.Condition = threading.Condition(threading.RLock())
        self._options = options
        self._clock = clock
        self._on_rebuild = on_rebuild
        self._window = Window(options, random)
        self._flushes: list[_Flush] = []
        self._rebuilding: deadlines.CancelScope | None = None
        self._ended = self._last = False
        self.closing: bool = False

    @property
    def pending(self) -> RebuildScope | None:
        """What waits for a rebuild."""
        with self.changed:
            return self._window.scope

    def add(self, event: ChangeEvent) -> None:
        """An event came now."""
        scope = scope_of(event)
        with self.changed:
            if self._window.add(scope, self._clock.now()):
                self.changed.notify_all()

    def end(self) -> None:
        """No event will come any more: try what is pending once, then return."""
        with self.changed:
            self._ended = True
            self.changed.notify_all()

    def close(self) -> None:
        """Begin no further rebuild, and cancel the one that runs."""
        with self.changed:
            self.closing = True
            if self._rebuilding is not None:
                self._rebuilding.cancel()
            self.changed.notify_all()

    def flush(self) -> RebuildReport | None:
        """Make what is pending due now, and wait; the caller holds ``changed``."""
        flush = _Flush()
        self._flushes.append(flush)
        self.changed.notify_all()
        try:
            wait_for(self.changed, lambda: flush.done, "flushing the event reloader")
        finally:
            if flush in self._flushes:
                self._flushes.remove(flush)
        if flush.error is not None:
            raise flush.error
        return flush.report

    def dismiss_flushes(self) -> None:
        """The loop has ended: nobody is waited for in vain."""
        with self.changed:
            error = CancelledError("the event reloader has ended before it could flush")
            self._answer(self._flushes, error=error)

    def run(self, target: Rebuilder) -> None:
        """Rebuild what comes due, until closed or ended."""
        while not self._last and (taken := self._next()) is not None:
            self._rebuild(target, taken)

    def _next(self) -> Taken | None:
        """Wait for the next window to come due; None when there will be none."""
        with self.changed:
            while not self.closing:
                if self._window.scope is None:
                    self._answer(self._flushes)
                    if self._ended:
                        return None
                left = self._seconds_left()
                if left <= 0:
                    for flush in self._flushes:
                        flush.taken = True
                    self._last = self._ended
                    return self._window.take()
                deadlines.check("running the event reloader")
                allowed = deadlines.remaining()
                left = left if allowed is None else min(left, allowed)
                self._clock.wait(self.changed, None if math.isinf(left) else left)
            return None

    def _seconds_left(self) -> float:
        """Until the next rebuild is due; infinity while nothing asks for one."""
        if self._window.scope is not None and (self._ended or self._flushes):
            return 0.0
        due = self._window.due()
        return math.inf if due is None else due - self._clock.now()

    def _rebuild(self, target: Rebuilder, taken: Taken) -> None:
        """One attempt: what it leaves undone is pending again."""
        started = self._clock.now()
        report: RebuildReport | None = None
        error: Exception | None = None
        left: RebuildScope | None = taken.scope
        try:
            with deadlines.deadline(self._options.rebuild_timeout) as cancel:
                if not self._may_begin(cancel):
                    return
                done = target.rebuild(taken.scope)
                report, left = done, failed_scope(done)
        except Exception as raised:  # noqa: BLE001 - a rebuild may fail in any way; it is reported
            error = raised
            if isinstance(raised, NotFoundError) and taken.scope.dataset_id:
                left = None
        finally:
            with self.changed:
                self._rebuilding = None
                retry_in = self._settle(taken, left)
        self._tell(
            RebuildRecord(
                scope=taken.scope,
                events=taken.events,
                attempt=taken.attempt,
                duration=self._clock.now() - started,
                report=report,
                error=error,
                retry=left,
                retry_in=retry_in,
            )
        )
        with self.changed:
            waiting = [flush for flush in self._flushes if flush.taken]
            self._answer(waiting, report=report, error=error)

    def _may_begin(self, cancel: deadlines.CancelScope) -> bool:
        """From here on `close` cancels; False when it came before."""
        with self.changed:
            if self.closing:
                return False
            self._rebuilding = cancel
            return True

    def _settle(self, taken: Taken, left: RebuildScope | None) -> float | None:
        """Put back what is left undone; the seconds until its retry, None without one."""
        if left is None:
            self._window.done()
        elif self.closing or self._last:
            self._window.put_back(taken, left)
        else:
            return self._window.failed(taken, left, self._clock.now())
        return None

    def _tell(self, record: RebuildRecord) -> None:
        if self._on_rebuild is None:
            if not self.closing:
                self._log(record)
            return
        try:
            self._on_rebuild(record)
        except Exception:
            _logger.exception("on_rebuild failed; the event reloader goes on")

    def _log(self, record: RebuildRecord) -> None:
        """Nobody listens for rebuilds, and a failure must not pass in silence."""
        failed = () if record.report is None else record.report.failed
        error = failed[0].error if failed else record.error
        if error is None:
            return
        after = "dropped" if record.retry is None else "kept pending"
        if record.retry_in is not None:
            after = f"tried again in {record.retry_in:.1f} s"
        _logger.warning(
            "a rebuild failed, attempt %d of %s: %s: %s; it is %s",
            record.attempt,
            record.scope,
            type(error).__name__,
            error,
            after,
        )

    def _answer(
        self,
        flushes: list[_Flush],
        *,
        report: RebuildReport | None = None,
        error: Exception | None = None,
    ) -> None:
        for flush in flushes:
            flush.done, flush.report, flush.error = True, report, error
        self._flushes = [flush for flush in self._flushes if not flush.done]
        self.changed.notify_all()
