"""What is wrong with sparse vectors is found, and repaired from the documents."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from triptych.errors import CorruptStoreError, NotAvailableError
from triptych.service import Service, ServiceOptions
from triptych_backends.filesystem import FilesStore
from triptych_backends.memory import MemoryStore
from triptych_backends.sqlite import SqliteStore
from triptych_testing.fakes import FakeSparseEncoder

A = "(SELECT id FROM document WHERE name = 'a.md')"
TEXTS = {"a.md": "The owl sleeps.", "b.md": "A kettle.", "c.md": "The owl sleeps."}


def opened(path: Path, encoder: FakeSparseEncoder | None = None) -> Service:
    options = ServiceOptions(sparse_encoder=encoder or FakeSparseEncoder())
    return Service(SqliteStore.open(path), options=options)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "kb.db"
    with opened(path) as kb:
        kb.put_documents("d", TEXTS)
        kb.put_documents("d", {"later.md": "A reef."}, embed="later")
        kb.documents.searcher.index.publish("d")  # type: ignore[attr-defined]  # SqlDocuments
    return path


@pytest.fixture
def path(filled: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "kb.db"
    shutil.copy(filled, copy)
    shutil.copytree(filled.with_name("kb.db.index"), tmp_path / "kb.db.index")
    return copy


def run(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as driver, driver:
        driver.execute("PRAGMA foreign_keys=OFF")
        for statement in statements:
            driver.execute(statement)


@pytest.mark.parametrize("kind", ["memory", "sqlite", "files"])
def test_a_healthy_store_with_sparse_vectors_is_clean(kind: str, tmp_path: Path) -> None:
    store = {
        "memory": MemoryStore,
        "sqlite": lambda: SqliteStore.open(tmp_path / "kb.db"),
        "files": lambda: FilesStore.open(tmp_path / "kb"),
    }[kind]()
    with Service(store, options=ServiceOptions(sparse_encoder=FakeSparseEncoder())) as kb:
        kb.put_documents("d", TEXTS)
        kb.put_documents("d", {"later.md": "A reef."}, embed="later")
        kb.delete_document("d", "b.md")
        assert kb.search("owl", dataset_id="d", mode="sparse").hits
        assert kb.doctor().findings == ()


BREAKS = {
    "damaged": ("UPDATE vector SET data = x'0200'", "sparse.stored"),
    "damaged weights": (
        "UPDATE vector SET data = CAST(substr(data, 1, length(data) - 1) || x'7f' AS BLOB)",
        "sparse.stored",
    ),
    "vector": ("DELETE FROM vector", "orphans.vector_use.vector_id"),
    "space": ("DELETE FROM space", "orphans.vector.space_id"),
    "use": (f"DELETE FROM vector_use WHERE owner = {A}", "sparse.waiting"),
    "all uses": ("DELETE FROM vector_use", "vectors.unused"),
    "strange use": (
        f"INSERT INTO vector_use SELECT space_id, {A}, id FROM vector WHERE id NOT IN "
        f"(SELECT vector_id FROM vector_use WHERE owner = {A})",
        "spaces.texts",
    ),
    "waiting": ("DELETE FROM waiting", "sparse.waiting"),
    "waiting for nothing": (
        f"INSERT INTO waiting SELECT {A}, dataset_id FROM waiting",
        "sparse.waiting",
    ),
    "waiting elsewhere": ("UPDATE waiting SET dataset_id = 9999", "sparse.waiting"),
    "set": (f"DELETE FROM derivation WHERE document_id = {A}", "chunks.missing"),
    "chunk": (f"DELETE FROM chunk WHERE document_id = {A}", "chunks.counts"),
    "table": ("DROP TABLE waiting", "schema.missing"),
    "index": ("DROP INDEX vector_use_vector", "schema.missing"),
    "digest": ("UPDATE vector SET digest = 'x' || digest", "spaces.texts"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_what_is_broken_is_found_and_repaired(path: Path, name: str) -> None:
    statement, check = BREAKS[name]
    run(path, statement)
    with opened(path) as kb:
        found = kb.doctor()
        assert check in {each.check for each in found.findings}, found.findings
        repaired = kb.doctor(repair=True)
        assert repaired.findings == (), (repaired.findings, repaired.actions)
        assert check in {each.check for each in repaired.repaired}
        kb.embed_pending("d")
        assert {hit.doc_name for hit in kb.search("owl", dataset_id="d", mode="sparse").hits} == {
            "a.md",
            "c.md",
        }
        assert kb.search("reef", dataset_id="d", mode="sparse").hits
        assert kb.doctor().findings == ()


def test_a_damaged_sparse_vector_is_named_and_never_searched(path: Path) -> None:
    shutil.rmtree(path.with_name("kb.db.index"))
    run(path, "UPDATE vector SET data = x'02000000000000'")
    with opened(path) as kb:
        with pytest.raises(CorruptStoreError, match="sparse vector fails its checksum"):
            kb.search("owl", dataset_id="d", mode="sparse")
        assert kb.doctor(repair=True).clean
        kb.embed_pending("d")
        assert kb.search("owl", dataset_id="d", mode="sparse").hits


def test_an_index_that_holds_other_weights_is_found(path: Path) -> None:
    with closing(sqlite3.connect(path)) as driver, driver:
        (data,) = driver.execute(
            "SELECT v.data FROM vector v JOIN vector_use u ON u.vector_id = v.id "
            "JOIN document d ON d.id = u.owner WHERE d.name = 'b.md'"
        ).fetchone()
        driver.execute("UPDATE vector SET data = ?", [data])
    with opened(path) as kb:
        assert {each.check for each in kb.doctor().findings} == {"index.words"}
        assert kb.doctor(repair=True).findings == ()


def test_health_says_what_the_sparse_lane_lacks(path: Path) -> None:
    with opened(path) as kb:
        health = kb.health()
        details = [str(check) for check in health.problems]
        assert any("1 of 4 documents without all their sparse vectors" in each for each in details)
        assert any("sparse/1 answers with 2 terms" in check.detail for check in health.checks)
        assert not any("keyword search alone" in check.detail for check in health.checks)
    with opened(path, FakeSparseEncoder("sparse/2")) as kb:
        details = [str(check) for check in kb.health(probe=False).problems]
        assert any("sparse vectors of sparse/1, not of sparse/2" in each for each in details)
    with Service(SqliteStore.open(path)) as kb:
        assert any("no sparse encoder is in use" in str(c) for c in kb.health().problems)
    broken = FakeSparseEncoder(failures={1: NotAvailableError("no weights")})
    with opened(path, broken) as kb:
        assert not kb.health().ok


def test_the_doctor_verifies_the_encoders_weights(path: Path) -> None:
    class Pinned(FakeSparseEncoder):
        def verify_weights(self) -> None:
            raise NotAvailableError("sae.bin is another")

    with opened(path, Pinned()) as kb:
        (finding,) = kb.doctor().findings
        assert finding.check == "embedder.weights"
        assert "sparse encoder" in finding.place
    with opened(path) as kb:
        assert any("the weights of sparse/1" in each for each in kb.doctor().skipped)
