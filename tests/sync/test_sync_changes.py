"""What is told of changed paths is enough: what it asks for makes the store as the folder is."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st

from support.examples import examples
from support.sync_folder import Desk, TextFiles, contents, desk as made_desk
from triptych import RebuildScope
from triptych.events import join_scopes, scope_of
from triptych.parsing import ParsedFile
from triptych.records import ChangeEvent, EventKind
from triptych.sync import DirectorySync

pytestmark = pytest.mark.property

FILES = st.sampled_from(["a.md", "b.md", "d/a.md", "d/b.md", "d/e/a.md", "f.md/a.md", "x.png"])
PLACES = st.sampled_from(["a.md", "b.md", "d", "d/e", "f.md", "f.md/a.md", "g", "d/.hid"])
TEXTS = st.sampled_from(["one", "two", "three"])


class Change:
    """Something that happens to a folder: the paths of it that a watcher tells, at the least."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, name: str, text: str) -> list[str]:
        file = self.root / name
        made = [each for each in reversed(file.parents) if not os.path.lexists(each)]
        if file.is_dir() or any(each.is_file() for each in file.parents):
            return []
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        # Files that are written into a new folder before it is watched are not told.
        return [str(made[0] if made else file)]

    def move(self, old: str, new: str) -> list[str]:
        source, target = self.root / old, self.root / new
        if not source.exists() or not target.parent.is_dir():
            return []
        if target.is_relative_to(source) or source.is_relative_to(target):
            return []
        told = [str(source), str(target), *self.delete(new)]
        source.rename(target)
        return told

    def delete(self, place: str) -> list[str]:
        path = self.root / place
        if path.is_dir():
            shutil.rmtree(path)
        elif path.exists():
            path.unlink()
        else:
            return []
        return [str(path)]


CHANGES = st.one_of(
    st.tuples(st.just("write"), FILES, TEXTS),
    st.tuples(st.just("move"), PLACES, PLACES),
    st.tuples(st.just("delete"), PLACES),
)


@contextmanager
def fresh_desk() -> Iterator[Desk]:
    with tempfile.TemporaryDirectory() as path, made_desk(Path(path)) as desk:
        yield desk


def covering(sync: DirectorySync, paths: list[str]) -> RebuildScope | None:
    return reduce(join_scopes, map(scope_of, sync.changes(sorted(set(paths)))), None)


@settings(max_examples=examples(150), deadline=None)
@given(
    before=st.lists(CHANGES, min_size=1, max_size=8),
    windows=st.lists(st.lists(CHANGES, min_size=1, max_size=4), min_size=1, max_size=3),
)
@example([("write", "d/a.md", "one")], [[("write", "x.png", "two"), ("move", "x.png", "d")]])
@example([("write", "d/a.md", "one")], [[("write", "a.md", "two"), ("move", "a.md", "d")]])
@example(
    [("write", "b.md", "one")],
    [[("delete", "b.md"), ("write", "d/e/a.md", "two"), ("move", "d", "b.md")]],
)
@example([("write", "f.md/a.md", "one")], [[("write", "a.md", "two"), ("move", "a.md", "f.md")]])
@example([("write", "d/a.md", "one")], [[("move", "d", "g"), ("write", "d/b.md", "two")]])
def test_rebuilding_what_is_reported_makes_the_store_as_the_folder_is(
    before: list[tuple[str, ...]], windows: list[list[tuple[str, ...]]]
) -> None:
    with fresh_desk() as desk:
        change = Change(desk.root)
        for what, *arguments in before:
            getattr(change, what)(*arguments)
        sync = desk.syncing()
        sync.sync()
        for window in windows:
            paths: list[str] = []
            for what, *arguments in window:
                paths += getattr(change, what)(*arguments)
            scope = covering(sync, paths)
            # Nothing as small as this asks for a look through the whole folder.
            assert scope is None or scope.doc_names
            if scope is not None:
                assert sync.rebuild(scope).failed == ()
            there = {
                file.relative_to(desk.root).as_posix(): file.read_text()
                for file in desk.root.rglob("*.md")
                if file.is_file() and ".hid" not in file.parts
            }
            assert contents(desk.kb) == there


# Case by case


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with made_desk(tmp_path) as made:
        yield made


def named(desk: Desk, sync: DirectorySync, *names: str) -> list[tuple[str, str]]:
    events = sync.changes([str(desk.root / name) for name in names])
    assert all(each.dataset_id == "d" for each in events)
    return [(str(each.kind), each.doc_name) for each in events]


WHOLE = [("bulk", "")]


def test_as_many_documents_as_a_scope_can_name_are_reported_one_by_one(desk: Desk) -> None:
    names = [f"{number}.md" for number in range(RebuildScope.MAX_DOC_NAMES + 1)]
    for name in names:
        desk.write(name, "text")
    sync = desk.syncing()
    hidden = [f".git/{number}" for number in range(5000)]
    told = named(desk, sync, *hidden, *names[1:], *names[1:3])
    assert told == [("put", name) for name in names[1:]]
    assert named(desk, sync, *names) == WHOLE
    assert named(desk, sync, *(f"{number}.png" for number in range(1001))) == WHOLE


def test_a_folder_is_told_by_its_documents_if_they_are_few(desk: Desk) -> None:
    for name in ("d/a.md", "d/e/b.md", "d/.hidden.md", "d/c.png", "old/a.md"):
        desk.write(name, "text")
    desk.write(".triptychignore", "ignored/\n")
    desk.write("ignored/a.md", "text")
    sync = desk.syncing()
    sync.sync()
    assert named(desk, sync, "ignored") == []
    assert named(desk, sync, "d", "d/a.md") == [("put", "d/a.md"), ("put", "d/e/b.md")]
    (desk.root / "d").rename(desk.root / "new")
    assert named(desk, sync, "d", "new") == [
        ("delete", "d/a.md"),
        ("delete", "d/e/b.md"),
        ("put", "new/a.md"),
        ("put", "new/e/b.md"),
    ]
    for number in range(300):
        desk.write(f"many/{number}.md", "text")
    assert named(desk, sync, "many") == WHOLE
    sync.sync()
    shutil.rmtree(desk.root / "many")
    assert named(desk, sync, "many") == WHOLE


def test_what_decides_for_others_means_the_dataset(desk: Desk) -> None:
    desk.write("d/a.md", "text")
    os.symlink("d", desk.root / "link")
    os.symlink("../d/a.md", desk.root / "d" / "b.md")
    sync = desk.syncing()
    for name in ("", ".gitignore", "d/.triptychignore", "link", "d"):
        assert named(desk, sync, name) == WHOLE


@pytest.mark.parametrize("again", [False, True])
def test_a_folder_that_went_while_it_was_being_read_means_the_dataset(
    desk: Desk, again: bool
) -> None:
    told: list[list[tuple[str, str]]] = []

    class Moving(TextFiles):
        def parse(self, name: str, data: bytes) -> ParsedFile | None:
            if not told:
                shutil.rmtree(desk.root / "d")
                if again:
                    (desk.root / "d").mkdir()
                told.append(named(desk, sync, "d"))
                told.append(named(desk, sync, "e"))
            return super().parse(name, data)

    desk.write("d/a.md", "text")
    sync = desk.syncing(parser=Moving())
    sync.rebuild(RebuildScope(dataset_id="d", doc_name="d/a.md"))
    assert told == [WHOLE, []]
    assert desk.names == ["d/a.md"]
    assert named(desk, sync, "d") == [("delete", "d/a.md")]


@pytest.mark.parametrize("name", ["\udcff.md", "\udcff"])
def test_what_no_document_can_be_called_is_reported_of_all_the_same(desk: Desk, name: str) -> None:
    sync = desk.syncing()
    assert sync.changes([str(desk.root / name)]) in (
        [],
        [ChangeEvent(kind=EventKind.DELETE, dataset_id="d", doc_name=name)],
    )


@pytest.mark.parametrize("desk", ["memory://"], indirect=True)
def test_a_file_whose_name_is_not_utf_8_is_to_be_renamed(desk: Desk) -> None:
    try:
        (desk.root / "\udcff.md").write_text("text")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    (failure,) = desk.sync().failed
    assert "rename the file" in str(failure.error)
    assert "bytes" not in str(failure.error)


def test_a_store_that_cannot_be_asked_means_the_dataset(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = desk.syncing()
    desk.kb.close()
    tell: Callable[[], object] = lambda: named(desk, sync, "gone")  # noqa: E731 - said once
    assert tell() == WHOLE
