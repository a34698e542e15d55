"""Archives: the same bytes for the same store, and a named error for each bad one."""

from __future__ import annotations

import json
import random
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from support.archives import Members, members_of, refused, write_members
from support.rich_stores import KINDS, change, contents, fill, open_kind
from triptych._internal.progress import Progress
from triptych.copies.archive_format import Archive
from triptych.copies.archive_writer import write_archive
from triptych.copies.copy import copy_store
from triptych.errors import (
    CorruptStoreError,
    NotFoundError,
    SchemaVersionError,
    StoreError,
    TriptychError,
    ValidationError,
)
from triptych.testing.builders import fill as fill_plainly, put
from triptych_backends.memory import MemoryStore
from triptych_backends.sqlite import SqliteStore


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of a store with something of everything."""
    store, path = MemoryStore(), tmp_path_factory.mktemp("archive") / "kb.zip"
    fill(store, random.Random(3), 60)
    fill_plainly(store, "c", {"a": "one\n\ntwo", "b": "three"})
    write_archive(store, path)
    return path


def test_restored_store_equals_the_one_that_was_backed_up(archive: Path, tmp_path: Path) -> None:
    source = MemoryStore()
    fill(source, random.Random(3), 60)
    for kind in KINDS:
        store = open_kind(kind, tmp_path, kind)
        try:
            with Archive(archive) as opened:
                report = copy_store(opened, store)
                assert opened.summary.datasets[0].counts == report.datasets[0].counts
            found = contents(store)
            assert found["settings"] == contents(source)["settings"]
            write_archive(store, tmp_path / f"{kind}.zip")
            assert (tmp_path / f"{kind}.zip").read_bytes() == archive.read_bytes()
            with Archive(archive) as opened:
                assert sum(each.written for each in copy_store(opened, store).datasets) == 0
        finally:
            store.close()


def test_archive_has_nothing_of_this_machine_or_moment(archive: Path) -> None:
    with zipfile.ZipFile(archive) as file:
        for info in file.infolist():
            assert info.date_time == (1980, 1, 1, 0, 0, 0)
            assert (info.create_system, info.external_attr >> 16) == (3, 0o644)
            assert info.compress_type == zipfile.ZIP_STORED
        assert file.namelist()[0] == "archive.json"
        assert file.namelist()[-1] == "manifest.json"


def test_backup_is_of_one_moment_while_others_write(tmp_path: Path) -> None:
    for kind in KINDS:
        store = open_kind(kind, tmp_path, kind)
        fill(store, random.Random(9), 25)
        write_archive(store, tmp_path / "before.zip", overwrite=True)
        chance = random.Random(10)

        def write(_: Progress, store: Any = store, chance: random.Random = chance) -> None:
            thread = threading.Thread(target=lambda: [change(store, chance) for _ in range(10)])
            thread.start()
            thread.join()

        write_archive(store, tmp_path / "during.zip", overwrite=True, progress=write)
        write_archive(store, tmp_path / "after.zip", overwrite=True)
        before, during, after = (
            members_of(tmp_path / f"{name}.zip") for name in ("before", "during", "after")
        )
        assert before != after
        if kind != "files":
            assert during == before
        else:  # whose old versions may have gone meanwhile
            assert during["settings.json"] == before["settings.json"]
            assert _current(during) == _current(before)
        store.close()


def _current(members: Members) -> list[Any]:
    lines = [
        line for data in members.values() for line in data.splitlines() if b'"versions"' in line
    ]
    states = [json.loads(line) for line in lines]
    return [
        (each["name"], each["versions"][-1:], each["chunks"], each["layers"])
        for each in states
        if "name" in each
    ]


def test_existing_file_is_overwritten_only_if_that_is_said(tmp_path: Path) -> None:
    store, path = MemoryStore(), tmp_path / "kb.zip"
    path.write_text("mine")
    with pytest.raises(ValidationError, match="exists"):
        write_archive(store, path)
    assert path.read_text() == "mine"
    write_archive(store, path, overwrite=True)
    assert Archive(path).datasets() == []
    with pytest.raises(StoreError, match="cannot be written"):
        write_archive(store, tmp_path / "none" / "kb.zip")


def test_backup_that_fails_leaves_no_file(tmp_path: Path) -> None:
    store, path = MemoryStore(), tmp_path / "kb.zip"
    fill_plainly(store, "d", {"a": "one"})

    def fail(_: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_archive(store, path, progress=fail)
    assert list(tmp_path.iterdir()) == []


# Bad archives


def test_what_is_no_archive_is_named(tmp_path: Path) -> None:
    assert isinstance(refused(tmp_path / "none.zip"), NotFoundError)
    (tmp_path / "text.zip").write_text("Tea needs hot water.")
    assert "not an archive" in str(refused(tmp_path / "text.zip"))
    (tmp_path / "folder.zip").mkdir()
    assert isinstance(refused(tmp_path / "folder.zip"), ValidationError)
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as file:
        file.writestr("readme.txt", "of somebody else")
    assert "not an archive" in str(refused(tmp_path / "other.zip"))
    for header in (b"{}", b'"text"', b"["):
        with zipfile.ZipFile(tmp_path / "other.zip", "w") as file:
            file.writestr("archive.json", header)
        assert isinstance(refused(tmp_path / "other.zip"), ValidationError | CorruptStoreError)


def test_newer_archive_is_named(archive: Path, tmp_path: Path) -> None:
    members = members_of(archive)
    members["archive.json"] = b'{"format": "triptych-archive", "version": 2}'
    members["something/new"] = b""
    error = refused(write_members(tmp_path / "new.zip", members))
    assert isinstance(error, SchemaVersionError)
    assert "update triptych" in str(error)


@pytest.mark.property
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_archive_that_is_cut_short_or_changed_is_refused(
    archive: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    whole = archive.read_bytes()
    path = tmp_path_factory.getbasetemp() / "damaged.zip"
    at = data.draw(st.integers(0, len(whole) - 1), label="at")
    if data.draw(st.booleans(), label="cut"):
        path.write_bytes(whole[:at])
        assert isinstance(refused(path), CorruptStoreError | ValidationError)
        return
    changed = bytearray(whole)
    changed[at] ^= 1 << data.draw(st.integers(0, 7), label="bit")
    path.write_bytes(changed)
    target = MemoryStore()
    try:
        with Archive(path) as opened:
            copy_store(opened, target)
    except TriptychError:
        assert list(target.documents.list_datasets()) == []
        return
    # A bit that says nothing of what is stored, such as a time.
    write_archive(target, path, overwrite=True)
    assert path.read_bytes() == whole


def _with_member(name: str) -> Callable[[Members], None]:
    def act(members: Members) -> None:
        members[name] = b"text"

    return act


def _line(edit: Callable[[dict[str, Any]], object]) -> Callable[[Members], None]:
    """An edit of the first line, of a document with chunks and vectors."""

    def act(members: Members) -> None:
        name = "datasets/000001/names.jsonl"
        lines = [json.loads(line) for line in members[name].splitlines()]
        edit(
            max(
                lines, key=lambda each: sum(chunk["vector"] is not None for chunk in each["chunks"])
            )
        )
        members[name] = b"".join(json.dumps(line).encode() + b"\n" for line in lines)

    return act


def _swap(members: Members) -> None:
    name = "datasets/000001/names.jsonl"
    members[name] = b"".join(reversed(members[name].splitlines(keepends=True)))


def _text(name: str, text: bytes) -> Callable[[Members], None]:
    def act(members: Members) -> None:
        members[name] = text

    return act


def _infinite(line: dict[str, Any]) -> None:
    for chunk in line["chunks"]:
        if chunk["vector"]:
            chunk["vector"] = "AACAfw=="


EDITS: dict[str, Callable[[Members], None]] = {
    "a path that leads out": _with_member("../../outside"),
    "a path from the root": _with_member("/etc/outside"),
    "a member of no archive": _with_member("datasets/000001/more.jsonl"),
    "a missing member": lambda members: members.pop("datasets/000001/dataset.json") and None,
    "no settings": lambda members: members.pop("settings.json") and None,
    "no JSON": _text("settings.json", b"{"),
    "settings that are no texts": _text("settings.json", b'{"a": 1}'),
    "nested too deeply": _text("settings.json", b"[" * 100_000),
    "no UTF-8": _text("datasets/000001/names.jsonl", b"\xff\n"),
    "names in another order": _swap,
    "another dataset": _line(lambda line: line["versions"][0].update(dataset_id="x")),
    "another name": _line(lambda line: line["versions"][0].update(name="x")),
    "a name that is none": _line(lambda line: line["versions"][0].update(name="a/../b")),
    "an unknown field": _line(lambda line: line.update(more=1)),
    "a version of 0": _line(lambda line: line["versions"][0].update(version=0)),
    "text that is no text": _line(lambda line: line["versions"][0].update(content="\ud800")),
    "a chunk too few": _line(lambda line: line["chunks"].pop(0)),
    "chunks without a document": _line(lambda line: line.update(versions=[])),
    "a vector that is not finite": _line(_infinite),
    "sparse vectors that are none": _line(lambda line: line.update(sparse={"x": "AAAA"})),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_archive_that_nobody_wrote_is_refused(
    edit: Callable[[Members], None], archive: Path, tmp_path: Path
) -> None:
    members = members_of(archive)
    edit(members)
    error = refused(write_members(tmp_path / "bad.zip", members))
    assert isinstance(error, CorruptStoreError)
    assert "bad.zip" in str(error)
    assert not (tmp_path.parent / "outside").exists()


def test_manifest_with_other_digests_or_numbers_is_refused(archive: Path, tmp_path: Path) -> None:
    members = members_of(archive)
    manifest = json.loads(members["manifest.json"])
    manifest["members"]["settings.json"]["sha256"] = "0" * 64
    for data in (json.dumps(manifest).encode(), b"{}", b"null"):
        with zipfile.ZipFile(tmp_path / "bad.zip", "w") as file:
            for name, each in {**members, "manifest.json": data}.items():
                file.writestr(name, each)
        assert isinstance(refused(tmp_path / "bad.zip"), CorruptStoreError)
    manifest = json.loads(members["manifest.json"])
    manifest["datasets"][0]["counts"]["documents"] += 1
    members["manifest.json"] = json.dumps(manifest).encode()
    error = refused(write_members(tmp_path / "bad.zip", members))
    assert "other numbers" in str(error)


def test_compressed_member_is_refused_before_it_is_read(archive: Path, tmp_path: Path) -> None:
    members = members_of(archive)
    members["settings.json"] = b" " * 50_000_000
    path = write_members(tmp_path / "bomb.zip", members, compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 1_000_000
    assert "compressed" in str(refused(path))


def test_member_that_comes_twice_is_refused(archive: Path, tmp_path: Path) -> None:
    path = tmp_path / "twice.zip"
    with zipfile.ZipFile(path, "w") as file:
        for name, data in members_of(archive).items():
            file.writestr(name, data)
        with pytest.warns(UserWarning, match="Duplicate"):
            file.writestr("settings.json", b"{}")
    assert isinstance(refused(path), CorruptStoreError)


def test_restore_that_fails_goes_on(tmp_path: Path) -> None:
    source, path = MemoryStore(), tmp_path / "kb.zip"
    for number in range(80):
        put(source, "d", f"{number:03}", f"text {number}")
    write_archive(source, path)
    with SqliteStore.open(tmp_path / "kb.db", background_index=False) as store, Archive(path) as it:

        def fail(_: Progress) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            copy_store(it, store, progress=fail)
        report = copy_store(it, store)
        assert (report.datasets[0].written, report.datasets[0].unchanged) == (16, 64)
