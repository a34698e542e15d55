"""Found by attack: what hostile names, files and clones may not do to a store of files."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import triptych
from triptych.errors import CorruptStoreError, StoreError, ValidationError
from triptych.records import DerivedLayer, DerivedSig, Layer, NewDocument
from triptych_backends.filesystem import FilesStore
from triptych_backends.filesystem.disk import LinkError

SIDECARS = ".triptych/datasets/docs/sidecars"
INTENT = ".triptych/journal/intent.json"
DEEP = "[" * 200_000

no_windows = pytest.mark.skipif(sys.platform == "win32", reason="POSIX only")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "kb"


@pytest.fixture
def store(root: Path) -> Iterator[FilesStore]:
    with FilesStore.open(root) as store:
        put(store, "a.md", "one")
        yield store


def put(store: FilesStore, name: str, content: str = "text", dataset: str = "docs") -> int:
    return store.documents.put(dataset, NewDocument(name=name, content=content)).version


def versions(store: FilesStore) -> dict[str, int]:
    return {info.name: info.version for info in store.documents.list("docs")}


@pytest.mark.parametrize("name", ["é" * 200, "x" * 256, "x" * 1000, "a/" + "y" * 300 + "/b"])
def test_a_part_longer_than_a_disk_takes_is_a_name_like_any(store: FilesStore, name: str) -> None:
    assert put(store, name, "long") == 1
    assert put(store, "a.md", "long", dataset=name) == 1
    found = store.documents.get("docs", name)
    assert found is not None
    assert found.content == "long"
    assert store.documents.get("docs", name + "z") is None
    assert set(store.documents.list_datasets()) == {"docs", name}


@pytest.mark.parametrize("name", ["../x", "a/../b", "/abs", "a//b", "./x"])
def test_layers_are_read_whatever_the_name(store: FilesStore, name: str) -> None:
    put(store, name)
    sig = DerivedSig(source_version=1, prompt_sig="p", input_sig="i")
    layer = DerivedLayer(dataset_id="docs", doc_name=name, layer=Layer("L0"), content="l", sig=sig)
    assert store.layers.put(layer)
    assert store.layers.get("docs", name, Layer("L0")) == layer
    assert store.layers.get("docs", name, Layer("L1")) is None


@pytest.mark.parametrize("seen", [True, False])
def test_a_document_removed_by_hand_and_put_again_stands_at_its_path(
    root: Path, store: FilesStore, seen: bool
) -> None:
    (root / "docs" / "a.md").unlink()
    if seen:
        assert versions(store) == {}
    assert put(store, "a.md", "two") == 2
    assert (root / "docs" / "a.md").read_text() == "two"


def test_what_is_added_deep_in_a_new_folder_or_repaired_makes_a_dataset(
    root: Path, store: FilesStore
) -> None:
    (root / "new" / "deep").mkdir(parents=True)
    (root / "bad").mkdir()
    (root / "bad" / "a.md").write_bytes(b"\xff")
    assert list(store.documents.list_datasets()) == ["docs"]
    (root / "new" / "deep" / "a.md").write_text("text")
    (root / "bad" / "a.md").write_text("text")
    assert list(store.documents.list_datasets()) == ["bad", "docs", "new"]


@no_windows
@pytest.mark.parametrize("name", [b"\xff", b"a\nb", b" "])
def test_a_folder_that_can_be_no_dataset_is_reported(
    root: Path, store: FilesStore, name: bytes
) -> None:
    try:
        Path(str(root), name.decode(errors="surrogateescape")).mkdir()
    except OSError:
        pytest.skip("this disk refuses the name")
    assert list(store.documents.list_datasets()) == ["docs"]
    assert [problem.reason for problem in store.problems()] == [
        "has a name that no dataset can have"
    ]


@no_windows
def test_a_socket_is_reported_and_stops_nothing(
    root: Path, store: FilesStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root / "docs")  # their paths are short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("s.md")
    assert versions(store) == {"a.md": 1}
    assert [problem.path for problem in store.problems()] == ["docs/s.md"]
    with pytest.raises(CorruptStoreError, match="not a plain file"):
        put(store, "s.md")


@pytest.mark.parametrize("text", [DEEP, '{"path": "\\ud800"}', '{"path": []}', "[]"])
@pytest.mark.parametrize("name", ["a.md.json", "stray.json"])
def test_no_sidecar_keeps_a_store_from_being_opened(
    root: Path, store: FilesStore, name: str, text: str
) -> None:
    (root / SIDECARS / name).write_text(text)
    assert versions(store) == {"a.md": 1}
    with FilesStore.open(root) as again:
        assert versions(again) == {"a.md": 1}


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_that_no_calendar_has_in_utc_is_no_time(
    root: Path, store: FilesStore, time: str
) -> None:
    place = root / SIDECARS / "a.md.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | {"updated_at": time, "version": 9}))
    assert versions(store) == {"a.md": 1}
    put(store, "a.md", "two")
    assert versions(store) == {"a.md": 2}


def test_deep_json_elsewhere_is_damage_with_a_name(root: Path, store: FilesStore) -> None:
    (root / "_layers" / "docs").mkdir(parents=True)
    (root / "_layers" / "docs" / "a.md.L0.md").write_text(f"---\ndocument: {DEEP}\n---\n\nx\n")
    assert versions(store) == {"a.md": 1}
    assert [problem.path for problem in store.problems()] == ["_layers/docs/a.md.L0.md"]
    for place in (INTENT, ".triptych/store.json"):
        (root / place).write_text(DEEP)
        with pytest.raises(CorruptStoreError, match="is damaged"):
            FilesStore.open(root)


@pytest.mark.parametrize(
    ("part", "path"),
    [
        (".triptych/journal/x.part", ".git/hooks/pre-commit"),
        (".triptych/journal/x.part", "../evil"),
        (".triptych/journal/x.part", ".triptych/store.json"),
        (".triptych/journal/x.part", "\ud800"),
        ("docs/a.md", "docs/b.md"),
    ],
)
def test_an_intent_from_elsewhere_moves_nothing_but_parts_to_documents(
    root: Path, store: FilesStore, part: str, path: str
) -> None:
    store.close()
    (root / ".git" / "hooks").mkdir(parents=True)
    (root / ".triptych" / "journal" / "x.part").write_text("evil")
    moves = {"writes": [[part, path]], "removals": {}}
    removes = {"writes": [], "removals": {path: None}}
    for intent in [moves, *([removes] if path != "docs/b.md" else [])]:
        (root / INTENT).write_text(json.dumps({"datasets": ["docs"], **intent}))
        with pytest.raises(CorruptStoreError, match=r"the journal .* is damaged"):
            FilesStore.open(root)
    assert not any((root / ".git" / "hooks").iterdir())
    assert (root / "docs" / "a.md").read_text() == "one"
    assert (root / ".triptych" / "store.json").exists()


@no_windows
@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("name", ["", "/kb.db", "/kb.db-wal", "/kb.db-shm", "/kb.db.index"])
def test_no_link_leads_the_derived_database_out(
    root: Path, store: FilesStore, tmp_path: Path, name: str, read_only: bool
) -> None:
    store.close()
    outside = tmp_path / "outside"
    outside.mkdir()
    place = Path(f"{root}/.triptych/derived{name}")
    if place.exists():
        place.rename(outside / "moved")
    place.symlink_to(outside / "moved")
    before = {path: path.stat().st_mtime_ns for path in outside.rglob("*")}
    with pytest.raises(LinkError, match="remove the link"):
        FilesStore.open(root, read_only=read_only)
    assert {path: path.stat().st_mtime_ns for path in outside.rglob("*")} == before


def test_a_folder_in_the_way_of_a_store_file_is_named_and_leaves_no_intent(
    root: Path, store: FilesStore
) -> None:
    place = root / SIDECARS / "a.md.json"
    place.unlink()
    place.mkdir()
    for _ in range(2):
        with pytest.raises(StoreError, match=r"a\.md\.json has the path .*: move it elsewhere"):
            put(store, "a.md", "two")
    assert not (root / INTENT).exists()
    assert put(store, "b.md") == 1
    place.rmdir()
    assert put(store, "a.md", "two") == 2


def test_a_folder_in_place_of_a_layer_is_a_layer_removed(root: Path, store: FilesStore) -> None:
    sig = DerivedSig(source_version=1, prompt_sig="p", input_sig="i")
    layer = DerivedLayer(
        dataset_id="docs", doc_name="a.md", layer=Layer("L0"), content="l", sig=sig
    )
    assert store.layers.put(layer)
    place = root / "_layers" / "docs" / "a.md.L0.md"
    place.unlink()
    place.mkdir()
    assert versions(store) == {"a.md": 1}
    assert store.layers.get("docs", "a.md", Layer("L0")) is None


@no_windows
@pytest.mark.parametrize("url", ["files://~nobody-here/kb", "~nobody-here/kb.db"])
def test_a_home_that_nobody_has_is_no_place(url: str) -> None:
    with pytest.raises(ValidationError, match="home"):
        triptych.open(url, embedder="hash")
    with pytest.raises(ValidationError, match="home"):
        FilesStore.open("~nobody-here/kb")


def test_a_store_that_was_removed_while_open_says_what_to_do(root: Path, store: FilesStore) -> None:
    shutil.rmtree(root / ".triptych")
    with pytest.raises(StoreError, match="open it again"):
        put(store, "a.md", "two")


@no_windows
def test_an_edit_is_seen_though_size_and_time_are_set_back(
    store: FilesStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two seconds are long.
    monkeypatch.setattr("triptych.scan.stats.RACY_NS", 200_000_000)
    file = root / "docs/a.md"
    past = 1_000_000_000
    os.utime(file, (past, past))
    assert versions(store) == {"a.md": 1}
    time.sleep(0.3)  # beyond the span in which a time says nothing
    assert versions(store) == {"a.md": 1}
    file.write_text("two")
    os.utime(file, (past, past))
    assert versions(store) == {"a.md": 2}


def test_versions_that_are_used_up_are_reported(store: FilesStore, root: Path) -> None:
    sidecar = root / SIDECARS / "a.md.json"
    value = json.loads(sidecar.read_text())
    sidecar.write_text(json.dumps(value | {"version": (1 << 62) - 1}))
    assert versions(store) == {"a.md": (1 << 62) - 1}
    with pytest.raises(StoreError, match="used up"):
        put(store, "a.md", "two")
    assert json.loads(sidecar.read_text())["version"] == (1 << 62) - 1


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write all")
def test_a_folder_that_cannot_be_written_stops_no_other_write(
    store: FilesStore, root: Path
) -> None:
    put(store, "s/a.md")
    (root / "docs/s").chmod(0o500)
    try:
        with pytest.raises(StoreError):
            put(store, "s/a.md", "changed")
        assert put(store, "b.md") == 1
    finally:
        (root / "docs/s").chmod(0o700)
    assert versions(store) == {"a.md": 1, "b.md": 1, "s/a.md": 1}
