"""Leases of work: each name has one holder, until it is released or its time has passed."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from triptych.contracts import Store, WorkLeases
from triptych.errors import StoreError
from triptych.records import NewDocument
from triptych.testing.harness import Harness, HarnessTests, or_skip
from triptych.testing.processes import Worker
from triptych.testing.work import take_leases

_LONG = 600.0
_NAMES = [f"n{number}" for number in range(24)]


def leases_of(store: Store) -> WorkLeases:
    return or_skip(store.capabilities.leases)


class LeaseTests(HarnessTests):
    """What every store with the capability `WorkLeases` does."""

    def test_a_name_has_one_holder(self, store: Store) -> None:
        hold = leases_of(store).hold_leases
        assert list(hold("q", ["b", "a"], holder="1", seconds=_LONG)) == ["b", "a"]
        assert list(hold("q", ["a", "c", "b", "d"], holder="2", seconds=_LONG)) == ["c", "d"]
        assert list(hold("q", ["d", "a"], holder="1", seconds=_LONG)) == ["a"]
        assert list(hold("q", ["b", "c"], holder="2", seconds=_LONG)) == ["b", "c"]
        assert list(hold("q", ["d"], holder="1", seconds=_LONG)) == ["d"]

    def test_no_names_release_all(self, store: Store) -> None:
        hold = leases_of(store).hold_leases
        hold("q", _NAMES, holder="1", seconds=_LONG)
        assert list(hold("q", (), holder="1", seconds=_LONG)) == []
        assert list(hold("q", _NAMES, holder="2", seconds=_LONG)) == _NAMES

    def test_the_first_names_that_are_free_are_held(self, store: Store) -> None:
        hold = leases_of(store).hold_leases
        assert list(hold("q", _NAMES, holder="1", seconds=_LONG, limit=3)) == _NAMES[:3]
        assert list(hold("q", _NAMES, holder="2", seconds=_LONG, limit=3)) == _NAMES[3:6]
        assert list(hold("q", _NAMES, holder="1", seconds=_LONG, limit=5)) == [
            *_NAMES[:3],
            *_NAMES[6:8],
        ]
        assert list(hold("q", _NAMES, holder="3", seconds=_LONG, limit=0)) == []

    def test_queues_are_apart_and_names_are_any_text(self, store: Store) -> None:
        hold = leases_of(store).hold_leases
        names = ["", "a/b c", "\N{GREEK SMALL LETTER MU}", '"quoted"', "{1,2}", "\\", "A", "a"]
        for queue in ("q", "Q", '["a", "b"]', ""):
            assert list(hold(queue, names, holder="1", seconds=_LONG)) == names
        hold("q", (), holder="1", seconds=_LONG)
        assert list(hold("q", names, holder="2", seconds=_LONG)) == names
        assert list(hold("Q", names, holder="2", seconds=_LONG)) == []

    def test_a_name_whose_time_has_passed_is_free(self, store: Store) -> None:
        hold = leases_of(store).hold_leases
        hold("q", ["a", "b"], holder="dead", seconds=0.05)
        hold("q", ["c"], holder="alive", seconds=_LONG)
        end = time.monotonic() + 60
        while list(hold("q", ["a", "b", "c"], holder="next", seconds=_LONG)) != ["a", "b"]:
            assert time.monotonic() < end
            time.sleep(0.02)
        assert list(hold("q", ["a"], holder="dead", seconds=_LONG)) == []

    def test_a_renewed_lease_lasts_from_then(self, store: Store) -> None:
        hold = leases_of(store).hold_leases
        hold("q", ["a"], holder="1", seconds=0.05)
        hold("q", ["a"], holder="1", seconds=_LONG)
        time.sleep(0.1)
        assert list(hold("q", ["a"], holder="2", seconds=_LONG)) == []

    def test_leases_change_no_document_and_no_answer(self, store: Store) -> None:
        leases = leases_of(store)
        store.documents.put("d", NewDocument(name="a", content="text"))
        changes = store.capabilities.changes
        head = None if changes is None else changes.read_changes(None, dataset_id=None, limit=10)
        leases.hold_leases("q", ["a"], holder="1", seconds=_LONG)
        leases.hold_leases("q", (), holder="1", seconds=_LONG)
        if changes is not None:
            assert changes.read_changes(None, dataset_id=None, limit=10) == head
        stored = store.documents.get("d", "a")
        assert stored is not None
        assert stored.version == 1

    def test_of_many_threads_each_name_goes_to_one(self, store: Store) -> None:
        leases = leases_of(store)

        def take(holder: int) -> list[str]:
            return take_leases(leases, _NAMES, str(holder))

        with ThreadPoolExecutor(4) as pool:
            taken = list(pool.map(take, range(4)))
        assert sorted(name for names in taken for name in names) == sorted(_NAMES)

    def test_of_two_processes_each_name_goes_to_one(self, harness: Harness) -> None:
        if not harness.shared or harness.child is None:
            pytest.skip("one process at a time has the store open")
        with closing(harness.open()) as store:
            leases = leases_of(store)
            with Worker() as other:
                other.open(harness.child)
                other.send({"do": "take leases", "names": _NAMES, "holder": "other"})
                ours = take_leases(leases, _NAMES, "ours")
                theirs = other.receive()
            assert isinstance(theirs, list)
            assert sorted([*ours, *theirs]) == sorted(_NAMES)

    def test_a_closed_store_gives_no_leases(self, harness: Harness) -> None:
        store = harness.open()
        leases = leases_of(store)
        store.close()
        with pytest.raises(StoreError):
            leases.hold_leases("q", ["a"], holder="1", seconds=_LONG)

    def test_a_write_is_reported_to_who_listens(self, store: Store) -> None:
        with or_skip(leases_of(store).listen_for_changes()) as wait:
            assert not wait(0.0)
            store.documents.put("d", NewDocument(name="a", content="text"))
            assert wait(60.0)
            with ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(wait, 60.0)
                store.documents.put("d", NewDocument(name="b", content="text"))
                assert waiting.result()
