"""The whole reloader under a controlled clock, against a model that was written down flat.

`World` is the clock: while the reloader waits, or rebuilds, it moves time on to the next
thing on its agenda and does it. The reloader's own threads are real, but only one thing
happens at a time, so every run of a schedule is the same. All times are multiples of 1/8,
which floats hold exactly.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from itertools import chain, pairwise
from random import Random
from typing import Literal

import attrs
import pytest
from hypothesis import example, given, settings, strategies as st

from support.examples import examples
from triptych import (
    CancelledError,
    NotFoundError,
    ProviderError,
    RebuildReport,
    RebuildScope,
    deadlines,
)
from triptych.events import EventReloader, QueueNotifier, RebuildRecord, ReloaderOptions
from triptych.records import ChangeEvent, Failure

pytestmark = pytest.mark.property

Item = tuple[str, str]
"""What an event touches: ("", "") everything, (dataset, "") the dataset."""

Scope = tuple[str, tuple[str, ...]]
"""What a rebuild covers: ("", ()) everything, (dataset, ()) the dataset."""

Ending = Literal["done", "raises", "items", "gone"]
Closer = Literal["nobody", "same thread", "other thread"]

OPTIONS = ReloaderOptions(debounce=0.5, max_delay=2, backoff_initial=1, backoff_max=8)
TIMEOUT = 30.0


class NoJitter(Random):
    """Always the ceiling of the backoff, so that times stay exact."""

    def uniform(self, a: float, b: float) -> float:
        return b


@attrs.frozen
class Outcome:
    """How one rebuild goes: ``items`` are what it reports as failed."""

    duration: float = 0.0
    ending: Ending = "done"
    items: tuple[Item, ...] = ()


@attrs.frozen
class Attempt:
    """One rebuild as it was, or as the model says it has to be."""

    start: float
    end: float
    scope: Scope
    attempt: int
    events: int
    kind: str
    retry_in: float | None


@attrs.frozen
class Schedule:
    """What happens to a reloader: events by time, outcomes by turn, a close."""

    events: tuple[tuple[float, Item], ...]
    outcomes: tuple[Outcome, ...] = ()
    closer: Closer = "nobody"
    close_at: float = 0.0


class ClosingQueue(QueueNotifier):
    """Tells when its close was called, which is when the reloader has been told."""

    def __init__(self) -> None:
        super().__init__()
        self.told_to_close = threading.Event()

    def close(self) -> None:
        super().close()
        self.told_to_close.set()


class World:
    """A clock whose time passes only while the reloader waits or rebuilds."""

    def __init__(self, schedule: Schedule) -> None:
        self.time = 0.0
        self.notifier = ClosingQueue()
        self.rebuilding = False
        self.returned = False
        self.closers: list[threading.Thread] = []
        self.records: list[RebuildRecord] = []
        self.attempts: list[Attempt] = []
        self.after_close: list[str] = []
        self._outcomes = list(schedule.outcomes)
        self._start = 0.0
        self.reloader = EventReloader(
            self,
            self.notifier,
            OPTIONS,
            on_rebuild=self.record,
            clock=self,
            random=NoJitter(),
        )
        agenda: list[tuple[float, Callable[[], None]]] = [
            (at, lambda item=item: self.emit(item))  # type: ignore[misc]  # mypy: lambda defaults
            for at, item in schedule.events
        ]
        if schedule.closer == "same thread":
            agenda.append((schedule.close_at, self.reloader.close))
        elif schedule.closer == "other thread":
            agenda.append((schedule.close_at, self.close_from_elsewhere))
        self._agenda = sorted(agenda, key=lambda entry: entry[0])

    # The clock

    def now(self) -> float:
        return self.time

    def wait(self, condition: threading.Condition, timeout: float | None) -> None:
        condition.release()
        try:
            if timeout is None and not self._agenda:
                self.reloader.close()  # nothing will ever happen again
            elif self._agenda and (timeout is None or self._agenda[0][0] <= self.time + timeout):
                self._act(self._agenda[0][0])
            else:
                assert timeout is not None
                self.time += timeout
        finally:
            condition.acquire()

    def _act(self, at: float) -> None:
        """Do everything that is on the agenda for ``at``: it is all the same moment."""
        self.time = max(self.time, at)
        while self._agenda and self._agenda[0][0] <= at:
            self._agenda.pop(0)[1]()

    # What happens in it

    def emit(self, item: Item) -> None:
        dataset_id, doc_name = item
        kind = "put" if doc_name else "bulk"
        if self.notifier.notify(ChangeEvent(kind=kind, dataset_id=dataset_id, doc_name=doc_name)):
            self.notifier.join()

    def end_notifier(self) -> None:
        """Close it as its producer would, and let the reader find the end."""
        self.notifier.close()
        for thread in threading.enumerate():
            if thread.name == "triptych-events-reader":
                thread.join(60)

    def close_from_elsewhere(self) -> None:
        def close() -> None:
            self.reloader.close()
            self.after_close.append("rebuilding" if self.rebuilding else "idle")
            self.after_close.append(f"{len(self.attempts)} {len(self.records)}")

        thread = threading.Thread(target=close)
        self.closers.append(thread)
        thread.start()
        assert self.notifier.told_to_close.wait(60)

    def rebuild(self, scope: RebuildScope) -> RebuildReport:
        assert not self.rebuilding, "two rebuilds at once"
        self.rebuilding, self._start = True, self.time
        try:
            return self._rebuild(self._outcomes.pop(0) if self._outcomes else Outcome())
        finally:
            self.rebuilding = False

    def _rebuild(self, outcome: Outcome) -> RebuildReport:
        left = deadlines.remaining()
        assert left is not None
        assert 0 < left <= TIMEOUT
        end = self.time + min(outcome.duration, TIMEOUT)
        while self._agenda and self._agenda[0][0] <= end:
            self._act(self._agenda[0][0])
            deadlines.check("a batch")
        self.time = end
        if outcome.duration > TIMEOUT:
            raise CancelledError("the deadline passed")
        if outcome.ending == "raises":
            raise ProviderError("no answer")
        if outcome.ending == "gone":
            raise NotFoundError("no such dataset")
        failed = outcome.items if outcome.ending == "items" else ()
        return RebuildReport(
            checked=len(failed),
            failed=tuple(Failure(dataset_id=d, name=n, error=OSError("no")) for d, n in failed),
        )

    def record(self, record: RebuildRecord) -> None:
        assert record.duration == self.time - self._start
        assert (record.report is None) != (record.error is None)
        failed = record.report is not None and record.report.failed
        kind = type(record.error).__name__ if record.error else "items" if failed else "done"
        self.records.append(record)
        self.attempts.append(
            Attempt(
                self._start,
                self.time,
                (record.scope.dataset_id, record.scope.doc_names),
                record.attempt,
                record.events,
                kind,
                record.retry_in,
            )
        )

    def run(self) -> None:
        self.reloader.run()
        for thread in self.closers:
            thread.join(60)
            assert not thread.is_alive()


# The model


def covers(scope: Scope, item: Item) -> bool:
    return any(part in (item, (item[0], ""), ("", "")) for part in parts(scope))


def parts(scope: Scope) -> list[Item]:
    dataset_id, names = scope
    return [(dataset_id, name) for name in names] or [(dataset_id, "")]


def smallest(items: Iterable[Item]) -> Scope:
    """The first of some documents, their dataset, everything that covers all of ``items``."""
    items = list(items)
    dataset_id = items[0][0]
    names = tuple(sorted({name for _, name in items if name}))
    return next(
        scope
        for scope in ((dataset_id, names), (dataset_id, ()), ("", ()))
        if all(covers(scope, item) for item in items)
    )


def expected(schedule: Schedule) -> tuple[list[Attempt], Scope | None]:
    """Every rebuild that has to happen, and what is pending in the end."""
    close_at = schedule.close_at if schedule.closer != "nobody" else float("inf")
    coming = sorted(schedule.events, key=lambda event: event[0])
    coming = [event for event in coming if event[0] <= close_at]
    outcomes = list(schedule.outcomes)
    attempts: list[Attempt] = []
    items: list[Item] = []
    arrived: list[float] = []
    retry_at: float | None = None
    free, failures, count = 0.0, 0, 0

    def due() -> float:
        times = [] if retry_at is None else [retry_at]
        if arrived:
            times.append(min(arrived[-1] + OPTIONS.debounce, arrived[0] + OPTIONS.max_delay))
        return min(times, default=float("inf"))

    while True:
        while coming and coming[0][0] <= max(due(), free):
            at, item = coming.pop(0)
            items.append(item)
            arrived.append(at)
            count += 1
        start = max(due(), free)
        if start >= close_at or start == float("inf"):
            return attempts, smallest(items) if items else None
        scope = smallest(items)
        outcome = outcomes.pop(0) if outcomes else Outcome()
        end = start + min(outcome.duration, TIMEOUT)
        kind = {"raises": "ProviderError", "gone": "NotFoundError"}.get(
            outcome.ending, outcome.ending
        )
        items, arrived, retry_at = [], [], None
        left: list[Item] = []
        if close_at <= end:
            end, kind, left = close_at, "CancelledError", parts(scope)
        elif outcome.duration > TIMEOUT:
            kind, left = "CancelledError", parts(scope)
        elif outcome.ending == "raises" or (outcome.ending == "gone" and scope == ("", ())):
            left = parts(scope)
        elif outcome.ending == "items":
            left = list(outcome.items)
            kind = "items" if left else "done"
        retry_in = None
        attempt = failures + 1
        if left and end < close_at:
            retry_in = min(OPTIONS.backoff_initial * 2**failures, OPTIONS.backoff_max)
            retry_at = end + retry_in
        failures = failures + 1 if left else 0
        attempts.append(Attempt(start, end, scope, attempt, count, kind, retry_in))
        items = left
        count = count if left else 0
        free = end


eighths = st.integers(0, 8 * 12).map(lambda number: number / 8)
datasets = st.sampled_from(["d", "e"])
documents = st.tuples(datasets, st.sampled_from(["a", "b", "c"]))
touched = st.one_of(
    st.just(("d", "a")),
    documents,
    documents,
    st.tuples(datasets, st.just("")),
    st.just(("", "")),
)
durations = st.sampled_from([0.0, 0.0, 0.125, 0.5, 1.0, 3.0, 7.5, 31.0])
outcomes = st.one_of(
    st.builds(Outcome, durations, st.sampled_from(["done", "raises", "gone"])),
    st.builds(Outcome, durations, st.just("items"), st.lists(documents, max_size=3).map(tuple)),
)
bursts = st.builds(
    lambda start, gap, items: [(start + at * gap, item) for at, item in enumerate(items)],
    eighths,
    st.sampled_from([0.0, 0.125, 0.375, 0.5, 0.625]),
    st.lists(touched, min_size=1, max_size=12),
)
schedules = st.builds(
    Schedule,
    events=st.lists(bursts, max_size=4).map(lambda found: tuple(chain(*found))),
    outcomes=st.lists(outcomes, max_size=5).map(tuple),
    closer=st.sampled_from(["nobody", "nobody", "same thread", "other thread"]),
    close_at=eighths,
)


def stream(gap: float, count: int) -> tuple[tuple[float, Item], ...]:
    return tuple((at * gap, ("d", "a")) for at in range(count))


@settings(max_examples=examples(250), deadline=None)
@given(schedule=schedules)
@example(Schedule(stream(0.25, 40)))
@example(Schedule(stream(0.5, 8)))
@example(Schedule(((0.0, ("d", "a")),), (Outcome(3, "raises"),), "other thread", 2))
@example(Schedule(((0.0, ("d", "a")),), (Outcome(31),)))
@example(Schedule(((0.0, ("d", "a")), (1.0, ("e", "b"))), (Outcome(1), Outcome(0, "gone"))))
def test_every_schedule_goes_as_the_model_says(schedule: Schedule) -> None:
    world = World(schedule)
    world.run()
    attempts, pending = expected(schedule)
    assert world.attempts == attempts
    left = world.reloader.pending
    assert (None if left is None else (left.dataset_id, left.doc_names)) == pending


@settings(max_examples=examples(150), deadline=None)
@given(schedule=schedules)
@example(Schedule(stream(0.25, 40), (Outcome(7.5), Outcome(31, "raises"))))
def test_what_a_reloader_promises_holds_in_every_schedule(schedule: Schedule) -> None:
    world = World(schedule)
    world.run()
    closed = schedule.close_at if schedule.closer != "nobody" else float("inf")
    attempts = world.attempts
    # Rebuilds follow each other, and none begins after the close.
    for earlier, later in pairwise(attempts):
        assert earlier.end <= later.start
    assert all(attempt.start < closed and attempt.end <= closed for attempt in attempts)
    for at, item in schedule.events:
        after = [each for each in attempts if each.start >= at and covers(each.scope, item)]
        if not after:
            assert closed <= at + OPTIONS.max_delay or any(
                each.start <= at + OPTIONS.max_delay and closed <= each.end for each in attempts
            )
            continue
        held_until = max(
            [at + OPTIONS.max_delay]
            + [each.end for each in attempts if each.start <= at + OPTIONS.max_delay < each.end]
        )
        assert after[0].start <= held_until
    # Every rebuild answers an event that came since the last one, or a failure.
    failures = sum(each.retry_in is not None for each in attempts)
    assert len(attempts) <= len({at for at, _ in schedule.events}) + failures
    # After close has returned, nothing was running, and nothing came behind it.
    assert world.after_close in ([], ["idle", f"{len(attempts)} {len(world.records)}"])
    assert not world.reloader._running


@settings(max_examples=examples(100), deadline=None)
@given(events=st.lists(st.tuples(eighths, touched), min_size=1, max_size=20))
def test_a_notifier_that_ends_leaves_nothing_pending_untried(
    events: list[tuple[float, Item]],
) -> None:
    world = World(Schedule(tuple(events)))
    last = max(at for at, _ in events)
    world._agenda.append((last, world.end_notifier))
    world.run()
    assert world.reloader.pending is None
    assert world.time == last
    assert world.attempts[-1].start == last
    assert sum(each.events for each in world.attempts) == len(events)


def test_a_window_that_fails_at_the_notifiers_end_is_tried_once_and_stays_pending() -> None:
    world = World(Schedule(((0.0, ("d", "a")),), (Outcome(0, "raises"),)))
    world._agenda.append((0.25, world.end_notifier))
    world.run()
    assert [(each.start, each.retry_in) for each in world.attempts] == [(0.25, None)]
    assert world.reloader.pending == RebuildScope(dataset_id="d", doc_name="a")


def test_a_steady_stream_is_rebuilt_every_max_delay() -> None:
    world = World(Schedule(stream(0.25, 41)))
    world.run()
    assert [each.start for each in world.attempts] == [2, 4.25, 6.5, 8.75, 10.5]


def test_retries_without_new_events_back_off_to_the_ceiling() -> None:
    world = World(Schedule(((0.0, ("d", "a")),), (Outcome(0, "raises"),) * 6))
    world.run()
    starts = [each.start for each in world.attempts]
    assert starts == [0.5, 1.5, 3.5, 7.5, 15.5, 23.5, 31.5]
    assert [each.attempt for each in world.attempts] == [1, 2, 3, 4, 5, 6, 7]


def test_a_rebuild_with_failed_items_shrinks_to_them() -> None:
    both = ((0.0, ("d", "a")), (0.0, ("e", "b")))
    world = World(Schedule(both, (Outcome(0, "items", (("e", "b"),)),)))
    world.run()
    assert [each.scope for each in world.attempts] == [("", ()), ("e", ("b",))]
    assert world.records[0].retry == RebuildScope(dataset_id="e", doc_name="b")


def test_a_dataset_that_is_gone_is_not_retried_but_everything_is() -> None:
    gone = Outcome(0, "gone")
    alone = World(Schedule(((0.0, ("d", "a")),), (gone,)))
    alone.run()
    assert [each.kind for each in alone.attempts] == ["NotFoundError"]
    everything = World(Schedule(((0.0, ("", "")),), (gone,)))
    everything.run()
    assert [each.kind for each in everything.attempts] == ["NotFoundError", "done"]


def test_an_interrupt_in_a_rebuild_leaves_its_scope_pending_and_nothing_running() -> None:
    world = World(Schedule(((0.0, ("d", "a")),)))

    def interrupted(scope: RebuildScope) -> RebuildReport:
        raise KeyboardInterrupt

    world.rebuild = interrupted  # type: ignore[method-assign]  # the target of this one test
    with pytest.raises(KeyboardInterrupt):
        world.run()
    assert world.reloader.pending == RebuildScope(dataset_id="d", doc_name="a")
    world.reloader.close()
    assert not [each for each in threading.enumerate() if "triptych-events" in each.name]
