"""Leases in a store's settings: one worker each, none for longer than it lives."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator

import pytest

from triptych.deadlines import deadline
from triptych.errors import CancelledError
from triptych.leases import LEASE, LEASES, LeaseHolder, SettingsLeases
from triptych.vectors.run import Pace
from triptych_backends.memory import MemoryStore


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    store = MemoryStore()
    yield store
    store.close()


def holder(store: MemoryStore, queue: str = "q", seconds: float = LEASE) -> LeaseHolder:
    return LeaseHolder(SettingsLeases(store), queue, seconds)


def held(store: MemoryStore) -> list[str]:
    found = json.loads(store.get_setting(LEASES) or "[]")
    return sorted(name for lease in found for name in lease["names"])


def rewritten(store: MemoryStore, **changes: object) -> None:
    """Change every lease that is there."""
    text = store.get_setting(LEASES)
    assert text is not None
    found = [{**lease, **changes} for lease in json.loads(text)]
    assert store.set_setting(LEASES, json.dumps(found), expected=text)


def test_a_name_has_one_holder_until_it_is_released(store: MemoryStore) -> None:
    with holder(store) as one, holder(store) as other:
        assert one.claim(["a", "b"]) == ["a", "b"]
        assert one.claim(["a", "c"]) == ["a", "c"]
        assert other.claim(["b", "c", "e"]) == ["e"]
        assert other.claim(["b"]) == []
        one.release(["b", "c"])
        assert other.claim(["b"]) == [], "seen at the next claim"
        assert one.claim(["f"]) == ["f"]
        assert other.claim(["a", "b", "c"]) == ["b", "c"]
        one.close()
        assert held(store) == ["b", "c", "e"]
        assert other.claim(["a"]) == ["a"]
    assert store.get_setting(LEASES) is None


def test_a_claim_takes_the_first_names_that_are_free(store: MemoryStore) -> None:
    with holder(store) as one, holder(store) as other:
        assert one.claim("abcdef", limit=2) == ["a", "b"]
        assert other.claim("abcdef", limit=2) == ["c", "d"]
        assert one.claim("ef", limit=1) == ["e"]
        assert one.claim("ef", limit=0) == []
        assert held(store) == ["a", "b", "c", "d"], "e was wanted again, and no name was"
        assert one.claim("abef", limit=3) == ["a", "b", "e"]


def test_each_queue_has_leases_of_its_own(store: MemoryStore) -> None:
    with holder(store, "1") as one, holder(store, "2") as two, holder(store, "3") as three:
        for each in (one, two, three):
            assert each.claim(["a"]) == ["a"]
    assert dict(store.list_settings()) == {}


@pytest.mark.parametrize(
    "until",
    [time.time() - 1, time.time() + 1e6, "soon", None],
    ids=["past", "later", "text", "none"],
)
def test_a_lease_that_ran_out_or_has_no_time_is_void(store: MemoryStore, until: object) -> None:
    with holder(store) as killed:
        assert killed.claim(["a"])
        rewritten(store, until=until)
        with holder(store) as other:
            assert other.claim(["a"]) == ["a"]
            assert held(store) == ["a"]
            assert killed.claim(["a"]) == [], "it is another's now"


@pytest.mark.parametrize("ahead", [1, 6, -6], ids=["a second", "six", "behind"])
def test_a_lease_of_a_machine_whose_clock_differs_holds(store: MemoryStore, ahead: float) -> None:
    with holder(store) as there, holder(store) as here:
        assert there.claim(["a"])
        rewritten(store, until=time.time() + ahead + LEASE)
        assert here.claim(["a", "b"]) == ["b"]
        assert there.claim(["a"]) == ["a"]


@pytest.mark.parametrize("seconds", [1e300, 1e9])
def test_no_lease_is_for_ever(store: MemoryStore, seconds: float) -> None:
    with holder(store) as damaged, holder(store) as other:
        assert damaged.claim(["a"])
        rewritten(store, until=time.time() + seconds, seconds=seconds)
        assert other.claim(["a"]) == ["a"]


@pytest.mark.parametrize("text", ["", "{", "{}", "[1]", '[{"x": 1}]', '[{"names": 1}]'])
def test_what_is_not_a_lease_is_replaced(store: MemoryStore, text: str) -> None:
    store.set_setting(LEASES, text, expected=None)
    with holder(store) as one:
        assert one.claim(["a"]) == ["a"]
        assert held(store) == ["a"]


def test_leases_are_renewed_while_their_holder_works(store: MemoryStore) -> None:
    with holder(store, seconds=0.04) as one:
        assert one.claim(["a"])

        def until() -> float:
            (lease,) = json.loads(store.get_setting(LEASES) or "")
            return float(lease["until"])

        first = until()
        with one.working():
            end = time.monotonic() + 30
            while until() == first:
                assert time.monotonic() < end
                time.sleep(0.005)
        last = until()
        time.sleep(0.1)
        assert until() == last, "nothing is worked on: the lease runs out"


def test_of_threads_that_claim_the_same_names_each_name_goes_to_one(store: MemoryStore) -> None:
    names = [f"t{number}" for number in range(50)]
    holders = [holder(store) for _ in range(4)]
    got: list[str] = []
    lock = threading.Lock()

    def run(each: LeaseHolder) -> None:
        for name in names:
            ours = each.claim([name])
            with lock:
                got.extend(ours)

    threads = [threading.Thread(target=run, args=(each,)) for each in holders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == sorted(names)
    for each in holders:
        each.close()
    assert store.get_setting(LEASES) is None


def test_a_claim_honours_the_deadline_and_closing_does_not(store: MemoryStore) -> None:
    one = holder(store)
    assert one.claim(["a"])
    with deadline() as scope:
        scope.cancel()
        with pytest.raises(CancelledError):
            one.claim(["b"])
        one.close()
    assert store.get_setting(LEASES) is None


def test_a_closed_store_does_not_keep_leases_from_closing() -> None:
    store = MemoryStore()
    one = holder(store)
    assert one.claim(["a"])
    store.close()
    one.close()


def test_cheap_calls_are_known_from_the_last() -> None:
    pace = Pace()
    assert not pace.is_cheap(1)
    pace.took(0.001, 1)
    assert pace.is_cheap(1)
    assert not pace.is_cheap(64)
    pace.took(0.3, 1)
    assert not pace.is_cheap(1)
