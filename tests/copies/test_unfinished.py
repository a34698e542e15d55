"""A store that a copy into has not ended says so, until a copy has."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import triptych
from copies.test_kills import copier
from support.cli_run import ran
from support.postgres import PostgresServer
from support.rich_stores import POSTGRES, fill, names_of, open_kind
from triptych import Service
from triptych.contracts import Store
from triptych.copies import UnfinishedStoreWarning, copy_store, unfinished_copy
from triptych.errors import ConflictError, StoreError
from triptych_backends.memory import MemoryStore
from triptych_backends.sqlite import open_backup, write_backup
from triptych_testing.builders import fill as fill_plainly, fill_at_once, put

DOCUMENTS = 200


def unfinished(store: Store) -> StoreError | None:
    return unfinished_copy(store.capabilities.settings)


def kill_half_way(do: str, one: str, other: str, *, replace: bool) -> None:
    """Kill a copy when it has written its first batch of names."""
    with copier() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        line = {"do": f"{do}-half", "from": one, "to": other, "replace": replace}
        process.stdin.write(json.dumps(line) + "\n")
        process.stdin.flush()
        assert [process.stdout.readline() for _ in range(2)] == ["begun\n", "half\n"]
        process.kill()


def check_killed(do: str, kind: str, folder: Path, *, replace: bool) -> None:
    source = open_kind("sqlite", folder, "source")
    fill(source, random.Random(3), 20)
    fill_at_once(source, "many", {f"{at:03}": f"text {at}" for at in range(DOCUMENTS)})
    one = f"sqlite:{folder}/source"
    if do == "restore":
        one = f"{folder}/backup.db"
        write_backup(source, one)
    target = open_kind(kind, folder, "target")
    if replace:
        fill_at_once(target, "many", {f"{at:03}": f"old {at}" for at in range(DOCUMENTS)})
    target.close()
    kill_half_way(do, one, f"{kind}:{folder}/target", replace=replace)
    target = open_kind(kind, folder, "target")
    error = unfinished(target)
    assert error is not None
    assert "'many'" in str(error)
    assert "`triptych copy again` finishes it" in error.hint
    service = Service(target)
    (found,) = [each for each in service.doctor().findings if each.check == "copy.unfinished"]
    assert "triptych copy again" in found.remedy
    with pytest.raises(StoreError, match="unfinished"):
        copy_store(target, MemoryStore())
    with pytest.raises(StoreError, match="unfinished"):
        write_backup(target, folder / "half.db")
    assert not (folder / "half.db").exists()
    if do == "restore":
        with open_backup(one) as backup:
            copy_store(backup, target, replace=replace)
    else:
        copy_store(source, target, replace=replace)
    assert unfinished(target) is None
    assert names_of(target) == names_of(source)  # what was replaced has used up versions
    assert "copy.unfinished" not in {each.check for each in service.doctor().findings}
    source.close()
    target.close()


@pytest.mark.process
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("do", ["copy", "restore"])
@pytest.mark.parametrize("kind", ["sqlite", "files"])
def test_store_says_that_a_copy_into_it_was_killed(
    kind: str, do: str, replace: bool, tmp_path: Path
) -> None:
    check_killed(do, kind, tmp_path, replace=replace)


@pytest.mark.process
@pytest.mark.parametrize("name", ["source.db", "backup.db"])
@pytest.mark.parametrize("scheme", ["", "files://"])
def test_new_store_says_so_from_its_first_moment(name: str, scheme: str, tmp_path: Path) -> None:
    source = open_kind("sqlite", tmp_path, "source")
    fill_plainly(source, "d", {"a": "one"})
    write_backup(source, tmp_path / "backup.db")
    source.close()
    target = tmp_path / "target"
    old = tmp_path / ".target.new-old"  # of one that was killed long ago
    old.mkdir()
    os.utime(old, (0, 0))
    one = tmp_path / name
    words = [sys.executable, "-m", "triptych_adapters.cli", "copy", str(one), f"{scheme}{target}"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        while not target.exists():
            assert process.poll() is None
            time.sleep(0.0005)
        process.kill()
    assert not old.exists()
    ended = ran(["--store", f"{scheme}{target}", "status"])
    assert f"`triptych copy {one} {target}" in ended.err.replace(scheme or "\0", "")
    assert ran(["copy", str(one), f"{scheme}{target}"]).code == 0
    assert "unfinished" not in ran(["--store", f"{scheme}{target}", "status"]).err
    assert len(list(tmp_path.glob(".target.new-*"))) <= 1  # of the one that was killed


@pytest.fixture
def on_server(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PostgresServer]:
    monkeypatch.setenv(POSTGRES, postgres_server.url)
    yield postgres_server
    with postgres_server.connect() as driver:
        driver.execute("DROP SCHEMA IF EXISTS target CASCADE")


@pytest.mark.process
@pytest.mark.parametrize("replace", [False, True])
def test_store_on_a_server_says_so_too(
    replace: bool, on_server: PostgresServer, tmp_path: Path
) -> None:
    check_killed("restore", "postgres", tmp_path, replace=replace)


def failed_copy(source: Store, target: Store, **options: object) -> None:
    """A copy that ends at its first document."""

    def fail(progress: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy_store(source, target, progress=fail, **options)  # type: ignore[arg-type]


def test_copy_of_other_datasets_leaves_the_note() -> None:
    source, target = MemoryStore(), MemoryStore()
    for dataset_id in ("d", "e"):
        fill_plainly(source, dataset_id, {"a": "one"})
    failed_copy(source, target, datasets=["d"])
    copy_store(source, target, datasets=["e"])
    assert unfinished(target) is not None
    copy_store(target, MemoryStore(), datasets=["e"])
    with pytest.raises(StoreError, match="'d'"):
        copy_store(target, MemoryStore(), datasets=["d", "e"])
    copy_store(source, target)
    assert unfinished(target) is None


def test_copy_that_nobody_can_finish_is_forgotten_once_its_datasets_are_deleted() -> None:
    source, target = MemoryStore(), MemoryStore()
    fill_plainly(source, "d", {"a": "one"})
    failed_copy(source, target)
    service = Service(target)
    assert service.doctor(repair=True).repaired == ()
    assert unfinished(target) is not None
    service.delete_dataset("d")
    assert [each.check for each in service.doctor(repair=True).repaired] == ["copy.unfinished"]
    assert unfinished(target) is None


def test_copy_that_is_refused_notes_nothing() -> None:
    source, target = MemoryStore(), MemoryStore()
    fill_plainly(source, "d", {"a": "one"})
    fill_plainly(target, "d", {"b": "mine"})
    with pytest.raises(ConflictError):
        copy_store(source, target)
    assert unfinished(target) is None


def test_note_of_a_copy_that_runs_beside_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two copies into one store: the first that ends does not speak for the other."""
    source, target = MemoryStore(), MemoryStore()
    fill_plainly(source, "d", {"a": "one"})
    begun = []

    def beside(progress: object) -> None:
        if not begun:
            begun.append(True)
            failed_copy(source, target)

    copy_store(source, target, replace=True, progress=beside)
    assert unfinished(target) is not None


def test_commands_and_open_say_what_to_type(tmp_path: Path) -> None:
    source = open_kind("sqlite", tmp_path, "source")
    fill_plainly(source, "d", {"a": "tea is hot"})
    for text in ("newer", "tea is cold"):
        put(source, "d", "a", text)
    source.close()
    one, url, backup = (str(tmp_path / each) for each in ("source.db", "target.db", "backup.db"))
    assert ran(["--store", one, "backup", backup]).code == 0
    # It ends at the first document: the destination keeps fewer old versions.
    for command in (["copy", one, url], ["copy", backup, url, "--replace"]):
        assert ran(command, env={"TRIPTYCH_HISTORY": "0"}).code != 0
    for command in (["search", "tea"], ["status"], ["get", "a", "-d", "d"], ["sync"]):
        ended = ran(["--store", url, *command])
        assert "this store is unfinished" in ended.err, command
        said = (f"triptych copy {one} {url}", f"triptych copy {backup} {url}")
        assert any(each in ended.err for each in said)
    assert "this store is unfinished" in ran(["--store", url, "doctor"]).both
    refused = ran(["--store", url, "backup", str(tmp_path / "other.db")])
    assert refused.code != 0
    assert "this store is unfinished" in refused.err
    third = tmp_path / "third.db"
    refused = ran(["copy", url, str(third)])
    assert (refused.code != 0, third.exists()) == (True, False)
    assert "this store is unfinished" in refused.err
    with (
        pytest.warns(UnfinishedStoreWarning, match="unfinished"),
        triptych.open(url, embedder="hash"),
    ):
        pass
    with open_kind("sqlite", tmp_path, "target") as target:
        target.documents.delete_dataset("d")  # what it has lacks the old versions
    ended = ran(["copy", backup, url, "--replace"])
    assert ended.code == 0, ended.err
    assert "unfinished" not in ran(["--store", url, "search", "tea"]).err
