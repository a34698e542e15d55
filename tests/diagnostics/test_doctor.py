"""A store is broken in each way that the doctor claims to see: it is told by name, and repaired."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import attrs
import pytest

import triptych
from support.bare_store import BareStore
from support.cli_run import Shell, fresh_shell
from triptych.contracts import DocumentRepo
from triptych.contracts.defaults import Repositories
from triptych.errors import NotAvailableError, NotFoundError
from triptych.records import DoctorReport, NewDocument, SourceDocument
from triptych.service import Service
from triptych_backends.memory import MemoryStore
from triptych_backends.sql.chunk_rows import text_checksum
from triptych_testing.fakes import FakeEmbedder

MANY = {f"n{number:03}.md": f"# T{number}\n\nText é number {number}.\n" for number in range(30)}


def fill(kb: Service) -> None:
    kb.put_document("d", "n000.md", "Before.", {"lang": "en"})
    kb.put_document("d", "n000.md", "Before.")
    kb.put_documents("d", MANY)
    kb.put_document("d", "a.md", "# A\n\nÄpfel first.\r\n\n## B\n\nthen more.\n", {"lang": "en"})
    kb.put_document("e", "a.md", "Another dataset.")
    kb.put_document_layer("d", "a.md", "L0", "An abstract.")
    kb.put_dataset_layer("d", "L1", "An overview.")
    kb.search("text", dataset_id="d")


def opened(path: Path | str) -> Service:
    return triptych.open(path, embedder=FakeEmbedder())


def names(report: DoctorReport) -> set[str]:
    return {finding.check for finding in report.findings}


def sources(kb: Service) -> dict[tuple[str, str], str]:
    return {
        (dataset, info.name): kb.get_document(dataset, info.name).content
        for dataset in kb.list_datasets()
        for info in kb.list_documents(dataset)
    }


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database and its published index, to be copied."""
    path = tmp_path_factory.mktemp("filled") / "kb.db"
    with opened(path) as kb:
        fill(kb)
        for dataset in kb.list_datasets():
            kb.documents.searcher.index.publish(dataset)  # type: ignore[attr-defined]  # SqlDocuments
    return path


@pytest.fixture
def path(filled: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "kb.db"
    shutil.copy(filled, copy)
    shutil.copytree(filled.with_name("kb.db.index"), tmp_path / "kb.db.index")
    return copy


def run(path: Path, *statements: str) -> None:
    """Change the database as no Triptych would."""
    with closing(sqlite3.connect(path)) as driver, driver:
        driver.execute("PRAGMA foreign_keys=OFF")
        for statement in statements:
            driver.execute(statement)


@pytest.mark.parametrize("scheme", ["memory", "sqlite", "files"])
def test_a_healthy_store_is_clean(scheme: str, tmp_path: Path) -> None:
    url = {
        "memory": "memory://",
        "sqlite": str(tmp_path / "kb.db"),
        "files": f"files://{tmp_path}/kb",
    }[scheme]
    with opened(url) as kb:
        assert kb.doctor().clean
        fill(kb)
        kb.delete_document("d", "n003.md")
        kb.put_document("d", "n004.md", "Changed.")
        report = kb.doctor()
        assert report.findings == ()
        assert report.checked["documents"] == 31
        assert report.checked["layers"] == 2
        assert kb.doctor(repair=True).actions == ()


def stored(path: Path) -> dict[tuple[int, int], bytes]:
    """What the database has of documents, by id and version (0: the current one)."""
    with closing(sqlite3.connect(path)) as driver:
        rows = driver.execute(
            "SELECT id, 0, content FROM document "
            "UNION ALL SELECT document_id, version, content FROM document_version"
        ).fetchall()
    return {(pk, version): content for pk, version, content in rows}


@attrs.frozen
class Break:
    """Statements that break a store, the checks that see it, and whether it can be repaired."""

    statements: tuple[str, ...]
    checks: frozenset[str]
    beyond: bool = False


def broken(sql: str | tuple[str, ...], *checks: str, beyond: bool = False) -> Break:
    return Break((sql,) if isinstance(sql, str) else sql, frozenset(checks), beyond)


A = "(SELECT d.id FROM document d JOIN dataset s ON s.id = d.dataset_id "
A += "WHERE d.name = 'a.md' AND s.name = 'd')"
WORSE = "CAST(replace(content, 'first', 'worst') AS BLOB)"
BREAKS = {
    "content": broken(
        f"UPDATE document SET content = {WORSE} WHERE id = {A}",
        "documents.unreadable", beyond=True),
    "content of another type": broken(
        f"UPDATE document SET content = 'text' WHERE id = {A}",
        "documents.unreadable", beyond=True),
    "chunk of another type": broken(
        f"UPDATE chunk SET content = 'text' WHERE document_id = {A}", "chunks.unreadable"),
    "content is not text": broken(
        f"UPDATE document SET content = x'ff00' WHERE id = {A}",
        "documents.unreadable", beyond=True),
    "metadata is not JSON": broken(
        f"UPDATE document SET metadata = 'x' WHERE id = {A}",
        "metadata.unreadable", beyond=True),
    "size": broken(f"UPDATE document SET size = 1 WHERE id = {A}", "documents.digests"),
    "input signature": broken(
        f"UPDATE document SET input_sig = 'x' WHERE id = {A}", "documents.digests"),
    "pairs": broken(f"DELETE FROM document_meta WHERE document_id = {A}", "metadata.pairs"),
    "set": broken(f"DELETE FROM derivation WHERE document_id = {A}", "chunks.missing",
                  "chunks.ownerless"),
    "set and chunks": broken(
        (f"DELETE FROM chunk WHERE document_id = {A}",
         f"DELETE FROM derivation WHERE document_id = {A}"), "chunks.missing", "vectors.unused"),
    "chunk": broken(
        f"DELETE FROM chunk WHERE document_id = {A} AND position = 0",
        "chunks.counts", "chunks.order"),
    "chunk text": broken(
        f"UPDATE chunk SET content = {WORSE} WHERE document_id = {A}",
        "chunks.unreadable"),
    "chunk span": broken(
        f"UPDATE chunk SET span_start = span_start + 1, span_end = span_end + 1 "
        f"WHERE document_id = {A}", "chunks.spans"),
    "chunk's unequal span": broken(
        f"UPDATE chunk SET span_end = span_end + 1 WHERE document_id = {A}", "chunks.unreadable"),
    "chunk line": broken(
        f"UPDATE chunk SET start_line = start_line + 1 WHERE document_id = {A}", "chunks.spans"),
    "chunk offset": broken(
        f"UPDATE chunk SET byte_offset = byte_offset + 1 WHERE document_id = {A}", "chunks.spans"),
    "chunk input": broken(
        f"UPDATE chunk SET input_sig = 'x' WHERE document_id = {A}",
        "chunks.input", "vectors.digest"),
    "chunker": broken(
        f"UPDATE derivation SET chunker_sig = 'x' WHERE document_id = {A}", "chunks.stale"),
    "set's input": broken(
        f"UPDATE derivation SET input_sig = 'x' WHERE document_id = {A}", "chunks.stale"),
    "set's version": broken(
        f"UPDATE derivation SET source_version = 99 WHERE document_id = {A}", "chunks.signature"),
    "vector reference": broken(
        f"UPDATE chunk SET vector_id = NULL WHERE document_id = {A}", "vectors.missing"),
    "vector": broken(
        f"DELETE FROM vector WHERE id IN (SELECT vector_id FROM chunk WHERE document_id = {A})",
        "orphans.chunk.vector_id"),
    "vector width": broken(
        f"UPDATE vector SET data = substr(data, 5) WHERE id IN "
        f"(SELECT vector_id FROM chunk WHERE document_id = {A})", "vectors.stored"),
    "vector values": broken(
        f"UPDATE vector SET data = zeroblob(length(data)) WHERE id IN "
        f"(SELECT vector_id FROM chunk WHERE document_id = {A})",
        "vectors.stored", "vectors.values"),
    "layer's vector": broken(
        "UPDATE vector SET data = zeroblob(8) WHERE id IN (SELECT vector_id FROM layer)",
        "vectors.stored"),
    "layer's vector is gone": broken(
        "DELETE FROM vector WHERE id IN (SELECT vector_id FROM layer)",
        "orphans.layer.vector_id"),
    "space": broken("DELETE FROM space", "orphans.vector.space_id"),
    "layer is not text": broken(
        "UPDATE layer SET content = x'ff' WHERE doc_name = 'a.md'",
        "layers.unreadable", beyond=True),
    "vector of another space": broken(
        ("INSERT INTO space SELECT (SELECT max(id) FROM space) + 1, dataset_id, kind, 'other', "
         "dimension FROM space LIMIT 1",
         "UPDATE vector SET space_id = (SELECT max(id) FROM space) WHERE id IN "
         f"(SELECT vector_id FROM chunk WHERE document_id = {A})"), "vectors.space"),
    "entry of no text": broken(
        "INSERT INTO vector_use SELECT space_id, 999999, id FROM vector LIMIT 1", "spaces.texts"),
    "document": broken(
        f"DELETE FROM document WHERE id = {A}",
        "orphans.chunk.document_id", "orphans.derivation.document_id",
        "orphans.document_meta.document_id", "layers.nameless"),
    "folder's layer": broken(
        "UPDATE layer SET doc_name = 'gone/', checksum = "
        f"{text_checksum(b'An abstract.', 'gone/', 'L0')} WHERE doc_name = 'a.md'",
        "layers.orphans"),
    "layer's version": broken(
        "UPDATE layer SET source_version = 99 WHERE doc_name = 'a.md'", "layers.signature"),
    "dataset": broken("DELETE FROM dataset WHERE name = 'e'", "orphans.document.dataset_id"),
    "old content": broken(
        "UPDATE document_version SET content = x'00' WHERE content IS NOT NULL",
        "history.unreadable", beyond=True),
    "old content's checksum": broken(
        "UPDATE document_version SET content_sha256 = 'x'", "history.unreadable", beyond=True),
    "old metadata": broken(
        "UPDATE document_version SET metadata = 'x'", "history.unreadable", beyond=True),
    "old content that is gone": broken(
        "UPDATE document_version SET content = NULL", "history.unreadable", beyond=True),
    "old version's number": broken(
        "UPDATE document_version SET version = version + 99", "history.order", beyond=True),
    "old version's document": broken(
        "DELETE FROM document WHERE id IN (SELECT document_id FROM document_version)",
        "orphans.document_version.document_id", beyond=True),
    "type of a version": broken(
        "UPDATE document SET version = 'x' WHERE name = 'a.md'", "database.types", beyond=True),
    "type of a time": broken(
        "UPDATE document SET updated_at = 'x' WHERE name = 'a.md'", "database.types", beyond=True),
    "type of a signature": broken(
        "UPDATE document SET system = x'00' WHERE name = 'a.md'", "database.types",
        beyond=True),
    "type of a dataset's memory": broken(
        "UPDATE dataset SET deleted_version = 'x'", "database.types", beyond=True),
    "live": broken("UPDATE dataset SET live = 0 WHERE name = 'e'", "dataset.hidden"),
    "log": broken(f"DELETE FROM change WHERE owner = {A}", "log.incomplete"),
    "log of documents": broken(
        f"DELETE FROM document_change WHERE document_id = {A}", "changes.documents"),
    "log of what is there": broken(
        f"UPDATE document_change SET name = 'x', version = 1 WHERE document_id = {A}",
        "changes.documents"),
    "log of what is not there": broken(
        "INSERT INTO document_change (seq, document_id, dataset_id) "
        "SELECT 0, 0, id FROM dataset LIMIT 1", "changes.documents"),
    "table of the log": broken("DROP TABLE document_change", "schema.missing"),
    "clock": broken("DELETE FROM clock", "clock.behind"),
    "clock's tick": broken("UPDATE clock SET tick = 3", "clock.behind"),
    "index of the schema": broken("DROP INDEX chunk_vector", "schema.missing"),
}  # fmt: skip


@pytest.mark.parametrize("name", BREAKS)
def test_what_is_broken_is_found_and_repaired(path: Path, name: str) -> None:
    case = BREAKS[name]
    run(path, *case.statements)
    before = stored(path)
    with opened(path) as kb:
        found = kb.doctor()
        assert names(found) >= case.checks, [str(each) for each in found.findings]
        assert all(each.why and (each.repair or each.remedy) for each in found.findings)
        repaired = kb.doctor(repair=True)
        left = [str(each) for each in repaired.findings]
        if case.beyond:
            assert names(repaired) & case.checks, left
            assert all(not each.repairable for each in repaired.findings), left
        else:
            assert repaired.findings == (), (left, repaired.actions)
            assert {each.check for each in repaired.repaired} >= case.checks
            assert kb.search("another", dataset_id=kb.list_datasets()[-1], mode="bm25").hits
            kb.put_document("d", "later.md", "Written later.")
            assert kb.search("later", dataset_id="d", mode="bm25").hits
    after = stored(path)
    assert all(after[key] == content for key, content in before.items()), "a source was lost"


def test_a_database_index_that_lies_is_built_again(path: Path) -> None:
    with closing(sqlite3.connect(path)) as driver:
        page = driver.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'chunk_vector'"
        ).fetchone()[0]
        size = driver.execute("PRAGMA page_size").fetchone()[0]
        driver.execute("PRAGMA writable_schema=ON")
    data = bytearray(path.read_bytes())
    start = (page - 1) * size
    empty = b"\x0a\0\0\0\0" + size.to_bytes(2, "big") + b"\0"
    data[start : start + len(empty)] = empty  # a leaf of an index without a cell
    path.write_bytes(bytes(data))
    with opened(path) as kb:
        assert names(kb.doctor()) >= {"database.indexes"}
        assert kb.doctor(repair=True).clean


def test_a_damaged_page_is_reported_and_beyond_repair(path: Path) -> None:
    with closing(sqlite3.connect(path)) as driver:
        page = driver.execute("SELECT rootpage FROM sqlite_master WHERE name = 'chunk'").fetchone()[
            0
        ]
        size = driver.execute("PRAGMA page_size").fetchone()[0]
    data = bytearray(path.read_bytes())
    data[(page - 1) * size : (page - 1) * size + 8] = b"\xff" * 8
    path.write_bytes(bytes(data))
    with opened(path) as kb:
        report = kb.doctor()
        assert "database.pages" in names(report)
        assert not kb.doctor(repair=True).clean


@pytest.mark.filterwarnings("error")
def test_a_damaged_file_is_named_before_what_follows_from_it_and_nothing_is_repaired(
    tmp_path: Path,
) -> None:
    path, size = tmp_path / "kb.db", 4096
    with triptych.open(path, embedder="hash") as kb:
        for each in range(100):
            kb.put_document("d", f"{each}.md", f"Leaves {each} and a kettle {each * 7}. " * 60)
    whole, draw = path.read_bytes(), random.Random(7)
    pages = len(whole) // size
    more = 0
    for page in range(20, pages, pages // 8):
        start = page * size
        path.write_bytes(whole[:start] + draw.randbytes(size) + whole[start + size :])
        with triptych.open(path, embedder="hash") as kb:
            for report in (kb.doctor(), kb.doctor(repair=True)):
                first, *others = report.findings
                assert first.check == "database.pages"
                assert not any(each.repairable for each in others)
                assert all(first.check in each.remedy for each in others)
                more += len(others)
    assert more


def manifests(path: Path) -> Iterator[Path]:
    yield from path.with_name("kb.db.index").glob("*/manifest")


def flip_segment(path: Path) -> None:
    for manifest in manifests(path):
        for segment in manifest.parent.glob("*.segment"):
            data = bytearray(segment.read_bytes())
            for at in range(len(data) // 2, len(data)):
                data[at] ^= 1
            segment.write_bytes(bytes(data))


def remove_segments(path: Path) -> None:
    for manifest in manifests(path):
        for segment in manifest.parent.glob("chunk-*.segment"):
            segment.unlink()


def cut_manifest(path: Path) -> None:
    for manifest in manifests(path):
        manifest.write_bytes(manifest.read_bytes()[:-9])


def lose_field(path: Path, field: str = "chunk") -> None:
    """A manifest that is whole, and does not name what it should."""
    import zlib

    for manifest in manifests(path):
        body = json.loads(manifest.read_bytes().partition(b"\n")[2])
        body["fields"][field] = []
        data = json.dumps(body).encode()
        manifest.write_bytes(b"%08x\n%s" % (zlib.crc32(data), data))


@pytest.mark.parametrize(
    ("harm", "check"),
    [
        (flip_segment, "index.damaged"),
        (remove_segments, "index.damaged"),
        (cut_manifest, "index.damaged"),
        (lose_field, "index.missing"),
    ],
)
def test_a_damaged_index_is_found_and_made_again(
    path: Path, harm: Callable[[Path], None], check: str
) -> None:
    harm(path)
    with opened(path) as kb:
        assert names(kb.doctor()) == {check}
        assert names(kb.doctor()) == {check}, "an examination repairs nothing"
        assert kb.doctor(repair=True).clean
        assert kb.search("first", dataset_id="d", mode="bm25").hits
    with opened(path) as kb:
        assert kb.doctor().clean


OTHER_TEXTS = {
    "chunk": f"UPDATE chunk SET content = {WORSE} WHERE document_id = {A}",
    "document": f"UPDATE document SET content = {WORSE} WHERE id = {A}",
    "abstract": "UPDATE layer SET content = CAST('It differs.' AS BLOB) WHERE layer = 'L0'",
    "overview": "UPDATE layer SET content = CAST('It differs.' AS BLOB) WHERE layer = 'L1'",
}


@pytest.mark.parametrize("field", OTHER_TEXTS)
def test_an_index_of_another_text_under_the_same_key_is_found(path: Path, field: str) -> None:
    run(path, OTHER_TEXTS[field])
    with opened(path) as kb:
        found = [each for each in kb.doctor().findings if each.check == "index.words"]
        assert [f"{field} of " in str(each) for each in found] == [True], found
        assert "index.words" not in names(kb.doctor(repair=True))


@pytest.mark.parametrize("field", OTHER_TEXTS)
def test_a_field_that_the_index_lacks_is_found(path: Path, field: str) -> None:
    lose_field(path, field)
    with opened(path) as kb:
        (finding,) = [each for each in kb.doctor().findings if "'d'" in each.place]
        assert finding.check == "index.missing"
        assert field in str(finding)
        assert kb.doctor(repair=True).clean


def test_an_index_larger_than_a_page_of_owners_is_compared_whole(tmp_path: Path) -> None:
    path = tmp_path / "kb.db"
    with opened(path) as kb:
        kb.put_documents("d", [NewDocument(name=f"{n}", content=f"w{n}") for n in range(600)])
        assert kb.doctor().clean
        with closing(sqlite3.connect(path)) as driver, driver:
            driver.execute("DELETE FROM chunk WHERE content IN (x'7730', x'77353939')")
        (finding,) = [each for each in kb.doctor().findings if each.check == "index.surplus"]
        assert finding.count == 2


def test_the_index_holds_nothing_that_is_gone(path: Path) -> None:
    with opened(path) as kb:
        kb.search("text", dataset_id="d")
        with closing(sqlite3.connect(path)) as driver, driver:
            driver.execute(f"DELETE FROM chunk WHERE document_id = {A}")
            driver.execute(f"DELETE FROM derivation WHERE document_id = {A}")
        assert "index.surplus" in names(kb.doctor())
        assert kb.doctor(repair=True).clean


def test_another_embedder_repairs_nothing_that_it_would_make_otherwise(path: Path) -> None:
    run(path, f"UPDATE chunk SET start_line = 9 WHERE document_id = {A}")
    with triptych.open(path, embedder=FakeEmbedder("other/1")) as kb:
        report = kb.doctor(repair=True)
        (finding,) = report.findings
        assert (finding.check, finding.repair) == ("chunks.spans", "")
        assert "filled with" in finding.remedy
        assert list(kb.chunks.iter_chunks("d", "a.md"))


def test_one_dataset_is_looked_at_alone(path: Path) -> None:
    run(path, f"UPDATE chunk SET start_line = 9 WHERE document_id = {A}")
    with opened(path) as kb:
        assert kb.doctor(dataset_id="e").clean
        assert not kb.doctor(dataset_id="d").clean
        with pytest.raises(NotFoundError):
            kb.doctor(dataset_id="none")


def test_progress_is_reported_page_by_page(path: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    with opened(path) as kb:
        kb.doctor(progress=lambda each: told.append((each.phase, each.done, each.total)))
    assert told == [("examining d", 31, 31), ("examining e", 1, 1)]


def test_weights_that_are_others_are_reported(path: Path) -> None:
    class Bad(FakeEmbedder):
        def verify_weights(self) -> None:
            raise NotAvailableError("its SHA-256 is another")

    with triptych.open(path, embedder=Bad()) as kb:
        (finding,) = kb.doctor().findings
        assert finding.check == "embedder.weights"
        assert "SHA-256" in str(finding)


def test_a_backend_without_diagnostics_is_reported_as_such() -> None:
    with MemoryStore() as store, Service(BareStore(store)) as kb:
        kb.put_document("d", "a", "text")
        report = kb.doctor()
        assert report.clean
        assert any("this backend has no checks" in each for each in report.skipped)


def test_content_that_is_not_what_was_put_is_reported() -> None:
    with MemoryStore() as store:

        class Rotten:
            """Documents that come back otherwise than they were put."""

            def __getattr__(self, name: str) -> object:
                return getattr(store.documents, name)

            def get(self, dataset_id: str, name: str) -> SourceDocument | None:
                found = store.documents.get(dataset_id, name)
                return None if found is None else attrs.evolve(found, content="other")

        documents: DocumentRepo = Rotten()  # type: ignore[assignment]  # the rest by __getattr__
        over = Repositories.over(store, documents=documents)
        with Service(over) as kb:
            kb.put_document("d", "a", "text")
            assert names(kb.doctor(repair=True)) == {"documents.checksum"}


# Files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with opened(f"files://{tmp_path}/kb") as kb:
        fill(kb)
    return tmp_path / "kb"


def test_files_that_rotted_unseen_are_reported(folder: Path) -> None:
    file = folder / "d" / "a.md"
    with opened(f"files://{folder}") as kb:
        with closing(sqlite3.connect(folder / ".triptych/derived/kb.db")) as driver, driver:
            found = file.stat()
            file.write_bytes(file.read_bytes().replace(b"first", b"worst"))
            os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))
            # As a disk that changes bytes leaves the file's times.
            now = file.stat()
            driver.execute(
                "UPDATE files_record SET size = ?, mtime_ns = ?, ctime_ns = ?, inode = ? "
                "WHERE name = 'a.md' AND dataset = 'd' AND kind = ''",
                [now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_ino],
            )
        report = kb.doctor()
        assert names(report) == {"files.checksum"}
        assert not kb.doctor(repair=True).clean
        assert b"worst" in file.read_bytes()


def test_a_mirror_that_differs_is_read_again(folder: Path) -> None:
    run(
        folder / ".triptych/derived/kb.db",
        f"UPDATE document SET content = {WORSE} WHERE id = {A}",
    )
    with opened(f"files://{folder}") as kb:
        assert "files.mirror" in names(kb.doctor())
        assert kb.doctor(repair=True).clean
        assert "first" in kb.get_document("d", "a.md").content


@pytest.mark.parametrize(
    "statement",
    [
        f"UPDATE document SET version = version + 1 WHERE id = {A}",
        f"UPDATE document SET metadata = '{{}}' WHERE id = {A}",
        "UPDATE layer SET content = CAST('other' AS BLOB)",
        "UPDATE layer SET source_version = 0 WHERE doc_name = 'a.md'",
        "DELETE FROM layer",
    ],
)
def test_a_mirror_that_says_otherwise_is_read_again(folder: Path, statement: str) -> None:
    with opened(f"files://{folder}") as kb:
        before = (kb.get_document("d", "a.md"), kb.layers("d"))
        run(folder / ".triptych/derived/kb.db", statement)
        assert "files.mirror" in names(kb.doctor())
        assert kb.doctor(repair=True).clean
        after = kb.get_document("d", "a.md")
        assert (after.content, after.metadata) == (before[0].content, before[0].metadata)
        assert [layer.content for layer in kb.layers("d")] == [x.content for x in before[1]]
        assert kb.search("abstract", dataset_id="d", layer="L0", mode="bm25").hits


def test_a_document_deleted_meanwhile_leaves_no_orphan(folder: Path) -> None:
    with opened(f"files://{folder}") as kb:
        (folder / "d" / "n001.md").unlink()
        assert kb.doctor().clean


def test_a_file_that_cannot_be_taken_is_reported_with_what_to_do(folder: Path) -> None:
    (folder / "d" / "bad.md").write_bytes(b"\xff\xfe\xff")
    with opened(f"files://{folder}") as kb:
        report = kb.doctor(repair=True)
        assert names(report) == {"files.unadopted"}
        assert "UTF-8" in report.findings[0].remedy
        assert (folder / "d" / "bad.md").exists()


def test_an_invalid_sidecar_is_reported_with_what_to_do(folder: Path) -> None:
    (side,) = (folder / ".triptych" / "datasets" / "d").rglob("a.md.json")
    with opened(f"files://{folder}") as kb:
        side.write_text("nonsense")
        report = kb.doctor(repair=True)
        assert names(report) == {"files.unadopted"}
        assert "restore it" in report.findings[0].remedy
        assert "first" in kb.get_document("d", "a.md").content


def test_an_old_version_that_is_damaged_is_reported_and_stays(folder: Path) -> None:
    (file,) = (folder / ".triptych/history/d").rglob("1.json.gz")
    with opened(f"files://{folder}") as kb:
        file.write_bytes(file.read_bytes()[:-9])
        report = kb.doctor(repair=True)
        assert names(report) == {"history.unreadable"}
        assert "n000.md" in str(report.findings[0])
        assert file.exists()
        file.unlink()
        assert kb.doctor().clean


def test_old_versions_of_nobody_are_removed(folder: Path) -> None:
    history = folder / ".triptych/history/d"
    shutil.copytree(history, folder.with_name("copy"))
    with opened(f"files://{folder}") as kb:
        kb.delete_document("d", "n000.md")
        shutil.copytree(folder.with_name("copy"), history, dirs_exist_ok=True)
        report = kb.doctor()
        assert names(report) == {"history.orphans"}
        assert kb.doctor(repair=True).clean
        assert not history.exists()


def test_what_a_writer_left_is_removed(folder: Path) -> None:
    own = folder / ".triptych"
    with opened(f"files://{folder}") as kb:
        (own / "journal" / "abc.0.part").write_text("half")
        (own / "abc.tmp").write_text("half")
        report = kb.doctor()
        assert names(report) == {"journal.left"}
        assert report.findings[0].count == 2
        assert kb.doctor(repair=True).clean
        assert not (own / "abc.tmp").exists()


@pytest.mark.parametrize("name", ["chunk text", "document", "log", "clock", "vector width"])
def test_the_mirror_is_repaired_as_any_database(folder: Path, name: str) -> None:
    run(folder / ".triptych/derived/kb.db", *BREAKS[name].statements)
    with opened(f"files://{folder}") as kb:
        assert kb.doctor(repair=True).clean
        assert "first" in kb.get_document("d", "a.md").content


# The command


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = fresh_shell(tmp_path, monkeypatch)
    shell.write("docs/a.md", "# A\n\nApples.\n")
    assert shell("put", "docs").code == 0
    return shell


def test_the_command_tells_and_repairs(shell: Shell) -> None:
    ran = shell("doctor", "--json")
    assert (ran.code, ran.json["clean"], ran.json["findings"]) == (0, True, [])
    assert ran.json["checked"]["documents"] == 1
    run(shell.store, "UPDATE chunk SET start_line = 9")
    ran = shell("doctor")
    assert ran.code == 5
    assert "chunks.spans" in ran.text
    assert "why: hits quote" in ran.text
    assert "--repair repairs it" in ran.text
    ran = shell("doctor", "--repair", "--json")
    assert ran.code == 0
    assert [each["check"] for each in ran.json["repaired"]] == ["chunks.spans"]
    assert shell("doctor", "--dataset", "none").code == 3


def test_the_command_says_what_is_beyond_repair(shell: Shell) -> None:
    run(shell.store, "UPDATE document SET content = x'6161'")
    ran = shell("doctor", "--repair")
    assert ran.code == 5
    assert "beyond repair: restore" in ran.text


def test_the_command_sees_what_syncs_remember(shell: Shell) -> None:
    assert shell("sync", "docs", "--adopt").code == 0
    folder = shell.store.with_name("kb.db.sync")
    (state,) = folder.iterdir()
    assert shell("doctor").code == 0
    whole = state.read_bytes()
    for damaged in (whole[:-1], whole.replace(b"sync/1", b"sync/2"), b""):
        state.write_bytes(damaged)
        left = shell.write(f"{folder}/.new-left", "half")
        os.utime(left, (0, 0))
        working = shell.write(f"{folder}/.new-working", "half")
        ran = shell("doctor", "--json")
        assert (ran.code, [each["check"] for each in ran.json["findings"]]) == (5, ["sync.state"])
        assert ran.json["findings"][0]["examples"] == [".new-left", state.name]
        ran = shell("doctor", "--repair", "--json")
        assert (ran.code, [each["check"] for each in ran.json["repaired"]]) == (0, ["sync.state"])
        assert list(state.parent.iterdir()) == [working]
        assert "1 unchanged" in shell("sync", "docs").text
        assert state.exists()
        assert shell("doctor").code == 0


@pytest.mark.parametrize("scheme", ["memory", "sqlite", "files"])
def test_a_title_whose_chunks_are_not_made_again_yet_is_no_other_word_than_the_index_has(
    scheme: str, tmp_path: Path
) -> None:
    url = "memory://" if scheme == "memory" else f"{scheme}:///{tmp_path / 'kb'}"
    with triptych.open(url, embedder=None) as kb:
        kb.put_document("d", "a.md", "text", {"title": "Lantern"})
        assert kb.search("lantern", dataset_id="d").hits
        new = NewDocument(name="a.md", content="text", metadata={"title": "Ferry"})
        kb.documents.put("d", new)
        assert kb.search("ferry", dataset_id="d").hits
        assert not kb.search("lantern", dataset_id="d").hits
        assert "index.words" not in names(kb.doctor())
