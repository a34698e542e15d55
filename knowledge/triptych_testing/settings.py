"""Tests of settings, changed by compare-and-set."""

from __future__ import annotations

from contextlib import closing

import pytest

from triptych.contracts import SettingsStore, Store
from triptych.errors import StoreError
from triptych.records import NewDocument
from triptych_testing.harness import Harness, HarnessTests, in_threads, or_skip
from triptych_testing.work import Worker, count_settings

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
