"""The folders that a store remembers, on every store, moved, raced and damaged."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import attrs
import pytest

import triptych
from json_store import JsonStore
from support.bare_store import BareStore
from support.forked import context
from support.nested_roots import add_nested
from triptych.errors import (
    CorruptStoreError,
    NotAvailableError,
    NotFoundError,
    ValidationError,
)
from triptych.service import Service
from triptych.sync import RememberedRoots, SyncOptions, SyncRoot
from triptych_backends.memory import MemoryStore
from triptych_factory import Settings, directory_sync, remembered_roots, wire


@pytest.fixture(params=["memory", "sqlite", "files", "json"])
def kb(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    if request.param == "json":
        with Service(JsonStore(tmp_path / "kb.json")) as made:
            yield made
        return
    urls = {"memory": "memory://", "sqlite": str(tmp_path / "kb.db")}
    with triptych.open(urls.get(request.param, f"files:///{tmp_path}/kb"), embedder=None) as made:
        yield made


def roots_of(kb: Service, base: Path | None = None) -> RememberedRoots:
    return RememberedRoots(kb.capabilities.settings, base)


def folder(path: Path, *names: str) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for name in names:
        (path / name).write_text(f"text of {name}")
    return path


def test_a_folder_is_remembered_with_its_options(kb: Service, tmp_path: Path) -> None:
    remembered = roots_of(kb, tmp_path)
    options = SyncOptions(exclude=["drafts/"], include=["*.md"], all_folders=True, max_bytes=99)
    root = SyncRoot(path=tmp_path / "notes", dataset_id="d", prefix="n/", options=options)
    (added,) = remembered.add([root])
    (found,) = roots_of(kb, tmp_path).all()
    assert found == added
    assert (found.root, found.options, found.relative) == (root, options, True)
    assert found.synced_at is None
    when = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    remembered.note_synced([root, SyncRoot(path=tmp_path / "other")], when)
    assert remembered.at(tmp_path / "notes").synced_at == when
    assert remembered.forget(root)
    assert not remembered.forget(root)
    assert remembered.all() == []


def test_a_folder_elsewhere_is_remembered_by_its_whole_path(kb: Service, tmp_path: Path) -> None:
    remembered = roots_of(kb, tmp_path / "store")
    (added,) = remembered.add([SyncRoot(path=tmp_path / "notes")])
    assert not added.relative
    elsewhere = roots_of(kb, tmp_path / "moved")
    assert [each.root.path for each in elsewhere.all()] == [tmp_path / "notes"]
    nowhere = roots_of(kb, None)
    assert [each.root.path for each in nowhere.all()] == [tmp_path / "notes"]


@pytest.mark.parametrize("other", ["notes/deep", "."])
def test_folders_that_overlap_are_refused_in_one_dataset(
    kb: Service, tmp_path: Path, other: str
) -> None:
    remembered = roots_of(kb, tmp_path)
    remembered.add([SyncRoot(path=tmp_path / "notes")])
    overlapping = SyncRoot(path=tmp_path / other, prefix="x/")
    with pytest.raises(ValidationError, match=r"overlaps.*twice"):
        remembered.add([SyncRoot(path=tmp_path.parent / "free"), overlapping])
    with pytest.raises(ValidationError, match="overlaps"):
        remembered.resolve([overlapping])
    assert len(remembered.all()) == 1
    assert len(remembered.add([attrs.evolve(overlapping, dataset_id="d2")])) == 1


def test_a_link_to_a_folder_is_that_folder(kb: Service, tmp_path: Path) -> None:
    remembered = roots_of(kb, tmp_path)
    folder(tmp_path / "notes")
    (tmp_path / "link").symlink_to("notes")
    remembered.add([SyncRoot(path=tmp_path / "notes")])
    remembered.add([SyncRoot(path=tmp_path / "link")])
    assert len(remembered.all()) == 1


def test_other_options_are_told_and_taken_when_added_again(kb: Service, tmp_path: Path) -> None:
    remembered = roots_of(kb, tmp_path)
    root = SyncRoot(path=tmp_path / "notes", prefix="n/", options=SyncOptions(exclude=["a"]))
    remembered.add([root])
    other = attrs.evolve(root, options=SyncOptions(exclude=["b"]))
    with pytest.raises(ValidationError, match=r"remembered with exclude=\('a',\)"):
        remembered.resolve([other])
    assert remembered.add([other])[0].options.exclude == ("b",)
    with pytest.raises(ValidationError, match="would rename all its documents"):
        remembered.add([attrs.evolve(root, prefix="")])
    with pytest.raises(ValidationError, match="prefix 'n/'"):
        remembered.resolve([attrs.evolve(root, prefix="")])


def test_a_folder_that_is_not_remembered_is_told_with_those_that_are(
    kb: Service, tmp_path: Path
) -> None:
    remembered = roots_of(kb, tmp_path)
    with pytest.raises(NotFoundError, match="the folders are: none"):
        remembered.at(tmp_path)
    remembered.add([SyncRoot(path=tmp_path / "a"), SyncRoot(path=tmp_path / "a", dataset_id="d")])
    with pytest.raises(NotFoundError, match="/a'"):
        remembered.at(tmp_path / "b")
    with pytest.raises(ValidationError, match="several datasets, 'd', 'default'"):
        remembered.at(tmp_path / "a")
    assert remembered.at(tmp_path / "a", "d").root.dataset_id == "d"


def test_a_key_is_not_given_twice(kb: Service, tmp_path: Path) -> None:
    remembered = roots_of(kb, tmp_path)
    (old,) = remembered.add([SyncRoot(path=tmp_path / "a")])
    moved = remembered.move(old.root, tmp_path / "b")
    assert (moved.root.key, moved.root.path) == (old.root.key, tmp_path / "b")
    (new,) = remembered.add([SyncRoot(path=tmp_path / "a")])
    assert new.root.key != old.root.key
    with pytest.raises(ValidationError, match="overlaps"):
        remembered.move(new.root, tmp_path / "b" / "deep")
    with pytest.raises(NotFoundError):
        remembered.move(SyncRoot(path=tmp_path / "c"), tmp_path / "d")


def test_a_store_without_settings_says_so(tmp_path: Path) -> None:
    bare = BareStore(MemoryStore())
    assert bare.capabilities.settings is None
    with Service(bare) as kb, pytest.raises(NotAvailableError, match="cannot remember folders"):
        roots_of(kb)


@pytest.mark.parametrize("text", ["{", "{}", '{"roots": [{}]}', '{"roots": 1}', "[]"])
def test_what_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    with triptych.open("memory://", embedder=None) as kb:
        settings = kb.capabilities.settings
        assert settings is not None
        settings.set_setting("sync.roots", text, expected=None)
        with pytest.raises(CorruptStoreError, match="cannot be read"):
            roots_of(kb).all()


@pytest.mark.parametrize("url", ["kb.db", "files:///kb"])
def test_a_store_and_its_folders_move_together(tmp_path: Path, url: str) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    folder(before / "notes", "a.md", "b.md", "c.md")

    def settings(place: Path) -> Settings:
        path = place / "kb" if url.startswith("files") else place / url
        prefix = "files:///" if url.startswith("files") else ""
        return Settings(url=f"{prefix}{path}", embedder="none")

    with wire(settings(before)) as kb:
        added = remembered_roots(kb, settings(before)).add([SyncRoot(path=before / "notes")])
        directory_sync(kb, settings(before), [each.root for each in added]).sync()
    shutil.move(before, after)
    folder(after / "notes", "d.md")
    with wire(settings(after)) as kb:
        (found,) = remembered_roots(kb, settings(after)).all()
        assert (found.root.path, found.relative) == (after / "notes", True)
        report = directory_sync(kb, settings(after), [found.root]).sync()
        assert (report.added, report.unchanged, report.deleted, report.failed) == (1, 3, (), ())


def test_a_store_in_a_folder_of_its_own_lies_where_that_is(tmp_path: Path) -> None:
    folder(tmp_path / ".triptych")
    settings = Settings(url=str(tmp_path / ".triptych" / "kb.db"), embedder="none")
    with wire(settings) as kb:
        (added,) = remembered_roots(kb, settings).add([SyncRoot(path=tmp_path / "notes")])
        assert added.relative


def test_threads_that_add_folders_lose_none(kb: Service, tmp_path: Path) -> None:
    remembered = roots_of(kb, tmp_path)

    def add(number: int) -> None:
        for each in range(5):
            remembered.add([SyncRoot(path=tmp_path / f"{number}-{each}")])

    threads = [threading.Thread(target=add, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(remembered.all()) == 20


@pytest.mark.process
@pytest.mark.parametrize("kind", ["sqlite", "files"])
def test_two_processes_never_remember_folders_that_overlap(tmp_path: Path, kind: str) -> None:
    url = str(tmp_path / "kb.db") if kind == "sqlite" else f"files:///{tmp_path}/kb"
    triptych.open(url, embedder=None).close()
    jobs = [(url, str(tmp_path), number) for number in range(2)]
    with context().Pool(2) as pool:
        refused = pool.starmap(add_nested, jobs, chunksize=1)
    with triptych.open(url, embedder=None) as kb:
        places = [each.root.path.name for each in roots_of(kb, tmp_path).all()]
    assert len(places) == len(set(places)) == 10
    # Of each folder and the one in it, one was refused.
    assert sum(refused) == 10


def test_a_move_to_a_remembered_folder_makes_one_of_both(kb: Service, tmp_path: Path) -> None:
    remembered = roots_of(kb, tmp_path)
    (old,) = remembered.add([SyncRoot(path=tmp_path / "a", prefix="n/")])
    (new,) = remembered.add([SyncRoot(path=tmp_path / "b", prefix="n/")])
    (other,) = remembered.add([SyncRoot(path=tmp_path / "b", dataset_id="d")])
    remembered.add([SyncRoot(path=tmp_path / "c")])
    with pytest.raises(ValidationError, match="prefix"):
        remembered.move(old.root, tmp_path / "c")
    assert len(remembered.all()) == 4
    moved = remembered.move(old.root, tmp_path / "b")
    assert moved.root.keys == (old.root.key, new.root.key)
    assert remembered.all_at(tmp_path / "b") == [other, moved]
    assert remembered.at(tmp_path / "b", "default") == moved
    assert remembered.resolve([SyncRoot(path=tmp_path / "b", prefix="n/")]) == (moved.root,)
    again = remembered.move(moved.root, tmp_path / "e")
    assert again.root.keys == moved.root.keys
    (fresh,) = remembered.add([SyncRoot(path=tmp_path / "b", prefix="n/")])
    assert fresh.root.key not in moved.root.keys
