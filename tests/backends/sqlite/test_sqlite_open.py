"""Opening an SQLite store: schema, migrations, damage, rights, errors by name."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

import pytest

from support.forked import started
from support.sqlite_stores import CONFIG, put
from triptych.errors import (
    CorruptStoreError,
    SchemaVersionError,
    StoreError,
    StoreFullError,
    StoreLockedError,
)
from triptych.records import ChunkQuery, Mode, NewDocument
from triptych_backends.sql import migrations
from triptych_backends.sql.migrations import SCHEMA_VERSION
from triptych_backends.sqlite import SqliteStore, database

pytestmark = pytest.mark.process


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kb.db"


def schema_of(path: Path) -> set[tuple[str, ...]]:
    driver = sqlite3.connect(path)
    try:
        rows = driver.execute("SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_master")
        found = {(*row[:3], " ".join(row[3].split())) for row in rows}
        for pragma in ("user_version", "application_id"):
            found.add((pragma, str(driver.execute(f"PRAGMA {pragma}").fetchone()[0])))
        return found
    finally:
        driver.close()


CHANGES = {
    "sqlite": "ALTER TABLE dataset ADD COLUMN note TEXT;\n"
    "CREATE INDEX dataset_note ON dataset\n    (note);\n",
    "postgresql": "ALTER TABLE dataset ADD COLUMN note text;\n",
}


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A version of Triptych with one change more; its folder of changes."""
    folder = tmp_path / "changes"
    folder.mkdir()
    for dialect, text in CHANGES.items():
        (folder / f"{SCHEMA_VERSION + 1:04}_note.{dialect}.sql").write_text(text)
    monkeypatch.setattr(migrations, "FOLDER", folder)
    for module in (migrations, database):
        monkeypatch.setattr(module, "SCHEMA_VERSION", SCHEMA_VERSION + 1)
    return folder


def test_a_store_takes_the_changes_since_it_was_made(
    path: Path, later: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        for module in (migrations, database):
            before.setattr(module, "SCHEMA_VERSION", SCHEMA_VERSION)
        with SqliteStore.open(path) as store:
            assert put_with_config(store)
    with pytest.raises(SchemaVersionError, match="open it for writing once"):
        SqliteStore.open(path, read_only=True)
    with SqliteStore.open(path) as store:
        document = store.documents.get("d", "a")
        assert document is not None
        assert document.content == "one\ntwo\n"
    names = {row[1] for row in schema_of(path)}
    assert "dataset_note" in names
    assert ("user_version", str(SCHEMA_VERSION + 1)) in schema_of(path)
    SqliteStore.open(path, read_only=True).close()


def test_a_change_that_fails_leaves_the_file_as_it_was(path: Path, later: Path) -> None:
    with SqliteStore.open(path) as store:
        assert put_with_config(store)
    driver = sqlite3.connect(path)
    driver.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
    driver.close()
    before = schema_of(path)
    (later / f"{SCHEMA_VERSION + 2:04}_bad.sqlite.sql").write_text("ALTER TABLE no ADD x;\n")
    with pytest.raises(StoreError):
        SqliteStore.open(path)
    assert schema_of(path) == before


def test_each_change_has_its_number_in_both_dialects_and_the_page() -> None:
    files = [file.name for file in migrations.FOLDER.glob("*.sql")]
    numbers = {int(name[:4]) for name in files}
    assert numbers == set(range(migrations.FIRST_VERSION + 1, SCHEMA_VERSION + 1))
    for dialect in CHANGES:
        assert {int(name[:4]) for name in files if name.endswith(f".{dialect}.sql")} == numbers
    page = Path(__file__).parents[3] / "docs" / "migrations" / "README.md"
    assert f"| {SCHEMA_VERSION} |" in page.read_text("utf-8")


@pytest.mark.parametrize("read_only", [False, True])
def test_a_store_of_before_the_first_release_is_refused_by_name(
    path: Path, read_only: bool
) -> None:
    SqliteStore.open(path).close()
    driver = sqlite3.connect(path)
    driver.execute("PRAGMA user_version=11")
    driver.close()
    with pytest.raises(SchemaVersionError, match=r"schema 11.*before the first release.*export"):
        SqliteStore.open(path, read_only=read_only)


def put_with_config(store: SqliteStore) -> bool:
    assert store.chunks.configure("d", CONFIG, expected=None)
    return put(store, "a", "one\ntwo\n").version == 1


def test_newer_schema_is_refused_with_both_versions(path: Path) -> None:
    SqliteStore.open(path).close()
    driver = sqlite3.connect(path)
    driver.execute("PRAGMA user_version=99")
    driver.close()
    for read_only in (False, True):
        with pytest.raises(SchemaVersionError, match=rf"99.*{SCHEMA_VERSION}.*update triptych"):
            SqliteStore.open(path, read_only=read_only)


def test_database_of_another_application_is_left_alone(path: Path) -> None:
    driver = sqlite3.connect(path)
    driver.execute("CREATE TABLE theirs (x)")
    driver.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another application"):
        SqliteStore.open(path)
    assert path.read_bytes() == before


def test_what_is_no_database_is_corrupt(path: Path) -> None:
    path.write_bytes(b"no database at all" * 1000)
    with pytest.raises(CorruptStoreError) as raised:
        SqliteStore.open(path)
    assert isinstance(raised.value.__cause__, sqlite3.Error)


def test_damaged_pages_are_corrupt(path: Path) -> None:
    with SqliteStore.open(path) as store:
        put_with_config(store)
        for number in range(200):
            store.documents.put("d", NewDocument(name=f"{number}", content="x" * 5000))
    data = bytearray(path.read_bytes())
    data[8192 * 2 :] = os.urandom(len(data) - 8192 * 2)
    path.write_bytes(data)
    with pytest.raises(CorruptStoreError):
        _read_all(path)


def _read_all(path: Path) -> None:
    with SqliteStore.open(path) as store:
        for info in store.documents.list("d"):
            store.documents.get("d", info.name)


def test_changed_content_fails_its_sha256(path: Path) -> None:
    with SqliteStore.open(path) as store:
        put_with_config(store)
        with store.database.writing() as tx:
            tx.driver.execute("UPDATE document SET content = CAST('other' AS BLOB)")
        with pytest.raises(CorruptStoreError, match="SHA-256"):
            store.documents.get("d", "a")


def test_vector_of_a_wrong_width_is_corrupt(path: Path) -> None:
    with SqliteStore.open(path) as store:
        put_with_config(store)
        with store.database.writing() as tx:
            tx.driver.execute("UPDATE vector SET data = x'00000000'")
        with pytest.raises(CorruptStoreError, match="4 bytes where 32"):
            list(store.chunks.iter_chunks("d", vectors=True))


def test_places_that_cannot_be_a_store_are_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is a folder"):
        SqliteStore.open(tmp_path)
    with pytest.raises(StoreError, match="does not exist: create it"):
        SqliteStore.open(tmp_path / "missing" / "kb.db")
    with pytest.raises(StoreError, match="there is no store"):
        SqliteStore.open(tmp_path / "kb.db", create=False)
    with pytest.raises(StoreError, match="there is no store"):
        SqliteStore.open(tmp_path / "kb.db", read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_odd_characters_in_a_path(tmp_path: Path) -> None:
    path = tmp_path / "a b?c#d%20é.db"
    with SqliteStore.open(path) as store:
        put_with_config(store)
    assert path.is_file()


def test_read_only_store_reads_and_searches_and_refuses_writes(path: Path) -> None:
    with SqliteStore.open(path) as store:
        put_with_config(store)
    with SqliteStore.open(path, read_only=True) as store:
        query = ChunkQuery(dataset_ids=("d",), mode=Mode.BM25, text="two")
        assert [found.index for found in store.chunks.search(query)] == [1]
        with pytest.raises(StoreError, match="read-only"):
            store.documents.put("d", NewDocument(name="b", content=""))
        with pytest.raises(StoreError, match="read-only"):
            store.scrub()


def test_empty_file_is_no_store_to_read(path: Path) -> None:
    path.touch()
    with pytest.raises(StoreError, match="is empty"):
        SqliteStore.open(path, read_only=True)
    SqliteStore.open(path).close()


def test_full_disk_is_named_and_nothing_is_half_stored(path: Path) -> None:
    with SqliteStore.open(path) as store:
        put_with_config(store)
        with pytest.raises(StoreFullError, match=r"full.*free some space"):
            _write_too_much(store)
        assert store.documents.list_datasets() == ["d"]
        assert store.documents.get("d", "a") is not None


def _write_too_much(store: SqliteStore) -> None:
    with store.database.writing() as tx:
        pages = tx.driver.execute("PRAGMA page_count").fetchone()[0]
        tx.driver.execute(f"PRAGMA max_page_count={pages + 2}")
        tx.dataset("other", live=True)
        tx.driver.execute("UPDATE document SET content = zeroblob(1000000)")


def test_held_lock_is_named_after_the_wait(path: Path) -> None:
    with SqliteStore.open(path, lock_timeout=0.05) as store:
        put_with_config(store)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreLockedError, match="lock_timeout"):
            store.documents.put("d", NewDocument(name="b", content=""))
        assert store.documents.get("d", "a") is not None
        other.close()
        store.documents.put("d", NewDocument(name="b", content=""))


def open_and_put(path: str, name: str) -> None:
    with SqliteStore.open(path) as store:
        store.documents.put("d", NewDocument(name=name, content=name))


def test_processes_that_create_one_store_at_once_all_succeed(path: Path) -> None:
    makers = [started(open_and_put, str(path), str(number)) for number in range(2)]
    for maker in makers:
        maker.join(60)
    assert [maker.exitcode for maker in makers] == [0, 0]
    with SqliteStore.open(path) as store:
        assert [info.name for info in store.documents.list("d")] == ["0", "1"]


def test_every_call_after_close_says_so(path: Path) -> None:
    store = SqliteStore.open(path)
    put_with_config(store)
    store.close()
    store.close()
    query = ChunkQuery(dataset_ids=("d",), mode=Mode.BM25, text="two")
    for call in (
        lambda: store.documents.get("d", "a"),
        lambda: store.documents.put("d", NewDocument(name="b", content="")),
        lambda: store.chunks.search(query),
        lambda: list(store.chunks.iter_chunks("d")),
        lambda: store.layers.list("d"),
        lambda: store.feed.head(),
        lambda: store.scrub(),
    ):
        with pytest.raises(StoreError, match="is closed"):
            call()


def test_erased_text_is_in_none_of_the_files(path: Path) -> None:
    secret = "xyzzyplughsecret"
    with SqliteStore.open(path) as store:
        put_with_config(store)
        put(store, "s", f"{secret}\n" * 50)
        query = ChunkQuery(dataset_ids=("d",), mode=Mode.BM25, text=secret)
        assert store.chunks.search(query)
        store.index.publish()
        store.documents.delete("d", "s")
        store.scrub()
        assert store.chunks.search(query) == []
        two = ChunkQuery(dataset_ids=("d",), mode=Mode.BM25, text="two")
        assert [found.index for found in store.chunks.search(two)] == [1]
    files = [file for file in path.parent.rglob("*") if stat.S_ISREG(file.stat().st_mode)]
    assert path in files
    for file in files:
        assert secret[:8].encode() not in file.read_bytes(), file
