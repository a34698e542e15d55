"""A replica is kept as its source is."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.bare_store import BareStore
from support.rich_stores import change, contents, fill, open_kind
from triptych import deadline
from triptych.contracts import Store
from triptych.errors import CancelledError, NotAvailableError, ValidationError
from triptych.replication import follow_store
from triptych.testing.builders import derive, fill as fill_plainly, layer_of, put
from triptych_backends.memory import MemoryStore


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
    with pytest.raises(NotAvailableError, match="no log"):
        next(follow_store(BareStore(MemoryStore()), MemoryStore()))
    with pytest.raises(ValidationError, match="poll"):
        next(follow_store(MemoryStore(), MemoryStore(), poll=0))
