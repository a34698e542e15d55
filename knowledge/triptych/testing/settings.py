"""Tests of settings, changed by compare-and-set, and of leases, which have one holder each."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from triptych.contracts import SettingsStore, Store, WorkLeases
from triptych.errors import StoreError
from triptych.records import NewDocument
from triptych.testing.harness import Harness, HarnessTests, in_threads, or_skip, there
from triptych.testing.work import Worker, count_settings, take_leases

_ROUNDS = 20


def settings_of(store: Store) -> SettingsStore:
    return or_skip(store.capabilities.settings)


class SettingsTests(HarnessTests):
    """What every store with the capability `SettingsStore` does."""

    def test_a_setting_is_set_read_and_removed(self, store: Store) -> None:
        settings = settings_of(store)
        assert settings.get_setting("root/a") is None
        assert settings.set_setting("root/a", "one", expected=None)
        assert settings.get_setting("root/a") == "one"
        assert settings.set_setting("root/a", "two", expected="one")
        assert settings.get_setting("root/a") == "two"
        assert settings.set_setting("root/a", None, expected="two")
        assert settings.get_setting("root/a") is None
        assert settings.set_setting("root/a", None, expected=None)

    def test_a_setting_that_is_not_as_expected_is_left(self, store: Store) -> None:
        settings = settings_of(store)
        settings.set_setting("key", "one", expected=None)
        assert not settings.set_setting("key", "two", expected=None)
        assert not settings.set_setting("key", "two", expected="other")
        assert not settings.set_setting("key", None, expected="other")
        assert not settings.set_setting("other", "two", expected="one")
        assert dict(settings.list_settings()) == {"key": "one"}

    def test_settings_are_listed_by_prefix_in_order(self, store: Store) -> None:
        settings = settings_of(store)
        values = {"b": "", "a/2": "x", "a/10": "y", "a%": "z", "A/1": "\N{GREEK SMALL LETTER MU}"}
        for key, value in values.items():
            assert settings.set_setting(key, value, expected=None)
        assert list(settings.list_settings().items()) == sorted(values.items())
        assert list(settings.list_settings("a/")) == ["a/10", "a/2"]
        assert settings.get_setting("b") == ""
        assert dict(settings.list_settings("nothing")) == {}

    def test_settings_outlive_the_datasets(self, store: Store) -> None:
        settings = settings_of(store)
        settings.set_setting("key", "value", expected=None)
        store.documents.put("d", NewDocument(name="a", content="text"))
        store.documents.delete_dataset("d")
        assert settings.get_setting("key") == "value"

    def test_settings_last(self, lasting: Harness) -> None:
        with closing(lasting.open()) as store:
            settings_of(store).set_setting("key", "value", expected=None)
        with closing(lasting.open()) as again:
            assert settings_of(again).get_setting("key") == "value"

    def test_a_closed_store_refuses_settings(self, harness: Harness) -> None:
        store = harness.open()
        settings = settings_of(store)
        store.close()
        with pytest.raises(StoreError):
            settings.get_setting("key")
        with pytest.raises(StoreError):
            settings.set_setting("key", "value", expected=None)

    def test_a_setting_that_cannot_be_written_is_as_it_was(
        self, harness: Harness, store: Store
    ) -> None:
        if harness.failing is None:
            pytest.skip("the store's writes cannot be made to fail")
        settings = settings_of(store)
        settings.set_setting("key", "one", expected=None)
        with harness.failing(store), pytest.raises(StoreError):
            settings.set_setting("key", "two", expected="one")
        assert settings.get_setting("key") == "one"

    def test_of_many_threads_that_expect_the_same_one_succeeds(self, store: Store) -> None:
        settings = settings_of(store)
        in_threads(lambda _: count_settings(store, "count", 5), _ROUNDS // 5)
        assert settings.get_setting("count") == str(_ROUNDS)

    def test_of_two_processes_that_expect_the_same_one_succeeds(
        self, store: Store, worker: Worker
    ) -> None:
        settings = settings_of(store)
        worker.send({"do": "count settings", "key": "count", "times": _ROUNDS})
        count_settings(store, "count", _ROUNDS)
        worker.receive()
        assert settings.get_setting("count") == str(2 * _ROUNDS)


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
        assert there(store.documents.get("d", "a")).version == 1

    def test_of_many_threads_each_name_goes_to_one(self, store: Store) -> None:
        leases = leases_of(store)
        taken = in_threads(lambda holder: take_leases(leases, _NAMES, str(holder)))
        assert sorted(name for names in taken for name in names) == sorted(_NAMES)

    def test_of_two_processes_each_name_goes_to_one(self, store: Store, worker: Worker) -> None:
        leases = leases_of(store)
        worker.send({"do": "take leases", "names": _NAMES, "holder": "other"})
        ours = take_leases(leases, _NAMES, "ours")
        theirs = worker.receive()
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
