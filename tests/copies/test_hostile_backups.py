"""A backup is refused before anything is written, or every store takes all of it over."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing, suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from support.backups import forged, refused
from support.examples import examples
from support.rich_stores import contents, fill, open_kind
from triptych.copies import copy_store
from triptych.errors import CorruptStoreError, StoreError, ValidationError
from triptych.records import NameState, NewDocument, sparse
from triptych_backends.memory import MemoryStore
from triptych_backends.sqlite import SqliteStore, open_backup, write_backup
from triptych_testing.builders import CONFIG, SPARSE, fill as fill_plainly, put, sparse_of


@pytest.fixture(scope="module")
def backup(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of a store with something of everything."""
    store, path = MemoryStore(), tmp_path_factory.mktemp("backup") / "kb.db"
    fill(store, random.Random(3), 120)
    config = attrs.evolve(CONFIG, sparse_sig=SPARSE)
    fill_plainly(store, "c", {"a": "one\n\ntwo", "b": "three"}, config)
    vectors = {each.sig.input_sig: sparse_of("one") for each in store.chunks.iter_chunks("c", "a")}
    store.chunks.put_vectors("c", sparse(SPARSE), ["a"], vectors)
    write_backup(store, path)
    return path


def copied(backup: Path, folder: Path) -> Path:
    return Path(shutil.copy(backup, folder / "bad.db"))


SCHEMAS = {
    "a view in place of a table": "ALTER TABLE meta RENAME TO hidden; "
    "CREATE VIEW meta AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
    "SELECT x AS key, x AS value FROM n",
    "a view": "CREATE VIEW more AS SELECT 1",
    "a trigger": "CREATE TRIGGER more AFTER INSERT ON meta BEGIN DELETE FROM dataset; END",
    "a trigger of SQLite's name": "CREATE TRIGGER more AFTER INSERT ON meta BEGIN SELECT 1; END; "
    "PRAGMA writable_schema=ON; UPDATE sqlite_master SET name = 'sqlite_more', "
    "sql = replace(sql, 'more', 'sqlite_more') WHERE name = 'more'",
    "another table": "CREATE TABLE more (x)",
    "a virtual table": "CREATE VIRTUAL TABLE more USING fts5(x)",
    "an index on an expression": "CREATE INDEX more ON meta (hex(value))",
    "a column that is computed": "ALTER TABLE meta ADD COLUMN more AS (hex(value))",
    "a column with a check": "PRAGMA writable_schema=ON; UPDATE sqlite_master SET "
    "sql = replace(sql, 'value TEXT NOT NULL', 'value TEXT NOT NULL CHECK (randomblob(9))') "
    "WHERE name = 'meta'",
    "a column too few": "ALTER TABLE chunk DROP COLUMN occurrence",
    "a table too few": "DROP TABLE waiting",
    "two tables in one place": "PRAGMA writable_schema=ON; UPDATE sqlite_master SET rootpage = "
    "(SELECT rootpage FROM sqlite_master WHERE name = 'epoch') WHERE name = 'clock'",
}

LARGE = 2**62
FIRST = "(SELECT min(id) FROM document)"
DATA = {
    "a name of other chunks": f"UPDATE document SET name = '../../outside' WHERE id = {FIRST}",
    "a name from the root": f"UPDATE document SET name = '/etc/outside' WHERE id = {FIRST}",
    "a name with NUL": f"UPDATE document SET name = 'a' || char(0) WHERE id = {FIRST}",
    "a name that is no text": f"UPDATE document SET name = x'ff' WHERE id = {FIRST}",
    "a name not in UTF-8": f"UPDATE document SET name = CAST(x'ff' AS TEXT) WHERE id = {FIRST}",
    "a dataset that is no text": "UPDATE dataset SET name = x'ff' WHERE id = 1",
    "a version of 0": "UPDATE document SET version = 0",
    "a version that none can follow": f"UPDATE document SET version = {2**53}",
    "a version that is no number": "UPDATE document SET version = 'one'",
    "a time before all": f"UPDATE document SET updated_at = {-LARGE}",
    "a time after all": f"UPDATE document SET updated_at = {LARGE}",
    "another text": "UPDATE document SET content = x'616263'",
    "text that is no text": "UPDATE document SET content = x'ff'",
    "metadata that are none": "UPDATE document SET metadata = '[1]'",
    "metadata that are no JSON": "UPDATE document SET metadata = '{'",
    "metadata without a number": "UPDATE document SET metadata = '{\"a\": NaN}'",
    "metadata nested too deeply": "UPDATE document SET metadata = '{\"a\":' || "
    "replace(hex(zeroblob(50000)), '00', '[') || '}'",
    "metadata with a lone surrogate": 'UPDATE document SET metadata = \'{"a": "\\ud800"}\'',
    "an unknown field": "UPDATE document SET system = '{\"more\": 1}'",
    "an old version that is another text": "UPDATE document_version SET content = x'00'",
    "a version of a delete that none can follow": f"UPDATE dataset SET deleted_version = {2**53}",
    "a negative version of a delete": "UPDATE dataset SET deleted_version = -1",
    "a language that nobody speaks": "UPDATE dataset SET language = 'klingon'",
    "NUL in a signature": "UPDATE dataset SET chunker_sig = 'a' || char(0)",
    "an offset beyond all numbers": f"UPDATE chunk SET byte_offset = {LARGE}",
    "a negative offset": "UPDATE chunk SET byte_offset = -1",
    "a line of 0": "UPDATE chunk SET start_line = 0",
    "a window beyond all numbers": f"UPDATE chunk SET window_end = {LARGE}",
    "a place that is no number": "UPDATE chunk SET span_start = 'one'",
    "another text of a chunk": "UPDATE chunk SET content = x'616263'",
    "vectors of no text": "UPDATE chunk SET input_sig = ''",
    "a chunk too few": "DELETE FROM chunk WHERE position = 0",
    "a vector that is cut": "UPDATE vector SET data = substr(data, 1, 3)",
    "a vector of another length": "UPDATE vector SET data = substr(data, 1, 8) "
    "WHERE space_id = (SELECT max(id) FROM space WHERE kind = 'dense')",
    "a vector that is not finite": "UPDATE vector SET data = "
    "CAST(substr(data, 1, length(data) - 4) || x'0000807f' AS BLOB)",
    "a vector that is too long for float32": "UPDATE vector SET data = "
    "CAST(substr(data, 1, length(data) - 4) || x'ffff7f7f' AS BLOB)",
    "a vector that is no bytes": "UPDATE vector SET data = 'text'",
    "another text of a layer": "UPDATE layer SET content = x'616263'",
    "NUL in a setting": "UPDATE meta SET value = char(0) WHERE key = 'setting:key'",
    "NUL in the key of a setting": "INSERT INTO meta VALUES ('setting:a' || char(0), 'x')",
    "a key of a setting that is too long": "INSERT INTO meta "
    "VALUES ('setting:' || hex(zeroblob(501)), 'x')",
    "a setting that is not in UTF-8": "INSERT INTO meta VALUES ('setting:a', CAST(x'ff' AS TEXT))",
    "a setting that is no text": "INSERT INTO meta VALUES ('setting:a', x'ff')",
    "an old version that unpacks to gigabytes": f"UPDATE document_version SET size = {2**33}",
}


SCHEMAS["columns without their constraints"] = (
    "PRAGMA writable_schema=ON; "
    "UPDATE sqlite_master SET sql = replace(sql, 'BLOB NOT NULL', 'BLOBNOT NULL')"
)


@pytest.mark.parametrize("script", SCHEMAS.values(), ids=SCHEMAS)
def test_file_with_other_tables_is_refused(script: str, backup: Path, tmp_path: Path) -> None:
    path = copied(backup, tmp_path)
    with forged(path) as driver:
        driver.executescript(script)
    error = refused(path)
    assert isinstance(error, CorruptStoreError)
    assert "nothing was read from it" in str(error)


def test_tables_may_be_written_in_other_lines(backup: Path, tmp_path: Path) -> None:
    """As older versions have written them."""
    path = copied(backup, tmp_path)
    with forged(path) as driver:
        driver.executescript(
            "PRAGMA writable_schema=ON; UPDATE sqlite_master SET sql = "
            "replace(replace(sql, ', ', ',' || char(10) || char(9)), '(', '(' || char(10))"
        )
    with open_backup(path) as opened:
        assert opened.documents.count("c") == 2


@pytest.mark.parametrize("script", DATA.values(), ids=DATA)
def test_poison_is_refused(script: str, backup: Path, tmp_path: Path) -> None:
    path = copied(backup, tmp_path)
    with forged(path) as driver:
        assert driver.execute(script).rowcount > 0
    error = refused(path)
    assert isinstance(error, CorruptStoreError)
    assert "bad.db" in str(error)
    assert "nothing was read from it" in str(error)


def test_settings_of_work_under_way_are_not_restored(backup: Path, tmp_path: Path) -> None:
    path, target = copied(backup, tmp_path), MemoryStore()
    with forged(path) as driver:
        for key in ("copy.0", "http.idempotency.x", "backup.x"):
            driver.execute("INSERT INTO meta VALUES ('setting:' || ?, '[]')", [key])
    with open_backup(path) as opened:
        copy_store(opened, target)
    assert [key for key in target.list_settings() if not key.startswith("layers.")] == ["key"]


def test_digest_finds_what_sqlite_does_not(backup: Path, tmp_path: Path) -> None:
    path = copied(backup, tmp_path)
    data = path.read_bytes()
    at = data.index(b"value 0.")
    path.write_bytes(data[:at] + b"VALUE" + data[at + 5 :])
    assert "fails its digest" in str(refused(path))


HOSTILE = (
    2**63 - 1, 2**53, -1, 0, 1.5, float("inf"), None, "", "a\0b", "x" * 3_000, "..", "/", "é", b"",
    b"\xff\xfe", "{}", "[]", "{\"$date\": 1}", "L1", "none",
)  # fmt: skip


@pytest.mark.property
@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_backup_is_refused_or_restored_whole_and_its_store_goes_on(
    backup: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Whatever stands in any column."""
    folder = tmp_path_factory.mktemp("store")
    path = copied(backup, folder)
    with forged(path) as driver:
        tables = [
            row[0] for row in driver.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        table = data.draw(st.sampled_from([*tables, "document", "chunk", "layer", "dataset"]))
        columns = [row[1] for row in driver.execute(f"PRAGMA table_info({table})")]
        column = data.draw(st.sampled_from(columns), label="column")
        value = data.draw(st.sampled_from(HOSTILE), label="value")
        with suppress(sqlite3.IntegrityError):
            driver.execute(f"UPDATE OR IGNORE {table} SET {column} = ?", [value])
    try:
        opened = open_backup(path)
    except (CorruptStoreError, StoreError):
        return
    with opened:
        for kind in ("memory", "sqlite", "files"):
            with closing(open_kind(kind, folder, kind)) as store:
                copy_store(opened, store)
                write_backup(store, folder / "again.db", overwrite=True)
                for dataset_id in store.documents.list_datasets():
                    for info in store.documents.list(dataset_id):
                        put(store, dataset_id, info.name, "another text")
    assert not (folder.parent / "outside").exists()


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
        with pytest.raises(StoreError, match=f"{said}.* no store would accept"):
            write_backup(store, tmp_path / "kb.db")
        assert list(tmp_path.iterdir()) == []


def test_expiry_that_utc_does_not_have_is_refused() -> None:
    early = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))
    with pytest.raises(ValidationError, match="expires_at"):
        NewDocument(name="a", content="text", expires_at=early)


def test_store_that_was_open_is_copied_with_its_log(tmp_path: Path) -> None:
    target = MemoryStore()
    with SqliteStore.open(tmp_path / "kb.db", background_index=False) as store:
        put(store, "d", "a", "text in the log")
        with open_backup(tmp_path / "kb.db") as opened:
            copy_store(opened, target)
        assert contents(target) == contents(store)
