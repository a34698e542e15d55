"""Where an SQLite store may be, and what is said where it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.rows import each_row
from triptych.errors import StoreError, ValidationError
from triptych.records import NewDocument
from triptych_backends.sqlite import SqliteStore
from triptych_backends.sqlite.location import database_path, filesystem_type, refuse_unusable

MOUNTS = """\
/dev/vda / ext4 rw 0 0
server:/export /home nfs4 rw 0 0
/dev/vdb /home/me/local xfs rw 0 0
host:/ /mnt/with\\040space fuse.sshfs rw 0 0
"""


@each_row(
    ("url", "path"),
    [
        ("/tmp/kb.db", "/tmp/kb.db"),
        ("sqlite:////tmp/kb.db", "/tmp/kb.db"),
        ("/tmp/with?mark#and%20.db", "/tmp/with?mark#and%20.db"),
        ("/tmp/a/../kb.db", "/tmp/kb.db"),
    ],
)
def test_paths_and_urls_name_a_file(url: str, path: str) -> None:
    assert database_path(url) == Path(path)


def test_relative_paths_are_fixed_when_opened(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert database_path("kb.db") == tmp_path / "kb.db"
    assert database_path("sqlite:///kb.db") == tmp_path / "kb.db"


@each_row("url", ["sqlite://", ":memory:", "sqlite:///:memory:", ""])
def test_a_database_in_memory_is_refused_by_name(url: str) -> None:
    with pytest.raises(ValidationError, match="memory://"):
        database_path(url)


@pytest.mark.parametrize("url", ["postgresql://h/d", "sqlite:///a?mode=ro", "sqlite://host/a"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ValidationError):
        database_path(url)


@each_row(
    ("path", "kind"),
    [
        ("/etc/kb.db", "ext4"),
        ("/home/me/kb.db", "nfs4"),
        ("/home/me/local/kb.db", "xfs"),
        ("/homes/kb.db", "ext4"),
        ("/mnt/with space/kb.db", "fuse.sshfs"),
    ],
)
def test_longest_mount_point_decides(path: str, kind: str) -> None:
    assert filesystem_type(Path(path), MOUNTS) == kind


def test_network_file_system_is_refused_by_name(tmp_path: Path) -> None:
    mounts = f"server:/x {tmp_path} cifs rw 0 0\n"
    with pytest.raises(StoreError, match=r"cifs.*local disk"):
        refuse_unusable(tmp_path / "kb.db", create=True, read_only=False, mounts=mounts)


EDGES = ["a", "a\U0010ffff", "b", "\ud7ff", "\ue000", "\U0010ffff", "\U0010ffff\U0010ffff"]


def test_a_prefix_bounds_exactly_what_starts_with_it(tmp_path: Path) -> None:
    with SqliteStore.open(tmp_path / "kb.db") as store:
        names = sorted({first + second for first in EDGES for second in ["", "a", *EDGES]})
        store.documents.put_many("d", [NewDocument(name=each, content="") for each in names])
        for prefix in ["", *names]:
            found = [info.name for info in store.documents.list("d", prefix=prefix)]
            assert found == [name for name in names if name.startswith(prefix)]
