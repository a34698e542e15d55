"""Stores as earlier versions wrote them: what Triptych keeps itself lay in the metadata."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

__all__ = ["KEYS", "age_files", "age_json", "age_sqlite", "pair", "without_system_data"]

KEYS = {"outline": "triptych.outline", "sync_root": "triptych.sync_root"}


def _old_metadata(metadata: dict[str, str], system: dict[str, str]) -> dict[str, str]:
    return metadata | {KEYS[key]: text for key, text in system.items() if text and key in KEYS}


def pair(key: str, value: str) -> bytes:
    """What filters read of a string, in a database."""
    data = key.encode()
    return hashlib.sha256(b"%d:%b%b" % (len(data), data, value.encode())).digest()[:16]


def age_sqlite(path: Path) -> None:
    """Give a database the tables of schema 4, and its rows their old form."""
    driver = sqlite3.connect(path)
    without_system_data(driver)
    driver.execute("UPDATE alembic_version SET version_num = '0004'")
    driver.execute("PRAGMA user_version=4")
    driver.commit()
    driver.close()


def without_system_data(driver: sqlite3.Connection) -> None:
    """Undo the migration that gave system data a column, and what came after it."""
    for table in ("sparse_pending", "sparse_use", "sparse_vector", "sparse_space"):
        driver.execute(f"DROP TABLE {table}")
    driver.execute("ALTER TABLE dataset DROP COLUMN sparse_sig")
    driver.execute("DROP TABLE vector_use")
    driver.execute("ALTER TABLE space DROP COLUMN kept")
    driver.execute("DROP TABLE document_change")
    driver.execute("DROP TABLE answer")
    driver.execute("DROP TABLE answer_count")
    driver.execute("ALTER TABLE dataset DROP COLUMN revision")
    driver.execute("DROP INDEX derivation_space")
    driver.execute("ALTER TABLE derivation DROP COLUMN dataset_id")
    driver.execute("DELETE FROM document_meta")
    for table in ("document", "document_version"):
        driver.execute(f"ALTER TABLE {table} RENAME COLUMN system TO parser_sig")
        found = driver.execute(f"SELECT rowid, metadata, parser_sig FROM {table}").fetchall()
        for row, metadata, text in found:
            system = json.loads(text)
            old = _old_metadata(json.loads(metadata), system)
            driver.execute(
                f"UPDATE {table} SET metadata = ?, parser_sig = ? WHERE rowid = ?",
                [json.dumps(old, ensure_ascii=False), system.get("parser_sig", ""), row],
            )
            if table == "document":
                driver.executemany(
                    "INSERT OR IGNORE INTO document_meta SELECT dataset_id, ?, id FROM document "
                    "WHERE id = ?",
                    [(pair(*item), row) for item in old.items()],
                )


def _old_document(document: dict[str, Any]) -> dict[str, Any]:
    system = document.pop("system")
    return document | {"metadata": _old_metadata(document["metadata"], system)}


def age_files(folder: Path, *, derived: bool = True) -> None:
    """Give the files of a filesystem store their old form, and its database unless it is to go."""
    own = folder / ".triptych"
    for file in own.glob("datasets/*/sidecars/**/*.json"):
        file.write_text(json.dumps(_old_document(json.loads(file.read_text()))))
    for file in own.glob("history/**/*.json.gz"):
        with gzip.open(file) as packed:
            document = json.load(packed)
        with gzip.open(file, "wb") as packed:
            packed.write(json.dumps(_old_document(document)).encode())
    if derived:
        for database in own.glob("derived/*.db"):
            age_sqlite(database)
    else:
        shutil.rmtree(own / "derived")


def age_json(path: Path) -> None:
    """Give the file of `examples/json_store.py` its old form."""
    state = json.loads(path.read_text())["datasets"]
    for dataset in state.values():
        for document in dataset["documents"].values():
            document.update(_old_document(document))
        for old in dataset["replaced"].values():
            for document in old:
                document.update(_old_document(document))
    path.write_text(json.dumps(state))
