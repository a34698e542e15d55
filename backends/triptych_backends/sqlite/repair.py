"""Repairing the database: derived data is deleted and made again from the documents."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Collection

from triptych._internal.wording import counted
from triptych.records.metadata import metadata_from_plain
from triptych.signatures import document_input_sig
from triptych_backends.index import LocalIndex
from triptych_backends.sql import schema as t
from triptych_backends.sql.compilation import creating
from triptych_backends.sql.document_rows import read_system
from triptych_backends.sqlite.checks import (
    SOURCES,
    bad_pairs,
    bad_sparse,
    bad_vectors,
    clock_is_behind,
    greatest_number,
    missing_parts,
    pages_of,
)
from triptych_backends.sqlite.database import SqliteDatabase
from triptych_backends.sqlite.invariants import (
    DROP_SETS_OF,
    INVARIANTS,
    Invariant,
    broken_references,
)
from triptych_backends.sqlite.session import DIALECT, SqliteTransaction

_PAGE = 64
_ROUNDS = 10
"""What is removed may leave something else without its owner."""


def repair(
    database: SqliteDatabase,
    index: LocalIndex,
    checks: Collection[str],
    dataset_ids: Collection[str],
) -> list[str]:
    """See `Diagnostics.repair`."""
    done: list[str] = []
    invariants = [each for each in INVARIANTS if each.check.name in checks]
    if any(name.startswith("orphans.") for name in checks):
        # A row that is removed may be another's owner: all are looked at until none is left.
        invariants = [*broken_references(), *invariants]
    if {"schema.missing", "clock.behind"} & set(checks):
        with database.writing() as tx:
            done += _repair_schema(tx)
            if clock_is_behind(tx):
                _set_clock(tx)
                done.append("set the clock")
    if "documents.digests" in checks:
        with database.writing() as tx:
            done.append(f"worked out the digests of {_repair_digests(tx)} documents again")
    if "database.indexes" in checks:
        with database.writing() as tx:
            tx.driver.execute("REINDEX")
        done.append("built the database's indexes again")
    touched = bool(done)
    if {"sparse.stored", "schema.missing"} & set(checks):
        # Whose vectors are dropped, or were lost with a table, waits; a log that was is written.
        lost = ("sparse.waiting", "changes.documents")
        found = [each for each in INVARIANTS if each.check.name in lost]
        invariants += [each for each in found if each not in invariants]
    if invariants or {"metadata.pairs", "vectors.stored"} & set(checks):
        with database.writing() as tx:
            # Rows without their owner are what foreign keys forbid: looked at when all is repaired.
            tx.driver.execute("PRAGMA defer_foreign_keys=ON")
            if "vectors.stored" in checks:
                done.append(f"dropped {_drop_vectors(tx)} vectors with what uses them")
            if "sparse.stored" in checks:
                done.append(f"dropped {_drop_sparse(tx)} sparse vectors")
            rows = _restore(tx, invariants)
            _drop_unused(tx)
            if rows:
                done.append(f"repaired {rows} rows")
            if "metadata.pairs" in checks:
                done.append(f"wrote the pairs of {_repair_pairs(tx)} documents")
            for (dataset,) in tx.driver.execute("SELECT id FROM dataset").fetchall():
                tx.reset_log(dataset)
                tx.break_log(dataset)
        touched = True
    if touched or checks:
        with database.writing() as tx:
            tx.revise()  # what was found in the damaged store holds no longer
    if touched or any(name.startswith("index.") for name in checks):
        done += _drop_index(index, dataset_ids)
    return done


def _set_clock(tx: SqliteTransaction) -> None:
    tx.run(t.clock.delete())
    tx.driver.execute(
        "INSERT INTO clock (id, nonce, tick) VALUES (1, ?, ?)",
        [secrets.token_hex(16), greatest_number(tx)],
    )


def _restore(tx: SqliteTransaction, invariants: Collection[Invariant]) -> int:
    """Change rows until ``invariants`` hold; return how many."""
    rows = 0
    for _ in range(_ROUNDS):
        before = tx.driver.total_changes
        for invariant in invariants:
            for statement in invariant.repair:
                tx.driver.execute(statement)
        if tx.driver.total_changes == before:
            break
        rows += tx.driver.total_changes - before
    return rows


def _repair_schema(tx: SqliteTransaction) -> list[str]:
    missing = missing_parts(tx)
    for table, what in missing:
        statements = creating(t.METADATA.tables[table], DIALECT)
        if not what and table not in SOURCES:
            for statement in statements.values():
                tx.driver.execute(statement)
        elif what.startswith("index"):
            tx.driver.execute(statements[what])
    return [f"made {table} {what}".rstrip() for table, what in missing]


def _drop_vectors(tx: SqliteTransaction) -> int:
    bad = [pk for pk, _ in bad_vectors(tx)]
    for pk in bad:
        documents = tx.driver.execute(
            "SELECT DISTINCT document_id FROM chunk WHERE vector_id = ?", [pk]
        ).fetchall()
        for (document,) in documents:
            for statement in DROP_SETS_OF:
                tx.driver.execute(statement.format(ids="?"), [document])
        tx.driver.execute(
            "UPDATE layer SET vector_id = NULL, embed_sig = '' WHERE vector_id = ?", [pk]
        )
        _drop_vector(tx, pk)
    _drop_unused(tx)
    return len(bad)


def _drop_sparse(tx: SqliteTransaction) -> int:
    bad = [pk for pk, _ in bad_sparse(tx)]
    for pk in bad:
        _drop_vector(tx, pk)
    return len(bad)


def _drop_vector(tx: SqliteTransaction, pk: int) -> None:
    tx.driver.execute("DELETE FROM vector_use WHERE vector_id = ?", [pk])
    tx.driver.execute("DELETE FROM vector WHERE id = ?", [pk])


def _drop_unused(tx: SqliteTransaction) -> None:
    for invariant in INVARIANTS:
        if invariant.check.name in ("vectors.unused", "sparse.waiting"):
            for statement in invariant.repair:
                tx.driver.execute(statement)


def _repair_pairs(tx: SqliteTransaction) -> int:
    found = [row for row in bad_pairs(tx, None) if row[4] is not None]
    for dataset, document, _, _, pairs in found:
        tx.driver.execute("DELETE FROM document_meta WHERE document_id = ?", [document])
        tx.driver.executemany(
            "INSERT INTO document_meta (dataset_id, pair, document_id) VALUES (?, ?, ?)",
            [(dataset, pair, document) for pair in sorted(pairs or ())],
        )
    return len(found)


def _repair_digests(tx: SqliteTransaction) -> int:
    """Size and input signature of all whose content is what was put."""
    repaired = 0
    for page in pages_of(
        tx,
        "SELECT id, name, content_sha256, size, input_sig, metadata, system, content "
        "FROM document WHERE id > ? ORDER BY id LIMIT ?",
        _PAGE,
    ):
        for pk, name, sha256, size, input_sig, metadata, system, content in page:
            if not isinstance(content, bytes) or hashlib.sha256(content).hexdigest() != sha256:
                continue
            outline = read_system(system)[1].outline
            held = metadata_from_plain(json.loads(metadata))
            right = (len(content), document_input_sig(name, sha256, held, outline))
            if right != (size, input_sig):
                tx.driver.execute(
                    "UPDATE document SET size = ?, input_sig = ? WHERE id = ?", [*right, pk]
                )
                repaired += 1
    return repaired


def _drop_index(index: LocalIndex, dataset_ids: Collection[str]) -> list[str]:
    for dataset in dataset_ids:
        index.drop(dataset)
    return [f"dropped the search index of {counted(len(dataset_ids), 'dataset')}"]
