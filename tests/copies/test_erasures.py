"""What was purged at a source is erased from its copies too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from support.rich_stores import contents, open_kind
from triptych import Service
from triptych.contracts import Store
from triptych.copies import copy_store
from triptych_backends.memory import MemoryStore
from triptych_testing.builders import fill

CANARY = "Xanthippe Quillfeather"


@pytest.fixture
def held() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def opened(held: ExitStack, kind: str, folder: Path, name: str) -> Store:
    store = open_kind(kind, folder, name)
    held.callback(store.close)
    return store


def purge(store: Store, name: str) -> None:
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


@pytest.mark.parametrize("datasets", [None, ["d"]])
@pytest.mark.parametrize("kind", ["sqlite", "files"])
def test_copy_erases_what_its_source_purged_since(
    kind: str, datasets: list[str] | None, tmp_path: Path, held: ExitStack
) -> None:
    source, target = source_and_target(held, kind, tmp_path)
    copy_store(source, target, datasets=datasets)
    assert holds_canary(tmp_path / "to")
    purge(source, "patient")
    assert copy_store(source, target, datasets=datasets, replace=True).erased
    assert contents(target)["datasets"] == contents(source)["datasets"]
    assert holds_canary(tmp_path / "to") == []


def test_purge_is_repeated_once_and_along_a_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    source, middle, end = MemoryStore(), MemoryStore(), MemoryStore()
    fill(source, "d", {"a": "one", "b": "two"})
    scrubbed: list[str] = []
    for name, store in (("middle", middle), ("end", end)):
        monkeypatch.setattr(store, "scrub", lambda name=name: scrubbed.append(name))
        copy_store(source if store is middle else middle, store)
    purge(source, "a")
    for one, other in [(source, middle), (middle, end)] * 2:
        copy_store(one, other, replace=True)
    assert scrubbed == ["middle", "end"]


def test_purge_while_it_is_copied_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy is scrubbed once it has dropped what was purged, and not before only."""
    source, target = MemoryStore(), MemoryStore()
    fill(source, "d", {"a": "one", "b": "two"})
    had: list[bool] = []
    load, armed = target.load_states, [True]

    def purge_and_load(*args: Any, **options: Any) -> None:
        if armed:
            armed.clear()
            purge(source, "a")
        load(*args, **options)

    monkeypatch.setattr(target, "load_states", purge_and_load)
    monkeypatch.setattr(
        target, "scrub", lambda: had.append(target.documents.get_info("d", "a") is not None)
    )
    for _ in range(3):
        copy_store(source, target, replace=True)
    assert had == [False]
