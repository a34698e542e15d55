"""A file appears whole, or is as it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from triptych.resources.files import written_whole


def test_file_is_as_it_was_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"before")
    with written_whole(path, mode=0o666) as stream:
        stream.write(b"after")
        stream.flush()
        assert path.read_bytes() == b"before"
    assert path.read_bytes() == b"after"

    def fail() -> None:
        with written_whole(path, mode=0o666) as stream:
            stream.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_bytes() == b"after"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.skipif(os.name == "nt", reason="modes are of Unix")
def test_new_file_gets_the_mode_and_one_that_exists_keeps_its_own(tmp_path: Path) -> None:
    path = tmp_path / "out"
    for before, wanted in ((None, 0o600), (0o640, 0o640), (0o606, 0o606)):
        if before is not None:
            path.chmod(before)
        with written_whole(path, mode=0o600) as stream:
            assert next(tmp_path.glob("*.part")).stat().st_mode & 0o777 & ~wanted == 0
            stream.write(b"text")
        assert path.stat().st_mode & 0o777 == wanted


@pytest.mark.skipif(os.name == "nt", reason="links and pipes of Unix")
def test_link_stays_one_and_a_pipe_is_written(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there" / "out")
    for text in (b"one", b"two"):
        with written_whole(tmp_path / "link", mode=0o600) as stream:
            stream.write(text)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "there" / "out").read_bytes() == text
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with written_whole(tmp_path / "pipe", mode=0o600) as stream:
        stream.write(b"text")
    assert os.read(reader, 9) == b"text"
    os.close(reader)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root writes anything")
def test_file_that_is_protected_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"before")
    path.chmod(0o444)
    with pytest.raises(PermissionError), written_whole(path, mode=0o600):
        pass
    assert path.read_bytes() == b"before"
