"""Damage that SQLite does not see: no text is served that is not the document's."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

import triptych
from triptych.errors import CorruptStoreError, TriptychError
from triptych.service import Service

# Damaged numbers of a vector overflow; they change the order of hits, and the doctor finds them.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
ROUNDS = 60
MANY_ROUNDS = 1_000
WORDS = "apple banana cherry damson elder fig grape hazel".split()  # noqa: SIM905 - read at a glance


def fill(kb: Service) -> None:
    for number in range(12):
        said = "\n\n".join(f"{word} and {number} {word * 20}." for word in WORDS)
        kb.put_document("d", f"note {number}.md", f"# Title {number}\n\n## Part\n\n{said}\n")
        kb.put_document_layer("d", f"note {number}.md", "L0", f"Abstract {number} of apples.")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "kb.db"
    with triptych.open(path, embedder="hash") as kb:
        fill(kb)
        kb.documents.searcher.index.publish("d")  # type: ignore[attr-defined]  # SqlDocuments
    with closing(sqlite3.connect(path)) as driver:
        driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


@pytest.fixture(scope="module")
def truth(filled: Path) -> dict[str, str]:
    with triptych.open(filled, embedder="hash") as kb:
        return {
            info.name: kb.get_document("d", info.name).content for info in kb.list_documents("d")
        }


def served(path: Path) -> list[tuple[str, str, str]]:
    """(kind, document, text) of all that is served as fresh."""
    texts: list[tuple[str, str, str]] = []
    try:
        kb = triptych.open(path, embedder="hash")
    except TriptychError:
        return []
    with kb:
        for word in WORDS:
            with suppress(TriptychError):
                hits = kb.search(word, dataset_id="d", top_k=40, mode="bm25").hits
                texts += [("chunk", h.doc_name, h.content) for h in hits if h.stale is None]
        with suppress(TriptychError):
            hits = kb.search("apples", dataset_id="d", layer="L0", top_k=40, mode="bm25").hits
            texts += [("layer", h.doc_name, h.content) for h in hits if h.stale is None]
        with suppress(TriptychError):
            texts += [("chunk", c.doc_name, c.content) for c in kb.chunks.iter_chunks("d")]
        for number in range(12):
            name = f"note {number}.md"
            with suppress(TriptychError):
                texts.append(("document", name, kb.get_document("d", name).content))
    return texts


def mutate(filled: Path, folder: Path, truth: dict[str, str], seed: int) -> None:
    rng = random.Random(seed)
    path = folder / "kb.db"
    data = bytearray(filled.read_bytes())
    # Past the first page, which says what the file is; most of it is text.
    at = rng.randrange(8192, len(data))
    if rng.random() < 0.5:
        data[at] ^= 1 << rng.randrange(8)
    else:
        data[at : at + 8] = rng.randbytes(len(data[at : at + 8]))
    path.write_bytes(bytes(data))
    if rng.random() < 0.5:
        shutil.copytree(filled.with_name("kb.db.index"), folder / "kb.db.index", dirs_exist_ok=True)
    for kind, name, text in served(path):
        assert name in truth, (seed, at, kind, name)
        if kind == "document":
            assert text == truth[name], (seed, at, name)
        elif kind == "chunk":
            assert text in truth[name], (seed, at, name, text)
        else:
            assert text == f"Abstract {name[5:-3]} of apples.", (seed, at, name, text)


def test_no_mutation_makes_another_text_the_documents(
    filled: Path, truth: dict[str, str], tmp_path: Path
) -> None:
    for seed in range(ROUNDS):
        folder = tmp_path / str(seed)
        folder.mkdir()
        mutate(filled, folder, truth, seed)
        shutil.rmtree(folder)


@pytest.mark.slow
def test_no_mutation_of_many_makes_another_text_the_documents(
    filled: Path, truth: dict[str, str], tmp_path: Path
) -> None:
    for seed in range(ROUNDS, ROUNDS + MANY_ROUNDS):
        folder = tmp_path / str(seed)
        folder.mkdir()
        mutate(filled, folder, truth, seed)
        shutil.rmtree(folder)


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as driver, driver:
        assert driver.execute(statement).rowcount >= 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE chunk SET content = CAST(replace(content, 'apple', 'ample') AS BLOB)",
        "UPDATE chunk SET heading_path = '[\"Other\"]'",
        "UPDATE chunk SET checksum = NULL",
        "UPDATE chunk SET document_id = (SELECT max(id) FROM document) WHERE position > 2",
        "UPDATE document SET name = 'Note 1.md' WHERE name = 'note 1.md'",
    ],
)
def test_damaged_chunk_is_not_served_and_the_doctor_derives_it_again(
    filled: Path, tmp_path: Path, statement: str
) -> None:
    path = tmp_path / "kb.db"
    shutil.copy(filled, path)
    if "document_id" in statement:
        with closing(sqlite3.connect(path)) as driver:
            (first,) = driver.execute("SELECT min(document_id) FROM chunk").fetchone()
            (last,) = driver.execute("SELECT max(id) FROM document").fetchone()
        statement = (
            f"UPDATE chunk SET document_id = {last}, position = 99 "
            f"WHERE document_id = {first} AND position = 0"
        )
    change(path, statement)
    with triptych.open(path, embedder="hash") as kb:
        with pytest.raises(CorruptStoreError, match=r"checksum.*doctor --repair"):
            kb.search("banana apple", dataset_id="d", top_k=40, mode="bm25")
        with pytest.raises(CorruptStoreError, match="checksum"):
            list(kb.chunks.iter_chunks("d"))
        assert "chunks.unreadable" in {each.check for each in kb.doctor().findings}
        report = kb.doctor(repair=True)
        assert report.clean, [str(each) for each in report.findings]
        assert kb.search("banana apple", dataset_id="d", top_k=40, mode="bm25").hits


@pytest.mark.parametrize("name", ["note 1.md", None])
def test_what_is_damaged_is_purged_all_the_same(
    filled: Path, tmp_path: Path, name: str | None
) -> None:
    path = tmp_path / "kb.db"
    shutil.copy(filled, path)
    with triptych.open(path, embedder="hash") as kb:
        kb.put_dataset_layer("d", "L0", "All of the banana.")
    change(path, "UPDATE chunk SET checksum = NULL")
    change(path, "UPDATE layer SET checksum = NULL")
    with triptych.open(path, embedder="hash") as kb:
        receipt = kb.purge("d", name)
        assert (receipt.existed, receipt.chunks) == (True, 0)
        assert "damaged" in receipt.beyond[0]
        assert kb.dataset_layer("d", "L0") is None
        assert kb.store.documents.get_info("d", "note 1.md") is None


@pytest.mark.parametrize("column", ["content", "heading_path"])
def test_value_of_another_type_is_damage(filled: Path, tmp_path: Path, column: str) -> None:
    path = tmp_path / "kb.db"
    shutil.copy(filled, path)
    change(path, f"UPDATE chunk SET {column} = 7")
    with triptych.open(path, embedder="hash") as kb:
        # The index reads every chunk first, then the hits are read.
        with pytest.raises(CorruptStoreError, match="is damaged"):
            kb.search("apple", dataset_id="d", mode="bm25")
        assert not kb.doctor().clean


def test_time_out_of_range_is_damage(filled: Path, tmp_path: Path) -> None:
    path = tmp_path / "kb.db"
    shutil.copy(filled, path)
    change(path, "UPDATE document SET updated_at = 2307638367505622367")
    with triptych.open(path, embedder="hash") as kb:
        with pytest.raises(CorruptStoreError, match="is not a time"):
            kb.search("apple", dataset_id="d", mode="bm25")
        with pytest.raises(CorruptStoreError, match="is not a time"):
            kb.get_document("d", "note 1.md")


def test_damaged_layer_is_not_served(filled: Path, tmp_path: Path) -> None:
    path = tmp_path / "kb.db"
    shutil.copy(filled, path)
    change(path, "UPDATE layer SET content = CAST('Another of apples.' AS BLOB)")
    with triptych.open(path, embedder="hash") as kb:
        with pytest.raises(CorruptStoreError, match="checksum"):
            kb.search("apples", dataset_id="d", layer="L0", mode="bm25")
        with pytest.raises(CorruptStoreError, match="checksum"):
            kb.layer("d", "note 1.md", "L0")


def test_a_store_that_was_cut_to_nothing_is_no_new_store(tmp_path: Path, filled: Path) -> None:
    (tmp_path / "new.db").touch()  # an empty file alone is one
    triptych.open(tmp_path / "new.db", embedder=None).close()
    path = shutil.copytree(filled.parent, tmp_path / "filled") / filled.name
    path.write_bytes(b"")
    with pytest.raises(CorruptStoreError, match=r"kb\.db\.index beside it is not"):
        triptych.open(path, embedder=None)
    assert path.stat().st_size == 0


def test_a_file_that_is_cut_while_its_log_has_pages_is_damaged(
    tmp_path: Path, filled: Path
) -> None:
    path = tmp_path / "kb.db"
    shutil.copy(filled, path)
    with triptych.open(path, embedder="hash") as kb:
        kb.put_document("d", "late.md", "Only the log has this.")
        assert kb.get_document("d", "late.md").content == "Only the log has this."
        os.truncate(path, path.stat().st_size // 4)
        # Were the file mapped, to read beyond its new end would end the process.
        with pytest.raises(CorruptStoreError, match="damaged"):
            list(kb.chunks.iter_chunks("d", vectors=True))
