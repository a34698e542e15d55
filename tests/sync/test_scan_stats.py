"""What a file looked like proves its bytes only if the clock has moved on since it was changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.rows import each_row
from triptych.scan import FileStat, Tree, compare

SECOND = 1_000_000_000


def stat(mtime: int = 0, ctime: int = 0) -> FileStat:
    return FileStat(size=1, mtime_ns=mtime * SECOND, ctime_ns=ctime * SECOND, inode=1)


@each_row(
    ("mtime", "ctime", "looked", "proves"),
    [
        (10, 10, 13, True),
        (10, 10, 12, False),
        (10, 10, 10, False),
        (1, 10, 11, False),
        (20, 1, 13, False),
    ],
)
def test_a_recent_change_of_bytes_or_inode_proves_nothing(
    mtime: int, ctime: int, looked: int, proves: bool
) -> None:
    found = stat(mtime, ctime)
    assert found.unless_racy(looked * SECOND) == (found if proves else None)


def test_what_proves_nothing_may_have_changed() -> None:
    before = {"same": stat(1), "other": stat(1), "racy": None, "gone": stat(1), "gone too": None}
    now = {"new": stat(1), "same": stat(1), "other": stat(2), "racy": stat(1)}
    found = compare(before, now)
    assert (found.new, found.changed, found.removed) == (
        ["new"],
        ["other", "racy"],
        ["gone", "gone too"],
    )


def test_a_file_that_was_just_written_is_read_without_a_proof(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text")
    with Tree.of(str(tmp_path)) as tree:
        assert tree.read(("a",), 9) == (b"text", None)
        with pytest.raises(OSError, match="more than 3 bytes"):
            tree.read(("a",), 3)
        with pytest.raises(IsADirectoryError), tree.folder(()) as folder:
            folder.open(".")
