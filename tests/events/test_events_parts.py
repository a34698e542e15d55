"""Scopes, windows, options and the queue: the parts of the reloader that need no thread."""

import math
import threading
from random import Random
from typing import Any

import attrs
import pytest

from support.rows import each_row
from triptych import CancelledError, RebuildReport, RebuildScope, ValidationError, deadline
from triptych.events import QueueNotifier, ReloaderOptions, join_scopes, scope_of
from triptych.events.loop import Window, failed_scope
from triptych.records import ChangeEvent, Failure

A = RebuildScope(dataset_id="d", doc_name="a")
B = RebuildScope(dataset_id="d", doc_name="b")
AB = RebuildScope(dataset_id="d", doc_names=("a", "b"))
D = RebuildScope(dataset_id="d")
E = RebuildScope(dataset_id="e", doc_name="a")
ALL = RebuildScope()


def event(dataset_id: str = "d", doc_name: str = "a", kind: str = "put") -> ChangeEvent:
    return ChangeEvent(kind=kind, dataset_id=dataset_id, doc_name=doc_name)


# Scopes


@each_row(
    ("told", "scope"),
    [
        (event(), A),
        (event(kind="delete"), A),
        (event(doc_name=""), D),
        (event(kind="bulk"), D),
        (event("", "", "bulk"), ALL),
        (event("", "a"), ALL),
        (event("d", "\udcff.md"), D),
        (event("\udcff", "a"), ALL),
    ],
)
def test_an_event_touches_the_narrowest_thing_it_can_name(
    told: ChangeEvent, scope: RebuildScope
) -> None:
    assert scope_of(told) == scope


@each_row(
    ("left", "right", "both"),
    [
        (A, A, A),
        (A, B, AB),
        (A, AB, AB),
        (A, D, D),
        (AB, D, D),
        (D, D, D),
        (A, E, ALL),
        (AB, E, ALL),
        (D, E, ALL),
        (ALL, A, ALL),
    ],
)
def test_the_smallest_scope_that_covers_both(
    left: RebuildScope, right: RebuildScope, both: RebuildScope
) -> None:
    assert join_scopes(left, right) == both
    assert join_scopes(right, left) == both


def test_nothing_is_covered_by_none() -> None:
    assert join_scopes(None, None) is None
    assert join_scopes(A, None) == join_scopes(None, A) == A


def test_what_failed_is_the_scope_of_the_retry() -> None:
    def report(*failed: tuple[str, str]) -> RebuildReport:
        return RebuildReport(
            failed=tuple(Failure(dataset_id=d, name=n, error=OSError()) for d, n in failed)
        )

    assert failed_scope(report()) is None
    assert failed_scope(report(("d", "a"))) == A
    assert failed_scope(report(("d", "a"), ("d", "b"))) == AB
    assert failed_scope(report(*(("d", str(at)) for at in range(257)))) == D
    assert failed_scope(report(("d", "a"), ("d", "\udcff"))) == D
    assert failed_scope(report(("d", "a"), ("e", "a"))) == ALL
    assert failed_scope(report(("d", ""))) == D


# Options


def test_the_defaults_are_those_of_the_documentation() -> None:
    options = ReloaderOptions()
    assert (options.debounce, options.max_delay, options.rebuild_timeout) == (0.5, 5.0, 30.0)
    assert (options.backoff_initial, options.backoff_max) == (1.0, 300.0)


@each_row(
    ("fields", "said"),
    [
        ({"debounce": -1}, "debounce"),
        ({"debounce": math.nan}, "debounce"),
        ({"debounce": True}, "debounce"),
        ({"debounce": "soon"}, "debounce"),
        ({"max_delay": math.inf}, "max_delay"),
        ({"max_delay": 0.4}, "below debounce"),
        ({"rebuild_timeout": 0}, "rebuild_timeout"),
        ({"backoff_initial": 0}, "backoff_initial"),
        ({"backoff_max": 0.5}, "below backoff_initial"),
        ({"backoff_max": math.inf}, "backoff_max"),
    ],
)
def test_invalid_options_are_refused_by_name(fields: Any, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        ReloaderOptions(**fields)


def test_options_may_wait_for_nothing_and_set_no_timeout() -> None:
    options = ReloaderOptions(debounce=0, max_delay=0, rebuild_timeout=None)
    assert attrs.evolve(options, max_delay=3).max_delay == 3


# The window


def window(seed: int = 0, **fields: Any) -> Window:
    return Window(ReloaderOptions(**fields), Random(seed))


def test_a_window_is_due_on_the_trailing_edge_and_no_later_than_max_delay() -> None:
    pending = window(debounce=1, max_delay=3)
    assert pending.due() is None
    dues = []
    for at in range(5):
        pending.add(A, float(at))
        dues.append(pending.due())
    assert dues == [1, 2, 3, 3, 3]


def test_only_the_first_fresh_event_can_bring_a_window_forward() -> None:
    pending = window()
    assert [pending.add(A, 0.0), pending.add(A, 1.0)] == [True, False]
    pending.failed(pending.take(), A, 2.0)
    assert [pending.add(A, 3.0), pending.add(A, 4.0)] == [True, False]


def test_what_was_taken_is_no_longer_pending() -> None:
    pending = window()
    pending.add(A, 0.0)
    pending.add(B, 0.25)
    taken = pending.take()
    assert (taken.scope, taken.events, taken.attempt) == (AB, 2, 1)
    assert (pending.scope, pending.due()) == (None, None)
    pending.add(A, 9.0)
    assert pending.take().events == 1


def test_the_backoff_doubles_to_its_ceiling_with_jitter_from_the_given_source() -> None:
    def waits(seed: int) -> list[float]:
        pending = window(seed, backoff_initial=1, backoff_max=10)
        pending.add(A, 0.0)
        return [pending.failed(pending.take(), A, 100.0) for _ in range(80)]

    ceilings = [1, 2, 4, 8] + [10] * 76
    for wait, ceiling in zip(waits(1), ceilings, strict=True):
        assert ceiling / 2 <= wait <= ceiling
    assert len(set(waits(1)[4:])) > 70
    assert waits(1) == waits(1) != waits(2)


def test_the_backoff_does_not_overflow_after_weeks() -> None:
    pending = window(backoff_initial=1e-3)
    pending.add(A, 0.0)
    assert all(pending.failed(pending.take(), A, 0.0) <= 300 for _ in range(3000))


def test_a_failure_is_due_after_its_backoff_and_sooner_with_a_new_event() -> None:
    pending = window(debounce=1, max_delay=2, backoff_initial=64, backoff_max=64)
    pending.add(A, 0.0)
    wait = pending.failed(pending.take(), A, 10.0)
    assert pending.due() == 10 + wait
    pending.add(B, 11.0)
    assert (pending.due(), pending.scope) == (12, AB)
    taken = pending.take()
    assert (taken.events, taken.attempt) == (2, 2)
    pending.done()
    pending.add(A, 20.0)
    assert pending.take().attempt == 1


# The queue


def read(notifier: QueueNotifier) -> list[ChangeEvent]:
    notifier.close()
    return list(notifier.events())


def test_what_was_told_before_the_close_can_be_read_after_it() -> None:
    notifier = QueueNotifier()
    assert notifier.notify(event())
    assert notifier.notify(event(doc_name="b", kind="delete"))
    assert read(notifier) == [event(), event(doc_name="b", kind="delete")]
    assert not notifier.notify(event())
    assert read(notifier) == []


def test_an_event_equal_to_one_that_waits_replaces_it_at_the_end() -> None:
    notifier = QueueNotifier()
    for told in (event(), event(kind="delete"), event()):
        notifier.notify(told)
    assert read(notifier) == [event(kind="delete"), event()]


def test_a_full_queue_becomes_one_bulk_event_a_dataset() -> None:
    notifier = QueueNotifier(capacity=4)
    for at in range(5):
        notifier.notify(event("de"[at % 2], str(at)))
    assert read(notifier) == [event("d", "", "bulk"), event("e", "", "bulk")]


def test_too_many_datasets_become_one_bulk_event_for_all() -> None:
    notifier = QueueNotifier(capacity=4)
    for at in range(9):
        notifier.notify(event(str(at)))
    assert event("", "", "bulk") in read(notifier)


def test_an_event_for_all_swallows_those_it_covers_when_there_is_no_room() -> None:
    notifier = QueueNotifier(capacity=4)
    notifier.notify(event("", "", "bulk"))
    for at in range(4):
        notifier.notify(event("d", str(at)))
    assert read(notifier) == [event("", "", "bulk")]


def test_join_waits_until_the_reader_has_come_back_for_more() -> None:
    notifier = QueueNotifier()
    notifier.join()
    notifier.notify(event())
    events = notifier.events()
    assert next(events) == event()
    with deadline(0.01), pytest.raises(CancelledError, match="reader"):
        notifier.join()
    reader = threading.Thread(target=lambda: list(events))
    reader.start()
    notifier.join()
    notifier.close()
    reader.join()


def test_a_queue_of_one_holds_one() -> None:
    notifier = QueueNotifier(capacity=1)
    notifier.notify(event())
    notifier.notify(event(doc_name="b"))
    notifier.notify(event(doc_name="c"))
    assert read(notifier) == [event("d", "", "bulk")]


@each_row("capacity", [0, -1, 1.5, True])
def test_a_capacity_is_a_whole_number(capacity: Any) -> None:
    with pytest.raises(ValidationError, match="capacity"):
        QueueNotifier(capacity=capacity)


def test_only_change_events_are_reported() -> None:
    wrong: Any = RebuildScope()
    with pytest.raises(ValidationError, match="takes a ChangeEvent, not RebuildScope"):
        QueueNotifier().notify(wrong)


@pytest.mark.parametrize("names", [{"dataset_id": None}, {"dataset_id": []}, {"doc_name": 5}])
def test_an_event_names_what_changed_in_text(names: dict[str, object]) -> None:
    given: dict[str, object] = {"kind": "put", "dataset_id": "d"} | names
    with pytest.raises(ValidationError, match=next(iter(names))):
        ChangeEvent(**given)  # type: ignore[arg-type]  # that is the point
