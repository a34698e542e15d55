"""A replica is kept as its source is."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from support.bare_store import BareStore
from support.rich_stores import KINDS, change, contents, fill, open_kind
from triptych import deadline
from triptych.contracts import Store
from triptych.copies.copy import copy_store
from triptych.copies.follow import follow_store
from triptych.copies.report import CopyReport
from triptych.errors import (
    CancelledError,
    ConflictError,
    NotAvailableError,
    StoreError,
    StoreLockedError,
    ValidationError,
)
from triptych.testing.builders import derive, fill as fill_plainly, layer_of, put
from triptych_backends.memory import MemoryStore
from triptych_backends.sqlite import SqliteStore


def follow_until_equal(source: Store, target: Store, reports: Iterator[object]) -> None:
    """Read reports until the replica is as its source."""
    with deadline(30):
        while contents(source, journal=False) != contents(target, journal=False):
            next(reports)


@pytest.mark.parametrize(("kind", "to"), [("sqlite", "memory"), ("files", "sqlite")])
def test_replica_takes_over_whatever_becomes_of_its_source(
    kind: str, to: str, tmp_path: Path
) -> None:
    with ExitStack() as held:
        source = open_kind(kind, tmp_path, "source")
        held.callback(source.close)
        target = open_kind(to, tmp_path, "target")
        held.callback(target.close)
        chance = random.Random(4)
        fill(source, chance, 20)
        reports = follow_store(source, target, poll=0.01)
        next(reports)
        assert contents(source) == contents(target)
        for _ in range(2):
            for _ in range(5):
                change(source, chance)
            follow_until_equal(source, target, reports)


def test_change_is_taken_over_by_the_log_and_told(tmp_path: Path) -> None:
    source, target = MemoryStore(), MemoryStore()
    fill_plainly(source, "d", {"a": "one", "b": "two"})
    reports = follow_store(source, target, poll=0.01)
    assert next(reports).counts.documents == 2
    put(source, "d", "a", "newer")
    source.documents.delete("d", "b")
    (done,) = next(reports).datasets
    assert (done.dataset_id, done.written, done.removed) == ("d", 1, 1)
    assert derive(source, "d", "a")
    assert source.layers.put(layer_of(source, "d", "", "of all"))
    follow_until_equal(source, target, reports)
    source.documents.delete_dataset("d")
    put(source, "new", "c", "three")
    follow_until_equal(source, target, reports)
    assert list(target.documents.list_datasets()) == ["new"]


def test_some_datasets_are_followed(tmp_path: Path) -> None:
    source, target = MemoryStore(), MemoryStore()
    put(source, "d", "a", "one")
    put(target, "mine", "a", "mine")
    reports = follow_store(source, target, datasets=["d"], poll=0.01)
    next(reports)
    put(source, "other", "a", "one")
    put(source, "d", "a", "two")
    next(reports)
    assert list(target.documents.list_datasets()) == ["d", "mine"]
    assert target.documents.get("d", "a") == source.documents.get("d", "a")


def test_following_ends_with_its_deadline() -> None:
    reports = follow_store(MemoryStore(), MemoryStore(), poll=0.01)
    with deadline(0.2), pytest.raises(CancelledError):
        for _ in reports:
            pass


def test_what_cannot_be_followed_is_named() -> None:
    with pytest.raises(NotAvailableError, match="no change log"):
        next(follow_store(BareStore(MemoryStore()), MemoryStore()))
    with pytest.raises(ValidationError, match="poll"):
        next(follow_store(MemoryStore(), MemoryStore(), poll=0))


def first_report(source: Store, target: Store, **options: Any) -> CopyReport:
    """The report of the copy with which following begins."""
    return next(follow_store(source, target, poll=0.01, **options))


@pytest.mark.parametrize("kind", KINDS)
def test_destination_with_datasets_of_its_own_is_left_alone(kind: str, tmp_path: Path) -> None:
    source, target = MemoryStore(), open_kind(kind, tmp_path, "target")
    fill_plainly(source, "d", {"a": "theirs"})
    fill_plainly(target, "d", {"a": "mine"})
    fill_plainly(target, "mine", {"a": "mine"})
    before = contents(target)
    with pytest.raises(ConflictError, match="'d', 'mine'") as refused:
        first_report(source, target)
    assert "--replace" in refused.value.hint
    with pytest.raises(ConflictError, match="follow this source: 'd'"):
        first_report(source, target, datasets=["d"])
    assert contents(target) == before
    reports = follow_store(source, target, replace=True, poll=0.01)
    follow_until_equal(source, target, reports)
    assert list(target.documents.list_datasets()) == ["d"]
    target.close()


@pytest.mark.parametrize("kind", KINDS)
def test_replica_goes_on_as_one_and_of_no_other_source(kind: str, tmp_path: Path) -> None:
    source, target = open_kind("sqlite", tmp_path, "source"), open_kind(kind, tmp_path, "target")
    fill_plainly(source, "d", {"a": "one", "b": "two"})
    assert first_report(source, target).counts.documents == 2
    source.documents.delete("d", "b")
    put(source, "e", "a", "text")
    first_report(source, target)
    assert contents(target) == contents(source)
    # A copy of the replica has no mark of it.
    copied = MemoryStore()
    copy_store(target, copied)
    with pytest.raises(ConflictError):
        first_report(source, copied)
    other = MemoryStore()
    fill_plainly(other, "d", {"a": "theirs"})
    with pytest.raises(ConflictError, match="not a replica"):
        first_report(other, target)
    assert contents(target) == contents(source)
    source.close()
    target.close()


def test_datasets_follow_a_source_each_by_itself() -> None:
    source, target = MemoryStore(), MemoryStore()
    put(source, "d", "a", "one")
    put(source, "e", "a", "one")
    first_report(source, target, datasets=["d"])
    first_report(source, target, datasets=["e"])
    first_report(source, target, datasets=["e", "d"])
    first_report(source, target)
    put(target, "mine", "a", "mine")
    first_report(source, target, datasets=["d"])
    assert "mine" in target.documents.list_datasets()
    with pytest.raises(ConflictError, match="'mine'"):
        first_report(MemoryStore(), target)


def test_settings_of_its_own_are_a_reason_to_ask() -> None:
    source, target = MemoryStore(), MemoryStore()
    source.set_setting("key", "theirs", expected=None)
    target.set_setting("key", "mine", expected=None)
    with pytest.raises(ConflictError, match="'key'"):
        first_report(source, target)
    assert first_report(source, target, datasets=[]).settings == 0
    assert target.get_setting("key") == "mine"
    assert first_report(source, target, replace=True).settings == 1


def test_setting_that_is_removed_goes_from_the_replica() -> None:
    source, target = MemoryStore(), MemoryStore()
    source.set_setting("key", "value", expected=None)
    reports = follow_store(source, target, poll=0.01)
    assert next(reports).settings == 1
    source.set_setting("key", None, expected="value")
    assert next(reports).settings_removed == 1
    assert target.get_setting("key") is None


def test_replica_that_keeps_fewer_versions_is_an_error() -> None:
    """Also where the versions come while it follows, and where it is started again."""
    source, target = MemoryStore(), MemoryStore(history=1)
    put(source, "d", "a", "one")
    reports = follow_store(source, target, poll=0.01)
    next(reports)
    for text in ("two", "three"):
        put(source, "d", "a", text)
    with pytest.raises(ConflictError, match="keeps fewer old versions") as raised:
        next(reports)
    assert "history" in raised.value.hint
    with pytest.raises(ConflictError, match="keeps fewer old versions"):
        first_report(source, target)


class _AlteredStore(MemoryStore):
    """Somebody else puts a layer whenever a dataset has been copied."""

    def use_up_versions(self, dataset_id: str, version: int) -> None:
        super().use_up_versions(dataset_id, version)
        assert self.layers.put(layer_of(self, dataset_id, "", "mine"))


def test_replica_that_others_write_to_is_an_error_in_the_end() -> None:
    source, target = MemoryStore(), _AlteredStore()
    reports = follow_store(source, target, poll=0.01)
    next(reports)
    fill_plainly(source, "d", {"a": "one"})
    next(reports)
    assert source.layers.put(layer_of(source, "d", "a", "of it"))
    with deadline(30), pytest.raises(ConflictError, match="Another process wrote to it"):
        for _ in reports:
            pass


def test_failure_that_passes_is_waited_for(tmp_path: Path) -> None:
    source, path = MemoryStore(), tmp_path / "kb.db"
    put(source, "d", "a", "one")
    with SqliteStore.open(path, background_index=False, lock_timeout=0.01) as target:
        other = sqlite3.connect(path, isolation_level=None)
        failures: list[tuple[str, float]] = []

        def release(error: StoreError, pause: float) -> None:
            failures.append((type(error).__name__, pause))
            if len(failures) == 3:
                other.execute("ROLLBACK")

        reports = follow_store(source, target, poll=0.01, on_failure=release)
        next(reports)
        other.execute("BEGIN IMMEDIATE")
        put(source, "d", "b", "two")
        with deadline(30):
            assert next(reports).datasets[0].written == 1
        assert failures == [("StoreLockedError", pause) for pause in (0.01, 0.02, 0.04)]
        other.execute("BEGIN IMMEDIATE")
        put(source, "d", "c", "three")
        with pytest.raises(StoreLockedError):
            next(first for first in follow_store(source, target, poll=0.01))
        other.close()
        follow_until_equal(source, target, follow_store(source, target, poll=0.01))


def counted_reads(monkeypatch: pytest.MonkeyPatch, *stores: MemoryStore) -> list[str]:
    """The names of the documents that are loaded from now on."""
    loaded: list[str] = []
    for store in stores:
        get = store.documents.get

        def count(dataset_id: str, name: str, get: Any = get) -> object:
            loaded.append(name)
            return get(dataset_id, name)

        monkeypatch.setattr(store.documents, "get", count)
    return loaded


@pytest.mark.parametrize("derived", [False, True])
def test_burst_of_puts_costs_its_own_documents(
    derived: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the replica has used up more versions than its source."""
    source, target = MemoryStore(), MemoryStore()
    fill_plainly(source, "d", {f"{number:03}": "text" for number in range(150)})
    for version in range(5):
        put(target, "d", "old", f"text {version}")
    target.documents.delete("d", "old")
    reports = follow_store(source, target, replace=True, poll=0.01)
    next(reports)
    loaded = counted_reads(monkeypatch, source, target)
    for burst in range(3):
        put(source, "d", "a", f"burst {burst}")
        next(reports)
        if derived:
            assert derive(source, "d", "a")
            next(reports)
        # It is taken over when the datasets were compared.
        assert source.set_setting(f"key {burst}", "value", expected=None)
        assert next(reports).settings == 1
    assert loaded
    assert set(loaded) == {"a"}
    assert target.documents.get("d", "a") == source.documents.get("d", "a")
