"""What was purged at a source is erased from its copies too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from copies.test_follow import first_report
from support.rich_stores import contents, open_kind
from triptych import Service, deadline
from triptych.contracts import Store
from triptych.copies.copy import copy_store
from triptych.copies.follow import follow_store
from triptych.errors import NotFoundError
from triptych.records import ChangePage
from triptych.testing.builders import fill, put
from triptych_backends.memory import MemoryStore

CANARY = "Xanthippe Quillfeather"


@pytest.fixture
def held() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def opened(held: ExitStack, kind: str, folder: Path, name: str) -> Store:
    store = open_kind(kind, folder, name)
    held.callback(store.close)
    return store


def purge(store: Store, name: str | None) -> None:
    """Purge as a person does; the store stays open."""
    assert Service(store).purge("d", name)


def holds_canary(folder: Path) -> list[str]:
    """The files under ``folder`` with a word of the canary in them."""
    words = [each.encode() for word in CANARY.split() for each in (word, word.lower())]
    files = [each for each in sorted(folder.rglob("*")) if each.is_file()]
    return [str(each) for each in files if any(word in each.read_bytes() for word in words)]


def source_and_target(held: ExitStack, kind: str, folder: Path) -> tuple[Store, Store]:
    for each in ("from", "to"):
        (folder / each).mkdir()
    source = opened(held, "sqlite", folder / "from", "source")
    fill(source, "d", {"patient": f"{CANARY} is ill.", "other": "well"})
    return source, opened(held, kind, folder / "to", "target")


@pytest.mark.parametrize("name", ["patient", None])
@pytest.mark.parametrize("kind", ["sqlite", "files"])
def test_replica_erases_what_its_source_purges(
    kind: str, name: str | None, tmp_path: Path, held: ExitStack
) -> None:
    source, target = source_and_target(held, kind, tmp_path)
    reports = follow_store(source, target, poll=0.01)
    next(reports)
    assert holds_canary(tmp_path / "to")
    purge(source, name)
    with deadline(30):
        while not next(reports).erased:
            pass
    assert holds_canary(tmp_path / "to") == []


@pytest.mark.parametrize("datasets", [None, ["d"]])
@pytest.mark.parametrize("name", ["patient", None])
@pytest.mark.parametrize("kind", ["sqlite", "files"])
def test_replica_that_was_stopped_while_its_source_purged_goes_on(
    kind: str, name: str | None, datasets: list[str] | None, tmp_path: Path, held: ExitStack
) -> None:
    """A document was purged, or all of its dataset, also where that is named."""
    source, target = source_and_target(held, kind, tmp_path)
    first_report(source, target, datasets=datasets)
    purge(source, name)
    reports = follow_store(source, target, datasets=datasets, poll=0.01)
    with deadline(30):
        while not next(reports).erased:
            pass
    assert contents(target)["datasets"] == contents(source)["datasets"]
    assert holds_canary(tmp_path / "to") == []


def test_dataset_that_never_was_is_not_followed() -> None:
    with pytest.raises(NotFoundError):
        first_report(MemoryStore(), MemoryStore(), datasets=["d"])


def test_copy_erases_what_its_source_purged_since(tmp_path: Path, held: ExitStack) -> None:
    source, target = source_and_target(held, "sqlite", tmp_path)
    copy_store(source, target)
    purge(source, "patient")
    copy_store(source, target, replace=True)
    assert holds_canary(tmp_path / "to") == []


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_replica_goes_on_where_the_log_does_not_reach_back(
    kind: str, tmp_path: Path, held: ExitStack
) -> None:
    """All that was there is gone meanwhile, and the log has forgotten it."""
    source, target = opened(held, kind, tmp_path, "source"), MemoryStore()
    fill(source, "d", {"a": "one", "b": "two"})
    first_report(source, target)
    for name in ("a", "b"):
        assert source.documents.delete("d", name)
    put(source, "d", "c", "three")
    source.scrub()
    first_report(source, target)
    assert contents(target) == contents(source)


def test_purge_is_repeated_once_and_along_a_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    source, middle, end = MemoryStore(), MemoryStore(), MemoryStore()
    fill(source, "d", {"a": "one", "b": "two"})
    scrubbed: list[str] = []
    for name, store in (("middle", middle), ("end", end)):
        monkeypatch.setattr(store, "scrub", lambda name=name: scrubbed.append(name))
        first_report(source if store is middle else middle, store)
    purge(source, "a")
    for at, (one, other) in enumerate([(source, middle), (middle, end)] * 2):
        reports = follow_store(one, other, poll=0.01)
        next(reports)
        with deadline(30):
            for key in (f"{at}", f"{at} again"):
                assert one.set_setting(key, "value", expected=None)
                while not next(reports).settings:
                    pass
    assert scrubbed == ["middle", "end"]


def test_purge_while_a_page_is_taken_over_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The replica is scrubbed once it has dropped what was purged, and not before only."""
    source, target = MemoryStore(), MemoryStore()
    fill(source, "d", {"a": "one", "b": "two"})
    reports = follow_store(source, target, poll=0.01)
    next(reports)
    had: list[bool] = []
    read, armed = source.read_changes, [True]

    def read_and_purge(*args: Any, **options: Any) -> ChangePage:
        page = read(*args, **options)
        if armed:
            armed.clear()
            purge(source, "a")
        return page

    monkeypatch.setattr(source, "read_changes", read_and_purge)
    monkeypatch.setattr(
        target, "scrub", lambda: had.append(target.documents.get_info("d", "a") is not None)
    )
    put(source, "d", "b", "newer")
    with deadline(30):
        while not had:
            next(reports)
    assert had == [False]
