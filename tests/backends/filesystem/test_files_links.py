"""Nothing outside the root is read or written: no link is followed, no path leaves it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from triptych.errors import CorruptStoreError, StoreError
from triptych.records import DerivedLayer, DerivedSig, Layer, NewDocument
from triptych_backends.filesystem import FilesStore
from triptych_backends.filesystem.disk import Disk, LinkError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links take a right there")

SECRET = "not to be seen"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.md").write_text(SECRET)
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "kb"


@pytest.fixture
def store(root: Path, outside: Path) -> Iterator[FilesStore]:
    with FilesStore.open(root) as store:
        put(store, "guide/a.md")
        yield store
    assert sorted(path.name for path in outside.iterdir()) == ["secret.md"]
    assert (outside / "secret.md").read_text() == SECRET


def put(store: FilesStore, name: str, content: str = "text") -> int:
    return store.documents.put("docs", NewDocument(name=name, content=content)).version


def names(store: FilesStore) -> list[str]:
    return [info.name for info in store.documents.list("docs")]


def problems(store: FilesStore) -> list[str]:
    return [problem.path for problem in store.problems() if "symbolic link" in problem.reason]


def test_a_linked_file_is_never_adopted_and_never_written(
    root: Path, store: FilesStore, outside: Path
) -> None:
    (root / "docs" / "b.md").symlink_to(outside / "secret.md")
    assert names(store) == ["guide/a.md"]
    assert problems(store) == ["docs/b.md"]
    for call in (
        lambda: store.documents.get("docs", "b.md"),
        lambda: put(store, "b.md"),
        lambda: store.documents.delete("docs", "b.md"),
    ):
        with pytest.raises(CorruptStoreError, match=r"symbolic link.*remove the link"):
            call()
    assert (root / "docs" / "b.md").is_symlink()


def test_a_document_whose_file_became_a_link_is_kept_and_reported(
    root: Path, store: FilesStore, outside: Path
) -> None:
    (root / "docs" / "guide" / "a.md").unlink()
    (root / "docs" / "guide" / "a.md").symlink_to(outside / "secret.md")
    assert names(store) == ["guide/a.md"]
    with pytest.raises(CorruptStoreError, match="symbolic link"):
        store.documents.get("docs", "guide/a.md")
    assert problems(store) == ["docs/guide/a.md"]


def test_a_linked_folder_is_not_looked_into(root: Path, store: FilesStore, outside: Path) -> None:
    (root / "docs" / "linked").symlink_to(outside)
    assert names(store) == ["guide/a.md"]
    assert problems(store) == ["docs/linked"]
    for name in ("linked/secret.md", "linked/new.md", "linked/deep/new.md"):
        with pytest.raises(StoreError, match="symbolic link"):
            put(store, name)
    # The same when the folder was one at first.
    shutil.rmtree(root / "docs" / "guide")
    (root / "docs" / "guide").symlink_to(outside)
    assert names(store) == ["guide/a.md"]
    for call in (
        lambda: put(store, "guide/a.md", "changed"),
        lambda: store.documents.delete("docs", "guide/a.md"),
        lambda: put(store, "guide/secret.md", "changed"),
    ):
        with pytest.raises(StoreError, match="symbolic link"):
            call()


def test_a_linked_dataset_is_none(root: Path, store: FilesStore, outside: Path) -> None:
    (root / "linked").symlink_to(outside)
    assert list(store.documents.list_datasets()) == ["docs"]
    assert store.documents.list("linked") == []
    assert problems(store) == ["linked"]
    with pytest.raises(LinkError, match="symbolic link"):
        store.documents.put("linked", NewDocument(name="a.md", content=""))
    shutil.rmtree(root / "docs")
    (root / "docs").symlink_to(outside)
    assert list(store.documents.list_datasets()) == ["docs"]
    assert names(store) == ["guide/a.md"]
    with pytest.raises(StoreError, match="symbolic link"):
        put(store, "new.md")
    with pytest.raises(StoreError, match="symbolic link"):
        store.documents.delete_dataset("docs")


def test_links_among_the_stores_own_files_are_refused(
    root: Path, store: FilesStore, outside: Path
) -> None:
    side = root / ".triptych" / "datasets" / "docs" / "sidecars" / "guide" / "a.md.json"
    side.unlink()
    side.symlink_to(outside / "secret.md")
    with pytest.raises(StoreError, match="symbolic link"):
        put(store, "guide/a.md", "changed")
    shutil.rmtree(side.parent)
    side.parent.symlink_to(outside)
    with pytest.raises(StoreError, match="symbolic link"):
        put(store, "guide/a.md", "changed")


def test_a_linked_layer_is_refused(root: Path, store: FilesStore, outside: Path) -> None:
    (root / "_layers").mkdir()
    (root / "_layers" / "docs").symlink_to(outside)
    layer = DerivedLayer(
        dataset_id="docs",
        doc_name="guide/a.md",
        layer=Layer.ABSTRACT,
        content="abstract",
        sig=DerivedSig(source_version=1),
    )
    assert store.layers.get("docs", "guide/a.md", Layer.ABSTRACT) is None
    with pytest.raises(LinkError, match="symbolic link"):
        store.layers.put(layer)


@pytest.mark.parametrize("what", ["", "/journal", "/datasets", "/derived"])
def test_a_store_whose_own_folder_is_a_link_is_not_opened(
    root: Path, outside: Path, what: str
) -> None:
    FilesStore.open(root).close()
    own = root / f".triptych{what}"
    own.rename(root / "moved")
    own.symlink_to(outside)
    with pytest.raises(StoreError, match=r"symbolic link|no store"):
        FilesStore.open(root)
    assert [path.name for path in outside.iterdir()] == ["secret.md"]


def test_a_linked_lock_is_not_opened(root: Path, outside: Path) -> None:
    FilesStore.open(root).close()
    (root / ".triptych" / "lock").unlink()
    (root / ".triptych" / "lock").symlink_to(outside / "made")
    with pytest.raises(StoreError):
        FilesStore.open(root)
    assert not (outside / "made").exists()


def test_the_way_to_the_root_may_be_a_link(root: Path, tmp_path: Path) -> None:
    root.mkdir()
    (tmp_path / "link").symlink_to(root)
    with FilesStore.open(tmp_path / "link") as store:
        put(store, "a.md")
    assert (root / "docs" / "a.md").read_text() == "text"


@pytest.mark.parametrize(
    "name", ["..", "../up", "../../up/x", "/abs/olute", "a/../../b", "./a", "//"]
)
def test_no_name_leads_out(tmp_path: Path, root: Path, name: str) -> None:
    with FilesStore.open(root) as store:
        if not name.endswith("/"):
            put(store, name, "inside")
            found = store.documents.get("docs", name)
            assert found is not None
            assert found.content == "inside"
        store.documents.put(name, NewDocument(name="a", content="inside"))
        assert store.problems() == ()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kb"]
    assert not Path("/abs/olute").exists()


@pytest.mark.parametrize("path", ["..", "a/../b", "/etc/passwd", "a//b", "", "a/", "a\0b", "./a"])
def test_the_disk_refuses_paths_that_leave_it(tmp_path: Path, path: str) -> None:
    disk = Disk(str(tmp_path))
    for call in (disk.read, disk.entry, disk.remove, disk.make_folder, disk.remove_folder):
        with pytest.raises(StoreError, match="not a path inside"):
            call(path)


def test_sidecars_from_elsewhere_lead_nowhere_else(root: Path, outside: Path) -> None:
    with FilesStore.open(root) as store:
        put(store, "a.md")
    side = root / ".triptych" / "datasets" / "docs" / "sidecars" / "a.md.json"
    good = side.read_text()
    for path in ("../../outside/secret.md", str(outside / "secret.md"), "b.md", ".."):
        side.write_text(good.replace('"path": "a.md"', f'"path": "{path}"'))
        shutil.rmtree(root / ".triptych" / "derived")
        with FilesStore.open(root) as store:
            assert names(store) == []
            assert len(store.problems()) == 1
    home = root / ".triptych" / "datasets" / "docs" / "dataset.json"
    side.write_text(good)
    home.write_text(home.read_text().replace('"folder": "docs"', '"folder": "../outside"'))
    shutil.rmtree(root / ".triptych" / "derived")
    with pytest.raises(CorruptStoreError, match="does not describe"):
        FilesStore.open(root)


def test_a_pipe_is_not_waited_for(root: Path, store: FilesStore) -> None:
    os.mkfifo(root / "docs" / "pipe")
    assert names(store) == ["guide/a.md"]
    assert [problem.path for problem in store.problems()] == ["docs/pipe"]
    with pytest.raises(CorruptStoreError, match="not a plain file"):
        put(store, "pipe")


@pytest.mark.parametrize("call", ["write", "remove", "make_folder", "rename", "read", "entry"])
def test_a_link_swapped_in_between_any_two_calls_leads_nowhere(
    root: Path, store: FilesStore, outside: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    disk, folder, away = store.workspace.disk, root / "docs" / "guide", root / "away"
    (root / "link").symlink_to(outside)

    def swap() -> None:
        folder.rename(away)
        (root / "link").rename(folder)

    def act() -> object:
        if call == "rename":
            disk.write(".triptych/journal/a.part", b"text")
            return disk.rename(".triptych/journal/a.part", "docs/guide/secret.md")
        path = "docs/guide/new" if call == "make_folder" else "docs/guide/secret.md"
        return getattr(disk, call)(path, *([b"text"] if call == "write" else []))

    left = [0]
    for name in ("open", "lstat", "stat", "unlink", "mkdir", "replace", "close"):
        made = getattr(os, name)

        def interrupted(*values: Any, made: Any = made, **named: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                swap()
            return made(*values, **named)

        monkeypatch.setattr(os, name, interrupted)
    for number in range(1, 40):
        left = [number]
        found = None
        with suppress(StoreError, OSError):
            found = act()
        left = [0]
        assert (outside / "secret.md").read_text() == SECRET, number
        assert SECRET not in str(found)
        assert sorted(path.name for path in outside.iterdir()) == ["secret.md"], number
        if away.exists():
            folder.rename(root / "link")
            away.rename(folder)
        for left_over in folder.glob("new"):
            left_over.rmdir()
