"""Copies and backups that are killed at any moment: nothing is lost, and they go on."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.rich_stores import contents, fill, open_kind
from triptych.contracts import Store
from triptych.copies import copy_store
from triptych_backends.sqlite import open_backup, write_backup
from triptych_testing import examined
from triptych_testing.builders import fill_at_once

pytestmark = pytest.mark.process
TESTS = Path(__file__).parents[1]
DOCUMENTS = 30


@contextmanager
def copier() -> Iterator[subprocess.Popen[str]]:
    """A process of `support.copy_script`, killed at the end."""
    with subprocess.Popen(
        [sys.executable, "-m", "support.copy_script"],
        cwd=TESTS,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def kill_within(do: str, one: str, other: str, seconds: float) -> bool:
    """Begin and kill; whether it was done before."""
    with copier() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"do": do, "from": one, "to": other}) + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == "begun\n"
        time.sleep(seconds)
        process.kill()
        return process.stdout.read() == "done\n"


def source_of(kind: str, folder: Path, seed: int) -> Store:
    store = open_kind(kind, folder, "source")
    fill(store, random.Random(seed), 25)
    texts = {f"{number:03}": f"text {number}\n\nmore of {number}" for number in range(DOCUMENTS)}
    fill_at_once(store, "many", texts)
    return store


def check_copy(folder: Path, kind: str, to: str, seed: int, *, kills: int) -> None:
    """Kill a copy so many times; what is there is whole, and the next copy makes it all."""
    chance = random.Random(seed)
    source = source_of(kind, folder, seed)
    before = contents(source)
    place = str(folder)
    for _ in range(kills):
        kill_within("copy", f"{kind}:{place}/source", f"{to}:{place}/target", chance.random())
        target = open_kind(to, folder, "target")
        assert [str(each) for each in examined(target, ["d", "e/f", "many"])] == []
        target.close()
    target = open_kind(to, folder, "target")
    copy_store(source, target)
    assert contents(target) == before
    assert sum(each.written for each in copy_store(source, target).datasets) == 0
    assert [str(each) for each in examined(target, ["d", "e/f", "many"])] == []
    source.close()
    target.close()


def check_backup(folder: Path, kind: str, seed: int) -> None:
    """A backup that is killed leaves the one before, and no half of another."""
    chance = random.Random(seed)
    source = source_of(kind, folder, seed)
    backup, place = folder / "backup.db", str(folder)
    write_backup(source, backup)
    whole, before = backup.read_bytes(), contents(source)
    source.close()
    kill_within("backup", f"{kind}:{place}/source", str(backup), chance.random() * 0.2)
    if backup.read_bytes() != whole:  # it was done before the kill
        with open_backup(backup) as opened:
            assert contents(opened) == before


def check_restore(folder: Path, kind: str, seed: int) -> None:
    """A restore that is killed goes on."""
    chance = random.Random(seed)
    source = source_of(kind, folder, seed)
    backup, place = folder / "backup.db", str(folder)
    write_backup(source, backup)
    before = contents(source)
    source.close()
    for _ in range(2):
        kill_within("restore", str(backup), f"{kind}:{place}/restored", chance.random() * 0.4)
    restored = open_kind(kind, folder, "restored")
    with open_backup(backup) as opened:
        copy_store(opened, restored)
    assert contents(restored) == before
    restored.close()


def test_copy_that_is_killed_goes_on(tmp_path: Path) -> None:
    check_copy(tmp_path, "sqlite", "files", 1, kills=1)


def test_backup_that_is_killed_leaves_the_one_before(tmp_path: Path) -> None:
    check_backup(tmp_path, "sqlite", 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 14))
@pytest.mark.parametrize("to", ["sqlite", "files"])
@pytest.mark.parametrize("kind", ["sqlite", "files"])
def test_many_copies_that_are_killed_go_on(kind: str, to: str, seed: int, tmp_path: Path) -> None:
    check_copy(tmp_path, kind, to, seed, kills=6)
    for name, check in (("backup", check_backup), ("restore", check_restore)):
        (tmp_path / name).mkdir()
        check(tmp_path / name, kind, seed)
