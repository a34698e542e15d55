"""The reloader with real threads and the real clock: what races, hangs and breaks."""

from __future__ import annotations

import logging
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import triptych
from triptych import (
    CancelledError,
    NotAvailableError,
    ProviderError,
    RebuildReport,
    RebuildScope,
    ValidationError,
    deadlines,
)
from triptych.contracts import EventNotifier, Rebuilder
from triptych.events import (
    EventReloader,
    QueueNotifier,
    RebuildRecord,
    ReloaderOptions,
    SystemClock,
)
from triptych.records import ChangeEvent

pytestmark = pytest.mark.process

QUICK = ReloaderOptions(
    debounce=0.01, max_delay=0.05, backoff_initial=0.01, backoff_max=0.02, rebuild_timeout=60
)
NEVER = ReloaderOptions(debounce=3600, max_delay=3600)
"""Nothing is rebuilt by the clock: only by flush, or at the notifier's end."""

A = ChangeEvent(kind="put", dataset_id="d", doc_name="a")
B = ChangeEvent(kind="put", dataset_id="d", doc_name="b")
WAIT = 60


def ours() -> list[str]:
    return [each.name for each in threading.enumerate() if "triptych-events" in each.name]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert ours() == []
    # Those of before may end meanwhile: an earlier test's, which nobody waited for.
    assert set(threading.enumerate()) - before == set()


class Target:
    """A Rebuilder that does as it is told, and knows whether two rebuilds ever met."""

    def __init__(self, does: Callable[[RebuildScope], object] = lambda scope: None) -> None:
        self.does = does
        self.scopes: list[RebuildScope] = []
        self.began = threading.Event()
        self.ended = threading.Event()
        self.running = 0
        self.met = False

    def rebuild(self, scope: RebuildScope) -> RebuildReport:
        self.running += 1
        self.met |= self.running > 1
        self.scopes.append(scope)
        self.began.set()
        try:
            self.does(scope)
        finally:
            self.running -= 1
            self.ended.set()
        return RebuildReport(checked=1, rebuilt=1)


def hang(scope: RebuildScope) -> None:
    """Ends by cancellation alone."""
    while True:
        deadlines.check("hanging")
        threading.Event().wait(0.002)


def in_threads(*calls: Callable[[], object]) -> list[object]:
    """Run all at once; what each returned, or raised."""
    barrier = threading.Barrier(len(calls))
    ends: list[object] = [None] * len(calls)

    def one(at: int, call: Callable[[], object]) -> None:
        barrier.wait()
        try:
            ends[at] = call()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            ends[at] = error

    threads = [threading.Thread(target=one, args=each) for each in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
        assert not thread.is_alive(), "a call hangs"
    return ends


# Beginning and end


@pytest.mark.parametrize("parts", [(None, QueueNotifier()), (Target(), None), (None, None)])
def test_without_target_or_notifier_nothing_happens_in_any_order(
    parts: tuple[Rebuilder | None, EventNotifier | None],
) -> None:
    with EventReloader(*parts) as reloader:
        reloader.close()
        reloader.run()
        reloader.run()
        reloader.start()
        assert reloader.flush() is None
        assert reloader.pending is None
    if isinstance(parts[1], QueueNotifier):
        assert parts[1].notify(A), "close is a no-op: the notifier stays open"


def test_close_before_run_is_legal_and_run_then_returns_at_once() -> None:
    target, notifier = Target(), QueueNotifier()
    notifier.notify(A)
    reloader = EventReloader(target, notifier, QUICK)
    reloader.close()
    reloader.close()
    reloader.run()
    assert target.scopes == []
    assert not notifier.notify(A)


@pytest.mark.parametrize("first", ["run", "start"])
@pytest.mark.parametrize("second", ["run", "start"])
def test_a_reloader_runs_once(first: str, second: str) -> None:
    notifier = QueueNotifier()
    notifier.close()
    with EventReloader(Target(), notifier) as reloader:
        getattr(reloader, first)()
        with pytest.raises(NotAvailableError, match="runs only once"):
            getattr(reloader, second)()


def test_close_cancels_a_rebuild_that_would_never_end_and_its_scope_stays_pending() -> None:
    target, notifier = Target(hang), QueueNotifier()
    records: list[RebuildRecord] = []
    reloader = EventReloader(target, notifier, QUICK, on_rebuild=records.append)
    reloader.start()
    notifier.notify(A)
    assert target.began.wait(WAIT)
    pending = [reloader.pending]
    notifier.notify(B)
    notifier.join()
    pending.append(reloader.pending)
    assert pending == [None, RebuildScope(dataset_id="d", doc_name="b")]
    reloader.close()
    assert target.running == 0
    assert ours() == []
    assert reloader.pending == RebuildScope(dataset_id="d", doc_names=("a", "b"))
    assert [type(each.error) for each in records] == [CancelledError]
    assert (records[0].retry_in, records[0].retry) == (
        None,
        RebuildScope(dataset_id="d", doc_name="a"),
    )


def test_a_close_that_comes_just_before_a_rebuild_prevents_it() -> None:
    class ClosingClock(SystemClock):
        """Closes in the moment between taking a window and rebuilding it."""

        def now(self) -> float:
            if threading.current_thread() is threading.main_thread() and not reloader.pending:
                reloader.close()
            return super().now()

    target, notifier = Target(), QueueNotifier()
    reloader = EventReloader(target, notifier, QUICK, clock=ClosingClock())
    notifier.notify(A)
    reloader.run()
    assert target.scopes == []
    assert reloader.pending == RebuildScope(dataset_id="d", doc_name="a")


def test_close_from_inside_a_rebuild_does_not_deadlock() -> None:
    def close(scope: RebuildScope) -> None:
        reloader.close()
        deadlines.check("the rest")

    target, notifier = Target(close), QueueNotifier()
    reloader = EventReloader(target, notifier, QUICK)
    notifier.notify(A)
    reloader.run()
    assert len(target.scopes) == 1
    assert reloader.pending == RebuildScope(dataset_id="d", doc_name="a")


def test_close_from_the_callback_does_not_deadlock() -> None:
    notifier = QueueNotifier()
    reloader = EventReloader(Target(), notifier, QUICK, on_rebuild=lambda record: reloader.close())
    notifier.notify(A)
    reloader.run()
    assert reloader.pending is None


def test_close_from_the_notifiers_own_events_does_not_deadlock() -> None:
    class Closeable(QueueNotifier):
        def events(self) -> Iterator[ChangeEvent]:
            yield A
            reloader.close()

    reloader = EventReloader(Target(), Closeable(), NEVER)
    reloader.run()
    assert reloader.pending == RebuildScope(dataset_id="d", doc_name="a")


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs POSIX signals")
def test_a_signal_handler_in_the_thread_of_run_can_close() -> None:
    target = Target(lambda scope: None)
    notifier = QueueNotifier()
    reloader = EventReloader(target, notifier, QUICK)
    before = signal.signal(signal.SIGUSR1, lambda *_: reloader.close())

    def interrupt() -> None:
        assert target.ended.wait(WAIT)
        # To the main thread, as the kernel does with a signal from another process.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    helper = threading.Thread(target=interrupt)
    try:
        helper.start()
        notifier.notify(A)
        reloader.run()
    finally:
        helper.join()
        signal.signal(signal.SIGUSR1, before)
    assert target.scopes == [RebuildScope(dataset_id="d", doc_name="a")]


def test_run_takes_part_in_the_deadline_around_it() -> None:
    with triptych.deadline(0.05), pytest.raises(CancelledError, match="event reloader"):
        EventReloader(Target(), QueueNotifier()).run()


def test_cancelling_the_deadline_around_run_ends_it() -> None:
    target, notifier = Target(), QueueNotifier()

    def cancel() -> None:
        assert target.ended.wait(WAIT)
        around.cancel()

    helper = threading.Thread(target=cancel)
    notifier.notify(A)
    with triptych.deadline() as around:
        helper.start()
        with pytest.raises(CancelledError, match="event reloader"):
            EventReloader(target, notifier, QUICK).run()
    helper.join()


def test_start_leaves_the_deadline_around_it_behind() -> None:
    target, notifier = Target(), QueueNotifier()
    with EventReloader(target, notifier, NEVER) as reloader:
        with triptych.deadline(0.001):
            reloader.start()
        notifier.notify(A)
        assert reloader.flush() == RebuildReport(checked=1, rebuilt=1)


def test_a_program_that_forgets_to_close_still_exits_and_cancels_its_rebuild() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-c",
            """
import threading
from triptych import CancelledError, deadlines
from triptych.records import ChangeEvent
from triptych.events import EventReloader, QueueNotifier, ReloaderOptions

began = threading.Event()

class Hanging:
    def rebuild(self, scope):
        began.set()
        try:
            while True:
                deadlines.check()
                threading.Event().wait(0.002)
        except CancelledError:
            print("cancelled", flush=True)
            raise

notifier = QueueNotifier()
EventReloader(Hanging(), notifier, ReloaderOptions(debounce=0, max_delay=0)).start()
notifier.notify(ChangeEvent(kind="put", dataset_id="d", doc_name="a"))
began.wait()
""",
        ],
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("cancelled\n", "")


# Races


@pytest.mark.parametrize("seed", range(40))
def test_close_may_race_start_notify_flush_and_itself(seed: int) -> None:
    chance = random.Random(seed)
    target, notifier = Target(hang if seed % 3 == 0 else lambda scope: None), QueueNotifier()
    closed = threading.Event()
    late: list[RebuildRecord] = []

    def record(record: RebuildRecord) -> None:
        if closed.is_set():
            late.append(record)

    reloader = EventReloader(target, notifier, QUICK, on_rebuild=record)

    def close() -> None:
        threading.Event().wait(chance.random() / 50)
        reloader.close()
        assert target.running == 0
        closed.set()

    def produce() -> None:
        while notifier.notify(chance.choice([A, B])):
            threading.Event().wait(0.001)

    begin = reloader.run if seed % 2 else reloader.start
    ends = in_threads(begin, begin, close, close, close, produce, produce, reloader.flush)
    # The second begin is refused, in either order; a flush may find it closed, or not begun.
    assert sum(isinstance(end, NotAvailableError) for end in ends[:2]) == 1
    assert [end for end in ends[2:7] if end is not None] == []
    assert ends[7] is None or isinstance(
        ends[7], RebuildReport | NotAvailableError | CancelledError
    )
    assert (late, target.met, ours()) == ([], False, [])


def test_many_producers_and_no_event_is_lost() -> None:
    """Each tells of a number after writing it down; a rebuild reads what is written down."""
    written: dict[str, int] = {}
    seen: dict[str, int] = {}

    def read(scope: RebuildScope) -> None:
        for name in scope.doc_names or list(written):
            seen[name] = written[name]

    target, notifier = Target(read), QueueNotifier(capacity=3)

    def produce(name: str) -> None:
        for number in range(300):
            written[name] = number
            assert notifier.notify(ChangeEvent(kind="put", dataset_id="d", doc_name=name))

    with EventReloader(target, notifier, QUICK) as reloader:
        reloader.start()
        ends = in_threads(*(lambda name=name: produce(name) for name in "abcdef"))
        assert ends == [None] * 6
        reloader.flush()
        assert seen == dict.fromkeys("abcdef", 299)
        assert reloader.pending is None
    assert not target.met


def test_a_rebuild_that_hangs_is_ended_by_its_timeout_and_tried_again() -> None:
    def first_hangs(scope: RebuildScope) -> None:
        if len(target.scopes) == 1:
            hang(scope)
        second.set()

    second = threading.Event()
    target, notifier = Target(first_hangs), QueueNotifier()
    records: list[RebuildRecord] = []
    options = ReloaderOptions(
        debounce=0, rebuild_timeout=0.05, backoff_initial=0.01, backoff_max=0.01
    )
    with EventReloader(target, notifier, options, on_rebuild=records.append) as reloader:
        reloader.start()
        notifier.notify(A)
        assert second.wait(WAIT)
    assert isinstance(records[0].error, CancelledError)
    assert (records[0].attempt, records[0].retry) == (1, target.scopes[0])
    assert [each.attempt for each in records[:2]] == [1, 2]


# Flush


def test_flush_rebuilds_what_was_told_before_and_raises_what_the_rebuild_raises() -> None:
    def fail(scope: RebuildScope) -> None:
        raise ProviderError("no answer")

    target, notifier = Target(), QueueNotifier()
    with EventReloader(target, notifier, NEVER) as reloader:
        reloader.start()
        for _ in range(50):
            notifier.notify(A)
            assert reloader.flush() == RebuildReport(checked=1, rebuilt=1)
        assert len(target.scopes) == 50
        assert reloader.flush() is None
        target.does = fail
        notifier.notify(B)
        with pytest.raises(ProviderError, match="no answer"):
            reloader.flush()
        assert reloader.pending == RebuildScope(dataset_id="d", doc_name="b")
        target.does = lambda scope: None
        assert reloader.flush() is not None


def test_flush_waits_for_a_running_rebuild_and_for_what_came_during_it() -> None:
    go_on = threading.Event()
    target, notifier = Target(lambda scope: go_on.wait(WAIT)), QueueNotifier()
    with EventReloader(target, notifier, QUICK) as reloader:
        reloader.start()
        notifier.notify(A)
        assert target.began.wait(WAIT)
        notifier.notify(B)
        flushing = threading.Thread(target=reloader.flush)
        flushing.start()
        go_on.set()
        flushing.join(WAIT)
        assert not flushing.is_alive()
        assert [each.doc_name for each in target.scopes] == ["a", "b"]


def test_flush_is_refused_where_it_would_wait_for_itself_or_for_nobody() -> None:
    def flush(scope: RebuildScope) -> None:
        reloader.flush()

    records: list[RebuildRecord] = []
    notifier = QueueNotifier()
    reloader = EventReloader(Target(flush), notifier, QUICK, on_rebuild=records.append)
    with pytest.raises(NotAvailableError, match="not running"):
        reloader.flush()
    notifier.notify(A)
    notifier.close()
    reloader.run()
    assert isinstance(records[0].error, NotAvailableError)
    with pytest.raises(NotAvailableError, match="not running"):
        reloader.flush()


def test_a_flush_ends_by_its_own_deadline_and_by_the_close() -> None:
    target, notifier = Target(hang), QueueNotifier()
    reloader = EventReloader(target, notifier, NEVER)
    reloader.start()
    notifier.notify(A)
    # A flush that is given up before the loop has seen it begins no rebuild.
    while not target.began.is_set():
        with triptych.deadline(0.05), pytest.raises(CancelledError, match="flushing"):
            reloader.flush()
    ends = in_threads(reloader.flush, reloader.close)
    assert isinstance(ends[0], CancelledError | NotAvailableError)
    assert ends[1] is None


# What goes wrong


def test_a_callback_that_raises_is_logged_and_stops_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(record: RebuildRecord) -> None:
        raise ZeroDivisionError("in the callback")

    notifier = QueueNotifier()
    with EventReloader(Target(), notifier, NEVER, on_rebuild=fail) as reloader:
        reloader.start()
        for _ in range(2):
            notifier.notify(A)
            assert reloader.flush() is not None
    errors = [each for each in caplog.records if each.name == "triptych.events"]
    assert [each.levelno for each in errors] == [logging.ERROR] * 2
    assert "in the callback" in caplog.text


class Broken(QueueNotifier):
    """Gives one event, and then what no notifier should."""

    def __init__(self, then: object) -> None:
        super().__init__()
        self.then = then

    def events(self) -> Iterator[ChangeEvent]:
        yield A
        if isinstance(self.then, Exception):
            raise self.then
        wrong: Any = self.then
        yield wrong


@pytest.mark.parametrize(
    ("then", "error"), [(OSError("out of watches"), OSError), ("a path", ValidationError)]
)
def test_a_notifier_that_breaks_ends_run_with_its_error_after_a_last_rebuild(
    then: object, error: type[Exception]
) -> None:
    target = Target()
    with pytest.raises(error):
        EventReloader(target, Broken(then), NEVER).run()
    assert [each.doc_name for each in target.scopes] == ["a"]


def test_a_notifier_that_breaks_under_start_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    target = Target()
    with EventReloader(target, Broken(OSError("out of watches")), NEVER) as reloader:
        reloader.start()
        assert target.ended.wait(WAIT)
        while ours():
            threading.Event().wait(0.002)
        assert "out of watches" in caplog.text
        with pytest.raises(NotAvailableError, match="not running"):
            reloader.flush()


def test_a_notifier_that_breaks_because_it_was_closed_has_just_ended() -> None:
    reading = threading.Event()

    class Raising(QueueNotifier):
        def events(self) -> Iterator[ChangeEvent]:
            reading.set()
            yield from super().events()
            raise OSError("bad file descriptor")

    def close() -> None:
        assert reading.wait(WAIT)
        reloader.close()

    reloader = EventReloader(Target(), Raising(), NEVER)
    assert in_threads(reloader.run, close) == [None, None]


def test_close_waits_for_the_very_end_of_a_thread_that_start_began() -> None:
    entered, left = threading.Event(), threading.Event()

    class Slow(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            entered.set()
            left.wait(0.1)
            left.set()

    handler = Slow()
    logging.getLogger("triptych.events").addHandler(handler)
    try:
        reloader = EventReloader(Target(), Broken(OSError("out of watches")), NEVER)
        reloader.start()
        assert entered.wait(WAIT)
        reloader.close()
        assert left.is_set()
    finally:
        logging.getLogger("triptych.events").removeHandler(handler)


def test_a_notifier_that_cannot_be_closed_is_reported_by_close_after_all_else_is_done() -> None:
    class Unclosable(QueueNotifier):
        def close(self) -> None:
            super().close()
            raise OSError("cannot close")

    target = Target(hang)
    notifier = Unclosable()
    reloader = EventReloader(target, notifier, QUICK)
    reloader.start()
    notifier.notify(A)
    assert target.began.wait(WAIT)
    with pytest.raises(OSError, match="cannot close"):
        reloader.close()
    assert target.running == 0
    reloader.close()
    # Who reads from what could not be closed is not waited for: it may never end.
    for thread in threading.enumerate():
        if thread.name == "triptych-events-reader":
            thread.join(WAIT)


def test_a_rebuilder_that_reports_nothing_has_failed() -> None:
    class Silent:
        def rebuild(self, scope: RebuildScope) -> Any:
            return None

    records: list[RebuildRecord] = []
    notifier = QueueNotifier()
    notifier.notify(A)
    notifier.close()
    EventReloader(Silent(), notifier, NEVER, on_rebuild=records.append).run()
    assert isinstance(records[0].error, AttributeError)


def test_a_rebuild_that_fails_untold_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fails(scope: RebuildScope) -> None:
        raise ProviderError("no answer")

    notifier = QueueNotifier()
    with EventReloader(Target(fails), notifier, NEVER) as reloader:
        reloader.start()
        notifier.notify(A)
        with pytest.raises(ProviderError):
            reloader.flush()
    (record,) = [each for each in caplog.records if each.name == "triptych.events"]
    assert record.levelname == "WARNING"
    assert "ProviderError: no answer; it is tried again in" in record.getMessage()
