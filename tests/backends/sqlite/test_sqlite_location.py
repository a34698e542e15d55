"""Where an SQLite store may be, and what is said where it may not."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from support.rows import each_row
from triptych.errors import StoreError, ValidationError
from triptych_backends.sql.document_rows import prefix_end
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


characters = st.characters(exclude_categories=["Cs"])


@given(st.text(characters), st.text(characters))
def test_prefix_end_bounds_exactly_what_starts_with_the_prefix(prefix: str, name: str) -> None:
    end = prefix_end(prefix)
    inside = name >= prefix and (end is None or name < end)
    assert name.startswith(prefix) <= inside
    if end is not None:
        assert inside == name.startswith(prefix)
        end.encode()


@each_row(
    ("prefix", "end"),
    [("", None), ("a", "b"), ("a\U0010ffff", "b"), ("\ud7ff", "\ue000"), ("\U0010ffff", None)],
)
def test_prefix_end_at_the_edges_of_unicode(prefix: str, end: str | None) -> None:
    assert prefix_end(prefix) == end
