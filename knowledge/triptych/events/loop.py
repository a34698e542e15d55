"""The loop of a reloader: collects events in a window, rebuilds its scope and reports.

Scopes form a join-semilattice: sets of documents, up to the maximum of a scope, below their
dataset, below everything. `join_scopes` is associative, commutative and idempotent, so that a
window is only one scope, independent of the number and order of its events.
"""

from __future__ import annotations

import logging
import math
import threading
from random import Random

import attrs

from triptych import deadlines
from triptych.contracts import Rebuilder
from triptych.errors import CancelledError, NotFoundError, ValidationError
from triptych.events.options import Clock, RebuildCallback, RebuildRecord, ReloaderOptions, wait_for
from triptych.records import ChangeEvent, EventKind, RebuildReport, RebuildScope


def scope_of(event: ChangeEvent) -> RebuildScope:
    """Return the scope of an event: its document, its dataset, or everything.

    A bulk event, or one without ``doc_name``, means the whole dataset; one without ``dataset_id``,
    all datasets.
    """
    doc_name = "" if event.kind is EventKind.BULK else event.doc_name
    return _narrowest(event.dataset_id, doc_name)


def join_scopes(left: RebuildScope | None, right: RebuildScope | None) -> RebuildScope | None:
    """Return the smallest scope that covers both; None covers nothing."""
    if left is None or right is None or left == right:
        return right if left is None else left
    if left.dataset_id != right.dataset_id:
        return RebuildScope()
    names = {*left.doc_names, *right.doc_names} if left.doc_names and right.doc_names else ()
    if len(names) > RebuildScope.MAX_DOC_NAMES:
        names = ()
    return RebuildScope(dataset_id=left.dataset_id, doc_names=names)


def failed_scope(report: RebuildReport) -> RebuildScope | None:
    """The smallest scope that covers what a rebuild could not do; None when all was done."""
    scope: RebuildScope | None = None
    for failure in report.failed:
        scope = join_scopes(scope, _narrowest(failure.dataset_id, failure.name))
    return scope


def _narrowest(dataset_id: str, doc_name: str) -> RebuildScope:
    """The document if such a one can exist, else the dataset if it can, else everything.

    A watcher can meet file names that no document can have, undecodable bytes for one: what
    is wider than it had to be is rebuilt all the same, and what is stale in it is found.
    """
    if dataset_id:
        for name in (doc_name, ""):
            try:
                return RebuildScope(dataset_id=dataset_id, doc_name=name)
            except ValidationError:
                continue
    return RebuildScope()


_MAX_DOUBLINGS = 64


@attrs.frozen(kw_only=True, slots=True)
class Taken:
    """A window on its way into a rebuild."""

    scope: RebuildScope
    events: int
    attempt: int


class Window:
    """What is pending, and when it is due: pure bookkeeping, with the time as an argument. Not
    thread-safe: the reloader's lock guards it.

    Fresh events are due ``debounce`` after the last of them, and at the latest ``max_delay``
    after the first. What failed is due when its backoff has passed. Both are one window, due
    at whichever comes first: a new event is often the repair, and must not be held back by
    an old failure.
    """

    def __init__(self, options: ReloaderOptions, random: Random) -> None:
        self._options = options
        self._random = random
        self._first = self._last = 0.0
        self._fresh = False
        self._retry_at: float | None = None
        self._events = 0
        self._failures = 0
        self.scope: RebuildScope | None = None

    def add(self, scope: RebuildScope, now: float) -> bool:
        """An event touched ``scope`` at ``now``; whether the window may be due sooner by it.

        Only the first fresh event can do that: all others put it off.
        """
        self.scope = join_scopes(self.scope, scope)
        self._events += 1
        self._last = now
        if self._fresh:
            return False
        self._fresh, self._first = True, now
        return True

    def due(self) -> float | None:
        """When the next rebuild may start; None while nothing asks for one."""
        times = [] if self._retry_at is None else [self._retry_at]
        if self._fresh:
            options = self._options
            times.append(min(self._last + options.debounce, self._first + options.max_delay))
        return min(times, default=None)

    def take(self) -> Taken:
        """Everything that is pending; the window is empty afterwards."""
        assert self.scope is not None  # the caller has looked
        taken = Taken(scope=self.scope, events=self._events, attempt=self._failures + 1)
        self.scope, self._retry_at = None, None
        self._fresh, self._events = False, 0
        return taken

    def done(self) -> None:
        """What was taken needs no further rebuild."""
        self._failures = 0

    def failed(self, taken: Taken, left: RebuildScope, now: float) -> float:
        """``left`` of what was taken failed: it is pending again; the seconds until its retry.

        The wait doubles with every failure in a row, and is drawn from the upper half of its
        range, so that the reloaders of several processes do not retry in step ("equal
        jitter": M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015).
        """
        doublings = min(self._failures, _MAX_DOUBLINGS)
        ceiling = min(self._options.backoff_initial * 2.0**doublings, self._options.backoff_max)
        wait = ceiling * self._random.uniform(0.5, 1.0)
        self._failures += 1
        self._retry_at = now + wait
        self.put_back(taken, left)
        return wait

    def put_back(self, taken: Taken, left: RebuildScope) -> None:
        """``left`` of what was taken was not rebuilt; nothing says when it will be."""
        self.scope = join_scopes(left, self.scope)
        self._events += taken.events


_logger = logging.getLogger("triptych.events")


@attrs.define(eq=False)
class _Flush:
    """Somebody who waits for all that was pending when they asked."""

    taken: bool = False
    done: bool = False
    report: RebuildReport | None = None
    error: Exception | None = None


@attrs.define(eq=False, slots=False)
class RebuildLoop:
    """`run` is called once, by one thread; everything else by any, at any time.

    ``changed`` guards all of it, and its owner's state as well. It is reentrant, so that a
    signal handler in the thread of `run` can close.
    """

    _options: ReloaderOptions
    _clock: Clock
    _random: Random
    _on_rebuild: RebuildCallback | None

    def __attrs_post_init__(self) -> None:
        self.changed: threading.Condition = threading.Condition(threading.RLock())
        self._window = Window(self._options, self._random)
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
