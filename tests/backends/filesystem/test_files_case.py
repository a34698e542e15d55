"""A disk that ignores case: names that differ in it alone are kept apart all the same."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from triptych.records import NewDocument
from triptych_backends.filesystem import FilesStore
from triptych_backends.filesystem.disk import Disk
from triptych_backends.filesystem.layout import fold

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the disk there is one itself")


class CaselessDisk(Disk):
    """Finds a file or folder under any spelling; a new one is spelt as it is made."""

    def real(self, path: str) -> str:
        super().real(path)
        found = self.root
        for part in path.split("/"):
            spelt = {}
            if os.path.isdir(found) and not os.path.islink(found):
                spelt = {fold(name): name for name in os.listdir(found)}
            found = os.path.join(found, spelt.get(fold(part), part))
        return found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "kb"


def opened(root: Path) -> FilesStore:
    return FilesStore.open(root, disk=CaselessDisk)


def names(store: FilesStore) -> list[str]:
    return [info.name for info in store.documents.list("d")]


def test_names_that_differ_in_case_are_two_documents(root: Path) -> None:
    every = [
        "Guide/a",
        "guide/a",
        "guide/b",
        "README",
        "Readme",
        "readme",
        "Stra\u00dfe",
        "strasse",
    ]
    with opened(root) as store:
        for name in every[::2]:
            store.documents.put("d", NewDocument(name=name, content=f"of {name}"))
        store.documents.put_many(
            "d", [NewDocument(name=name, content=f"of {name}") for name in every[1::2]]
        )
        store.documents.put("D", NewDocument(name="readme", content="in another"))
    with opened(root) as store:
        assert names(store) == sorted(every)
        for name in every:
            found = store.documents.get("d", name)
            assert found is not None
            assert (found.content, found.version) == (f"of {name}", 1)
        other = store.documents.get("D", "readme")
        assert other is not None
        assert other.content == "in another"
        store.documents.delete("d", "README")
        assert names(store) == sorted(set(every) - {"README"})
        assert store.problems() == ()


def test_a_file_that_was_made_by_hand_is_not_overwritten_under_another_spelling(
    root: Path,
) -> None:
    with opened(root) as store:
        (root / "d" / "Deep").mkdir(parents=True)
        (root / "d" / "Read.md").write_text("by hand")
        (root / "d" / "Deep" / "a.md").write_text("by hand")
        for name in ("read.md", "deep/b.md"):
            store.documents.put("d", NewDocument(name=name, content="put"))
        assert names(store) == ["Deep/a.md", "Read.md", "deep/b.md", "read.md"]
        assert (root / "d" / "Read.md").read_text() == "by hand"


def test_a_rename_that_changes_case_alone_is_a_rename(root: Path) -> None:
    with opened(root) as store:
        store.documents.put("d", NewDocument(name="a.md", content="text"))
        (root / "d" / "a.md").rename(root / "d" / "A.md")
        for _ in range(2):
            assert names(store) == ["A.md"]
        found = store.documents.get("d", "A.md")
        assert found is not None
        assert (found.content, found.version) == ("text", 2)
        assert store.documents.get("d", "a.md") is None
    with opened(root) as store:
        assert names(store) == ["A.md"]
        assert store.problems() == ()
