"""An archive is refused before anything is written, or every store takes all of it over."""

from __future__ import annotations

import copy
import json
import random
import zipfile
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from support.archives import Members, members_of, refused, write_members
from support.rich_stores import contents, fill
from triptych._internal.progress import Progress
from triptych.contracts import Store
from triptych.copies.archive_format import Archive
from triptych.copies.archive_writer import write_archive
from triptych.copies.copy import copy_store
from triptych.copies.report import Counts, count
from triptych.errors import CorruptStoreError, StoreError, ValidationError
from triptych.records import NameState, NewDocument
from triptych.records.serialization import from_dict, to_dict
from triptych.records.spaces import sparse
from triptych.testing.builders import CONFIG, SPARSE, fill as fill_plainly, put, sparse_of
from triptych_backends.memory import MemoryStore
from triptych_backends.sqlite import SqliteStore

NAMES = "datasets/000001/names.jsonl"
HEAD = "datasets/000001/dataset.json"
AHEAD = "0001-01-01T00:00:00+14:00"
"""A time that UTC does not have."""

Edit = Callable[[Members], object]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of a store with something of everything."""
    store, path = MemoryStore(), tmp_path_factory.mktemp("archive") / "kb.zip"
    fill(store, random.Random(3), 120)
    config = attrs.evolve(CONFIG, sparse_sig=SPARSE)
    fill_plainly(store, "c", {"a": "one\n\ntwo", "b": "three"}, config)
    vectors = {each.sig.input_sig: sparse_of("one") for each in store.chunks.iter_chunks("c", "a")}
    store.chunks.put_vectors("c", sparse(SPARSE), ["a"], vectors)
    write_archive(store, path)
    return path


def lines_of(members: Members, name: str) -> list[Any]:
    return [json.loads(line) for line in members[name].splitlines()]


def set_lines(members: Members, name: str, lines: list[Any]) -> None:
    members[name] = b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def in_line(where: str, edit: Callable[[dict[str, Any]], object]) -> Edit:
    """An edit of the first line of any dataset that has something in the field ``where``."""

    def act(members: Members) -> None:
        for name in sorted(name for name in members if name.endswith(".jsonl")):
            lines = lines_of(members, name)
            for line in lines:
                if line[where]:
                    edit(line)
                    set_lines(members, name, lines)
                    return
        raise AssertionError(where)

    return act


def field(where: str, name: str, value: object, *, inside: str = "") -> Edit:
    """Another value of a field of the first version, chunk, … of a name."""

    def edit(line: dict[str, Any]) -> None:
        record = line[where][0]
        (record[inside] if inside else record)[name] = value

    return in_line(where, edit)


def head(**values: object) -> Edit:
    return lambda members: members.update({HEAD: _changed(members[HEAD], values)})


def config(**values: object) -> Edit:
    def edit(members: Members) -> None:
        found = json.loads(members[HEAD])
        found["config"].update(values)
        members[HEAD] = json.dumps(found).encode()

    return edit


def usage(**values: object) -> Edit:
    return head(usage=[{"model": "m", **values}])


def setting(key: str, value: str = "value") -> Edit:
    return lambda members: members.update({"settings.json": json.dumps({key: value}).encode()})


def _changed(data: bytes, values: dict[str, object]) -> bytes:
    return json.dumps({**json.loads(data), **values}).encode()


def _nothing(members: Members) -> None:
    lines = lines_of(members, NAMES)
    lines.append({"name": "zzz/../b", "versions": []})
    set_lines(members, NAMES, lines)


def _empty_folder(members: Members) -> None:
    lines = lines_of(members, NAMES)
    lines.append({"name": "zzz/", "checkpoints": {"key": "text"}})
    set_lines(members, NAMES, lines)


def _second_width(members: Members) -> None:
    lines = lines_of(members, NAMES)
    lines[-1]["chunks"][0]["vector"] = "AACAPwAAgD8="
    set_lines(members, NAMES, lines)


def _as_utf_16(members: Members) -> None:
    members["settings.json"] = members["settings.json"].decode().encode("utf-16")


HUGE = 2**70
EDITS: dict[str, Edit] = {
    "a version beyond 64 bits": field("versions", "version", HUGE),
    "a version that none can follow": field("versions", "version", 2**53),
    "a version of a delete beyond 64 bits": head(deleted_version=HUGE),
    "a version of a delete that none can follow": head(deleted_version=2**53),
    "a negative version of a delete": head(deleted_version=-1),
    "an offset beyond 64 bits": field("chunks", "offset", HUGE),
    "a negative offset": field("chunks", "offset", -1),
    "a line beyond 64 bits": field("chunks", "start_line", HUGE),
    "an occurrence beyond 64 bits": field("chunks", "occurrence", HUGE),
    "a window beyond 64 bits": field("chunks", "window_end", HUGE),
    "a source version beyond 64 bits": field("layers", "source_version", HUGE, inside="sig"),
    "a time before the first in UTC": field("versions", "updated_at", AHEAD),
    "an expiry before the first in UTC": field("versions", "expires_at", AHEAD, inside="system"),
    "a time of a quarantine without an offset": field(
        "quarantined", "quarantined_at", "2024-01-01"
    ),
    "a lone surrogate in a signature": field("versions", "parser_sig", "\ud800"),
    "a lone surrogate in a checkpoint": in_line(
        "checkpoints", lambda line: line["checkpoints"].update({"key": "\ud800"})
    ),
    "a lone surrogate in a setting": setting("key", "\ud800"),
    "a lone surrogate in the key of a setting": setting("\udfff"),
    "NUL in a signature": field("chunks", "input_sig", "a\0", inside="sig"),
    "NUL in a setting": setting("key", "\0"),
    "NUL in the key of a setting": setting("a\0b"),
    "a key of a setting that is too long": setting("x" * 1_001),
    "leases of work": setting("leases", '[{"until": 1e300, "seconds": 1e300}]'),
    "a probe of a copy": setting("copy.0"),
    "a request under way": setting("http.idempotency.x"),
    "JSON that is not in UTF-8": _as_utf_16,
    "a name with nothing under it": _nothing,
    "a checkpoint of a folder without documents": _empty_folder,
    "vectors of two lengths in one space": _second_width,
    "a vector that is too long for float32": field("chunks", "vector", "//9/f///f38="),
    "a chunk of another signature than its set": field(
        "chunks", "chunker_sig", "other", inside="sig"
    ),
    "a layer that nobody makes": field("layers", "layer", "L2"),
    "a layer that says it is stale": field("layers", "stale", "source"),
    "chunks without a signature": in_line("chunks", lambda line: line.update(sig=None)),
    "a layer twice": in_line(
        "layers", lambda line: line["layers"].insert(0, copy.deepcopy(line["layers"][0]))
    ),
    "a sparse vector of no text": in_line(
        "sparse", lambda line: line["sparse"].update(x=next(iter(line["sparse"].values())))
    ),
    "a language that nobody speaks": config(language="klingon"),
    "a cost that is no number": usage(cost=float("nan")),
    "a cost beyond all numbers": usage(cost=10**400),
    "a negative count": usage(calls=-1),
    "a count beyond 64 bits": usage(input_tokens=HUGE),
    "usage twice": head(usage=[{"model": "m"}, {"model": "m"}]),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_poison_is_refused(edit: Edit, archive: Path, tmp_path: Path) -> None:
    members = members_of(archive)
    edit(members)
    recounted(members)
    error = refused(write_members(tmp_path / "bad.zip", members))
    assert isinstance(error, CorruptStoreError)
    assert "nothing was read from it" in str(error)


def recounted(members: Members) -> None:
    """Let the manifest say how much there is, where that can be read."""
    manifest = json.loads(members["manifest.json"])
    for at, dataset in enumerate(manifest["datasets"], start=1):
        lines = lines_of(members, f"datasets/{at:06}/names.jsonl")
        counts = Counts()
        try:
            for line in lines:
                counts += count(from_dict(NameState, line))
        except (ValidationError, ValueError, OverflowError):
            return
        dataset.update(names=len(lines), counts=to_dict(counts))
    members["manifest.json"] = json.dumps(manifest).encode()


def test_encrypted_header_is_refused(archive: Path, tmp_path: Path) -> None:
    data = bytearray(archive.read_bytes())
    data[data.find(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "bad.zip").write_bytes(data)
    assert isinstance(refused(tmp_path / "bad.zip"), CorruptStoreError)


@pytest.mark.property
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_damaged_lists_of_members_have_a_named_error(
    archive: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    whole = bytearray(archive.read_bytes())
    for _ in range(data.draw(st.integers(1, 3), label="changes")):
        at = whole.find(b"PK\x01\x02") + data.draw(st.integers(4, 700), label="at")
        piece = data.draw(
            st.sampled_from([b"\xff", b"\xff" * 4, b"\xff" * 8, b"\0" * 4, b"\1\0\0\0"]),
            label="piece",
        )
        whole[at : at + len(piece)] = piece
    path = tmp_path_factory.getbasetemp() / "members.zip"
    path.write_bytes(whole)
    target = MemoryStore()
    try:
        with Archive(path) as opened:
            copy_store(opened, target)
    except (CorruptStoreError, ValidationError):
        assert list(target.documents.list_datasets()) == []


HOSTILE = (HUGE, 2**63 - 1, -1, 0, True, None, "", "\ud800", "a\0b", "x" * 3_000, "..", "/", "é")
HOSTILE_TOO = (AHEAD, "2024-01-01T00:00:00+02:00", {}, [], 1e300, 10**400, "AACAfw==", "L1", "none")


def places(value: Any, *above: str | int) -> Iterator[tuple[str | int, ...]]:
    """Where a value holds others."""
    inside: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        inside = value.items()
    elif isinstance(value, list):
        inside = enumerate(value)
    for key, each in inside:
        yield (*above, key)
        yield from places(each, *above, key)


@pytest.mark.property
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_archive_is_refused_or_restored_whole_and_its_store_goes_on(
    archive: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Whatever stands anywhere in a record."""
    members = members_of(archive)
    member = data.draw(
        st.sampled_from(
            [NAMES, NAMES, NAMES.replace("1/", "2/"), HEAD, "settings.json", "manifest.json"]
        )
    )
    lines = lines_of(members, member)
    line = data.draw(st.sampled_from(lines))
    place = data.draw(st.sampled_from(list(places(line))), label="place")
    holder = line
    for step in place[:-1]:
        holder = holder[step]
    match data.draw(st.sampled_from(["set", "set", "remove", "repeat"]), label="act"):
        case "set":
            holder[place[-1]] = data.draw(st.sampled_from([*HOSTILE, *HOSTILE_TOO]), label="value")
        case "remove":
            del holder[place[-1]]
        case _ if isinstance(holder, list):
            holder.append(copy.deepcopy(holder[place[-1]]))
    set_lines(members, member, lines)
    if member == NAMES:
        recounted(members)
    folder = tmp_path_factory.mktemp("store")
    path = write_members(folder / "any.zip", members)
    try:
        opened = Archive(path)
    except CorruptStoreError:
        return
    with opened:
        for store in (MemoryStore(), SqliteStore.open(folder / "kb.db", background_index=False)):
            with store:
                copy_store(opened, store)
                write_archive(store, folder / "again.zip", overwrite=True)
                for dataset_id in store.documents.list_datasets():
                    for info in store.documents.list(dataset_id):
                        put(store, dataset_id, info.name, "another text")


def test_archive_that_is_changed_while_it_is_read_is_named_with_what_was_written(
    tmp_path: Path,
) -> None:
    source, path = MemoryStore(), tmp_path / "kb.zip"
    for number in range(300):
        put(source, "d", f"{number:03}", f"text {number}")
    write_archive(source, path)
    whole = path.read_bytes()
    for changed in (
        whole.replace(b'"text 290"', b'"evil 290"'),
        whole[: whole.index(b'"text 290"')] + b"\0" * (len(whole) - whole.index(b'"text 290"')),
    ):
        path.write_bytes(whole)
        target = MemoryStore()

        def change(_: Progress, changed: bytes = changed) -> None:
            with path.open("r+b") as file:
                file.write(changed)

        with (
            Archive(path) as archive,
            pytest.raises(CorruptStoreError, match="was changed since it was checked") as raised,
        ):
            copy_store(archive, target, progress=change)
        assert "nothing was read" not in str(raised.value)
        assert f"{target.documents.count('d')} names were copied before that" in str(raised.value)
        assert 0 < target.documents.count("d") < 300
        path.write_bytes(whole)
        with Archive(path) as archive:
            copy_store(archive, target)
        assert contents(target) == contents(source)


def test_backup_that_no_restore_would_take_is_not_made(tmp_path: Path) -> None:
    def of_a_setting(store: MemoryStore) -> None:
        store.set_setting("a\0b", "value", expected=None)

    def of_a_version(store: MemoryStore) -> None:
        document = store.documents.get("d", "a")
        assert document is not None
        state = NameState(name="b", versions=(attrs.evolve(document, name="b", version=2**53),))
        store.load_states("d", [state])

    def of_a_delete(store: MemoryStore) -> None:
        store.use_up_versions("d", 2**53)

    for spoil, said in (
        (of_a_setting, "the settings"),
        (of_a_version, "'b'"),
        (of_a_delete, "'d'"),
    ):
        store = MemoryStore()
        put(store, "d", "a", "text")
        spoil(store)
        with pytest.raises(StoreError, match=f"{said} cannot be in an archive"):
            write_archive(store, tmp_path / "kb.zip")
        assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_settings_of_any_length_are_restored(tmp_path: Path) -> None:
    store: Store
    store, target = MemoryStore(), MemoryStore()
    for number in range(70):
        store.set_setting(f"key {number}", "x" * 1_000_000, expected=None)
    write_archive(store, tmp_path / "kb.zip")
    with Archive(tmp_path / "kb.zip") as archive:
        assert copy_store(archive, target).settings == 70


def test_archive_of_more_datasets_than_six_digits_is_read(archive: Path, tmp_path: Path) -> None:
    members = members_of(archive)
    members["datasets/1000000/dataset.json"] = b""
    error = refused(write_members(tmp_path / "bad.zip", members))
    assert "does not list the members" in str(error)


def test_expiry_that_utc_does_not_have_is_refused() -> None:
    early = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))
    with pytest.raises(ValidationError, match="expires_at"):
        NewDocument(name="a", content="text", expires_at=early)


def test_zip_of_somebody_else_is_not_damaged_but_none(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as file:
        file.writestr("archive.json", '{"format": "of another"}')
    assert "not an archive of Triptych" in str(refused(tmp_path / "other.zip"))
