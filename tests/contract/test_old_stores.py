"""Stores that earlier versions wrote open, move what they hold, and derive nothing again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import attrs
import pytest

from json_store import JsonStore
from support.old_stores import KEYS, age_files, age_json, age_sqlite
from triptych.contracts import Store
from triptych.records import NewDocument, SystemData
from triptych.service import Service, ServiceOptions
from triptych.sync import DirectorySync, SyncRoot
from triptych.testing.fakes import FakeEmbedder
from triptych_backends.filesystem import FilesStore
from triptych_backends.parsing import default_parser
from triptych_backends.parsing.outliner import outline_of
from triptych_backends.sqlite import SqliteStore

JSON = '{"a": "' + "kettle " * 60 + '", "b": "' + "y " * 150 + '"}\n'


@attrs.frozen
class Kind:
    """How such a store is opened and aged, and whether what was derived is still there."""

    open: Callable[[Path], Store]
    age: Callable[[Path], None]
    derived: bool = True


KINDS = {
    "sqlite": Kind(SqliteStore.open, age_sqlite),
    "files": Kind(FilesStore.open, age_files),
    "files without their database": Kind(
        FilesStore.open, lambda folder: age_files(folder, derived=False), derived=False
    ),
    "json": Kind(JsonStore, age_json),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@contextmanager
def opened(kind: Kind, path: Path) -> Iterator[Service]:
    options = ServiceOptions(embedder=FakeEmbedder(), outliner=outline_of)
    with Service(kind.open(path / "kb"), options=options) as service:
        yield service


def syncing(kb: Service, path: Path, *, state: str | None = "state") -> DirectorySync:
    root = SyncRoot(path=path / "root", dataset_id="d", key="notes")
    return DirectorySync(kb, [root], parser=default_parser(), state=path / state if state else None)


def fill(kind: Kind, path: Path) -> dict[str, object]:
    """An old store of documents that a sync brought in and one that a program put; what it had."""
    (path / "root").mkdir()
    (path / "root" / "a.json").write_text(JSON.replace("kettle", "pot"))
    (path / "root" / "b.md").write_text("---\nlang: en\n---\n# Kettle\n\nIt whistles.\n")
    with opened(kind, path) as kb:
        assert syncing(kb, path).sync().added == 2
        (path / "root" / "a.json").write_text(JSON)
        assert syncing(kb, path).sync().updated == 1
        kb.put_document(
            "d", "own.json", JSON.replace("y ", "z "), {"lang": "en", "triptych.x": "1"}
        )
        kb.put_document("d", "plain.md", "A plain text.", {"lang": "de"})
        before = {
            info.name: (info.version, info.input_sig, info.system, dict(info.metadata))
            for info in kb.documents.list("d")
        }
        assert before["a.json"][2].sync_root == "notes"
        assert before["a.json"][2].outline
        assert before["own.json"][2].outline
    kind.age(path / "kb")
    return before


def embedder_of(kb: Service) -> FakeEmbedder:
    assert isinstance(kb.options.embedder, FakeEmbedder)
    return kb.options.embedder


def test_an_old_store_has_its_documents_as_they_would_be_now(kind: Kind, tmp_path: Path) -> None:
    before = fill(kind, tmp_path)
    with opened(kind, tmp_path) as kb:
        after = {
            info.name: (info.version, info.input_sig, info.system, dict(info.metadata))
            for info in kb.documents.list("d")
        }
        assert after == before
        for name in before:
            document = kb.get_document("d", name)
            assert (document.system, document.metadata) == before[name][2:]
        assert before["own.json"][3] == {"lang": "en", "triptych.x": "1"}
        (old,) = kb.history("d", "a.json")[1:]
        kept = kb.get_document("d", "a.json", old.version)
        assert not set(KEYS.values()) & set(kept.metadata)
        assert kept.system.sync_root == "notes"
        assert kept.system.outline not in ("", before["a.json"][2].outline)
        if not kind.derived:
            kb.rebuild(dataset_id="d")
        assert kb.doctor().findings == ()


def test_nothing_in_an_old_store_is_stale_or_derived_again(kind: Kind, tmp_path: Path) -> None:
    fill(kind, tmp_path)
    with opened(kind, tmp_path) as kb:
        if not kind.derived:
            assert kb.rebuild(dataset_id="d").failed == ()
        assert kb.stats("d")[0].stale == 0
        hits = kb.search("kettle whistles", dataset_id="d", where={"lang": "en"}).hits
        assert hits
        assert hits[0].doc_name == "b.md"
        assert {hit.stale for hit in hits} == {None}
        asked = embedder_of(kb).calls
        report = kb.rebuild(dataset_id="d")
        assert (report.rebuilt, report.embedded) == (0, 0)
        assert embedder_of(kb).calls == asked
        ranged = kb.search("kettle", dataset_id="d", where={"lang": {"$gt": "de", "$lt": "f"}})
        assert {hit.doc_name for hit in ranged.hits} == {"b.md", "own.json"}
        kb.put_document("d", "plain.md", "A plain kettle.", {"lang": 5, "since": date(2026, 9, 1)})
        ranged = kb.search("kettle", dataset_id="d", where={"since": {"$gte": date(2026, 1, 1)}})
        assert [hit.doc_name for hit in ranged.hits] == ["plain.md"]
        moved = kb.search("kettle", dataset_id="d", where={KEYS["sync_root"]: "notes"})
        assert not moved.hits


@pytest.mark.parametrize("state", ["state", None])
def test_a_sync_knows_its_documents_in_an_old_store(
    kind: Kind, tmp_path: Path, state: str | None
) -> None:
    before = fill(kind, tmp_path)
    with opened(kind, tmp_path) as kb:
        report = syncing(kb, tmp_path, state=state).sync()
        assert (report.unchanged, report.failed, report.deleted) == (2, (), ())
        assert (report.added, report.updated) == (0, 0)
        assert (report.embedded == 0) is kind.derived
        assert kb.documents.get_info("d", "a.json").version == before["a.json"][0]
        (tmp_path / "root" / "b.md").unlink()
        assert syncing(kb, tmp_path, state=state).sync().deleted == ("b.md",)
        assert [info.name for info in kb.documents.list("d")] == ["a.json", "own.json", "plain.md"]


def test_a_key_of_the_user_is_left_alone_once_the_store_is_of_today(
    kind: Kind, tmp_path: Path
) -> None:
    fill(kind, tmp_path)
    forged = {KEYS["sync_root"]: "notes", KEYS["outline"]: "x"}
    with opened(kind, tmp_path) as kb:
        kb.put_document("d", "plain.md", "Another text.", forged)
    for _ in range(2):
        with opened(kind, tmp_path) as kb:
            document = kb.get_document("d", "plain.md")
            assert (document.metadata, document.system) == (forged, SystemData())
            assert syncing(kb, tmp_path).sync().deleted == ()


def test_a_put_neither_loses_nor_forges_the_root(kind: Kind, tmp_path: Path) -> None:
    fill(kind, tmp_path)
    with opened(kind, tmp_path) as kb:
        for metadata in (None, {}, {"k": "v"}, {KEYS["sync_root"]: ""}):
            kb.put_document("d", "b.md", "written by a program", metadata)
            assert kb.get_document("d", "b.md").system.sync_root == "notes"
        kb.restore("d", "b.md", 1)
        assert kb.get_document("d", "b.md").system.sync_root == "notes"
        kb.put_documents("d", [NewDocument(name="b.md", content="mine", sync_root="")])
        (failure,) = syncing(kb, tmp_path).sync().failed
        assert "put by itself" in str(failure.error)


def test_new_content_does_not_keep_the_outline_of_the_old(kind: Kind, tmp_path: Path) -> None:
    fill(kind, tmp_path)
    with Service(kind.open(tmp_path / "kb"), options=ServiceOptions(embedder=FakeEmbedder())) as kb:
        outline = kb.get_document("d", "a.json").system.outline
        kb.put_document("d", "a.json", JSON, {"k": "v"})
        assert kb.get_document("d", "a.json").system.outline == outline
        changed = kb.put_document("d", "a.json", JSON.replace("kettle", "pan"))
        assert changed.system == SystemData(sync_root="notes")
