"""The doctor's checks of the database: pages, schema, rows, log and index."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np

from triptych.diagnostics import Check, FindingCollector
from triptych.errors import CancelledError, CorruptStoreError, ValidationError
from triptych.records import Finding, SparseVector, SystemData
from triptych.records.metadata import metadata_from_plain
from triptych_backends.index import LocalIndex
from triptych_backends.index.checks import examine_index
from triptych_backends.sql import schema as t
from triptych_backends.sql.document_rows import read_system
from triptych_backends.sql.errors import DAMAGE
from triptych_backends.sql.metadata_entries import entries_of
from triptych_backends.sqlite.database import SqliteDatabase
from triptych_backends.sqlite.invariants import INVARIANTS, Invariant, broken_references
from triptych_backends.sqlite.session import SqliteSession

_PAGE = 256
_UNIT_TOLERANCE = 1e-3
_BACKUP = "restore the store from a backup; documents that can still be read can be exported"

CHECKS = {
    check.name: check
    for check in (
        Check(
            "database.pages",
            "SQLite's own check fails",
            "rows may be lost or wrong, and more may be lost with every write",
            remedy=_BACKUP,
        ),
        Check(
            "database.indexes",
            "an index of the database does not agree with its table",
            "existing rows are not found, or are stored twice",
            repair="the database's indexes are built again",
        ),
        Check(
            "database.types",
            "the rows of documents or datasets hold values of another type than their columns",
            "reading or comparing them fails",
            remedy=_BACKUP,
        ),
        Check(
            "schema.missing",
            "tables, columns or indexes are not those of this version's schema",
            "statements fail, or take very long",
            repair="what holds derived data is made again, and indexes are built",
        ),
        Check(
            "schema.lost",
            "a table or a column with documents is missing",
            "documents are lost",
            remedy=_BACKUP,
        ),
        Check(
            "clock.behind",
            "the store's counter is missing, or behind numbers in use",
            "writes fail, or numbers are given out twice and searches miss what they stand for",
            repair="it is set to the greatest number in use, under a new name",
        ),
        Check(
            "metadata.pairs",
            "the filter index of documents' metadata is wrong",
            "filtered searches miss documents, or find those that do not match",
            repair="it is written again from the documents",
        ),
        Check(
            "metadata.unreadable",
            "documents' metadata cannot be read",
            "they cannot be listed",
            remedy=_BACKUP,
        ),
        Check(
            "vectors.stored",
            "stored vectors have another width than their space, or are not of unit length",
            "vector search fails, or its order is wrong",
            repair="they are dropped with what uses them, which is derived again",
            derives=True,
        ),
        Check(
            "sparse.stored",
            "stored sparse vectors fail their checksum",
            "the search index cannot be built",
            repair="they are dropped, and their documents wait for new ones (`triptych embed`)",
        ),
    )
}

_GREATEST = (
    "SELECT coalesce(max(n), 0) FROM (SELECT max(id) AS n FROM dataset "
    "UNION ALL SELECT max(id) FROM document UNION ALL SELECT max(revision) FROM document "
    "UNION ALL SELECT max(id) FROM space UNION ALL SELECT max(id) FROM vector "
    "UNION ALL SELECT max(id) FROM chunk UNION ALL SELECT max(id) FROM layer "
    "UNION ALL SELECT max(revision) FROM layer UNION ALL SELECT max(seq) FROM change "
    "UNION ALL SELECT max(seq) FROM document_change UNION ALL SELECT max(first) FROM epoch)"
)
SOURCES = frozenset({"dataset", "document"})


def check_integrity(
    database: SqliteDatabase, index: LocalIndex, dataset_ids: Collection[str]
) -> Iterator[Finding]:
    """See `Diagnostics.check_integrity`."""
    tally = FindingCollector()
    _types(database, tally)
    if tally.findings():
        yield from tally.findings()
        return
    parts: list[Callable[[], None]] = [
        lambda: _pages(database, tally),
        lambda: _schema(database, tally),
        lambda: _clock(database, tally),
        lambda: _rows(database, dataset_ids, tally),
        lambda: _pairs(database, dataset_ids, tally),
        lambda: _vectors("vectors.stored", bad_vectors, database, dataset_ids, tally),
        lambda: _vectors("sparse.stored", bad_sparse, database, dataset_ids, tally),
    ]
    for part in parts:
        try:
            part()
        except CancelledError:
            raise
        except CorruptStoreError as error:
            # Without a table or a page that it reads, a check can say no more than that.
            if not tally.findings():
                tally.add(CHECKS["database.pages"], database.where, str(error))
    yield from tally.findings()
    for dataset in dataset_ids:
        yield from examine_index(index, dataset)


def _types(database: SqliteDatabase, tally: FindingCollector) -> None:
    """SQLite stores any value in any column, and its own check does not mind."""
    kept = {int: ("integer",), bool: ("integer",), float: ("real", "integer"), bytes: ("blob",)}
    try:
        with database.reading() as session:
            for table in (t.dataset, t.document):
                for column in table.columns:
                    types = (*kept.get(column.type.python_type, ("text",)), "null")
                    marks = ", ".join("?" * len(types))
                    odd = f"typeof({column.name}) NOT IN ({marks})"
                    for (name,) in session.driver.execute(
                        f"SELECT name FROM {table.name} WHERE {odd}", types
                    ):
                        check = CHECKS["database.types"]
                        tally.add(check, database.where, f"{column.name} of {table.name} {name}")
    except CorruptStoreError:
        return  # a table or a column is not there, which the next checks tell


def _pages(database: SqliteDatabase, tally: FindingCollector) -> None:
    with database.reading() as session:
        said = [str(row[0]) for row in session.driver.execute("PRAGMA integrity_check(50)")]
    for line in said:
        if line != "ok":
            of_index = "index" in line and "database" not in line
            name = "database.indexes" if of_index else "database.pages"
            tally.add(CHECKS[name], database.where, " ".join(line.split()))


def missing_parts(session: SqliteSession) -> list[tuple[str, str]]:
    """(table, what) that the schema has and the database has not; "" is the table itself."""
    missing = []
    for table in t.METADATA.sorted_tables:
        name = table.name
        columns = {row[1] for row in session.driver.execute(f"PRAGMA table_info({name})")}
        if not columns:
            missing.append((name, ""))
            continue
        lost = {str(column.name) for column in table.columns} - columns
        missing += [(name, f"column {column}") for column in sorted(lost)]
        gone = {str(i.name) for i in table.indexes} - _indexes(session.driver, name)
        missing += [(name, f"index {index}") for index in sorted(gone)]
    return missing


def _indexes(driver: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in driver.execute(f"PRAGMA index_list({table})")}


def _schema(database: SqliteDatabase, tally: FindingCollector) -> None:
    with database.reading() as session:
        missing = missing_parts(session)
    for table, what in missing:
        lost = what.startswith("column") or (not what and table in SOURCES)
        name = "schema.lost" if lost else "schema.missing"
        tally.add(CHECKS[name], database.where, f"{table} {what}".strip())


def clock_is_behind(session: SqliteSession) -> bool:
    """Whether the clock is not one row with a tick that no number in use exceeds."""
    rows = session.driver.execute("SELECT typeof(tick), tick FROM clock").fetchall()
    return len(rows) != 1 or rows[0][0] != "integer" or rows[0][1] < greatest_number(session)


def greatest_number(session: SqliteSession) -> int:
    """The greatest number that is in use."""
    return int(session.driver.execute(_GREATEST).fetchone()[0])


def _clock(database: SqliteDatabase, tally: FindingCollector) -> None:
    with database.snapshot() as session:
        if clock_is_behind(session):
            tally.add(CHECKS["clock.behind"], database.where)


def _rows(database: SqliteDatabase, dataset_ids: Collection[str], tally: FindingCollector) -> None:
    for invariant in (*broken_references(), *INVARIANTS):
        for dataset, label, count in _broken(database, invariant):
            if dataset and dataset not in dataset_ids and invariant.check.name != "dataset.hidden":
                continue
            place = f"dataset {dataset!r}" if dataset else database.where
            tally.add(invariant.check, place, label, dataset_id=dataset, count=count)


def _broken(database: SqliteDatabase, invariant: Invariant) -> Iterator[tuple[str, str, int]]:
    """Of each dataset a few rows by name, and how many there are."""
    with database.reading() as session:
        # One statement, one state: what two would see of a write in between is not a finding.
        rows = session.driver.execute(
            "SELECT dataset, min(label), count(*) FROM (SELECT '' AS dataset, '' AS label "
            f"WHERE 0 UNION ALL {invariant.rows}) GROUP BY dataset"
        ).fetchall()
    yield from ((str(dataset), str(label), count) for dataset, label, count in rows)


def pages_of(session: SqliteSession, sql: str, size: int = _PAGE) -> Iterator[list[Any]]:
    """The rows of ``sql``, so many at a time: it takes the id to begin behind, and a limit."""
    after = 0
    while page := session.driver.execute(sql, [after, size]).fetchall():
        after = page[-1][0]
        yield page


def bad_pairs(
    session: SqliteSession, dataset_ids: Collection[str] | None
) -> Iterator[tuple[int, int, str, str, set[bytes] | None]]:
    """Of documents whose pairs are not those of their metadata: their dataset's id, their own,
    the names of both, and the pairs that belong there (None: the metadata is unreadable)."""
    for page in pages_of(
        session,
        "SELECT d.id, d.dataset_id, coalesce(s.name, ''), d.name, d.metadata, d.system "
        "FROM document d "
        "LEFT JOIN dataset s ON s.id = d.dataset_id WHERE d.id > ? ORDER BY d.id LIMIT ?",
    ):
        stored: dict[int, set[bytes]] = {row[0]: set() for row in page}
        for document, pair in session.driver.execute(
            "SELECT document_id, pair FROM document_meta INDEXED BY document_meta_document "
            "WHERE document_id BETWEEN ? AND ?"
            if "document_meta_document" in _indexes(session.driver, "document_meta")
            else "SELECT document_id, pair FROM document_meta WHERE document_id BETWEEN ? AND ?",
            [page[0][0], page[-1][0]],
        ):
            stored.setdefault(document, set()).add(bytes(pair))
        for pk, owner, dataset, name, text, system in page:
            if dataset_ids is not None and dataset not in dataset_ids:
                continue
            try:
                pairs = entries_of(
                    metadata_from_plain(json.loads(text)), _system(system).expires_at
                )
            except (ValueError, AttributeError, TypeError):
                yield owner, pk, dataset, name, None
                continue
            if pairs != stored[pk]:
                yield owner, pk, dataset, name, pairs


def _system(text: str) -> SystemData:
    """What is kept of a document; nothing where it is damaged, which other checks find."""
    try:
        return read_system(text)[1]
    except DAMAGE:
        return SystemData()


def _pairs(database: SqliteDatabase, dataset_ids: Collection[str], tally: FindingCollector) -> None:
    with database.snapshot() as session:
        for _, _, dataset, name, pairs in bad_pairs(session, dataset_ids):
            check = CHECKS["metadata.unreadable" if pairs is None else "metadata.pairs"]
            tally.add(check, f"dataset {dataset!r}", name, dataset_id=dataset)


def bad_vectors(session: SqliteSession) -> Iterator[tuple[int, str]]:
    """Ids of vectors that are of another width than their space or not of unit length, with
    their dataset."""
    for page in pages_of(
        session,
        "SELECT w.id, s.name, p.dimension, w.data FROM vector w JOIN space p "
        "ON p.id = w.space_id JOIN dataset s ON s.id = p.dataset_id "
        "WHERE w.id > ? AND p.kind <> 'sparse' AND (length(w.data) <> 0 OR EXISTS "
        "(SELECT 1 FROM chunk c WHERE c.vector_id = w.id) OR EXISTS "
        "(SELECT 1 FROM layer l WHERE l.vector_id = w.id)) ORDER BY w.id LIMIT ?",
    ):
        for pk, dataset, width, data in page:
            if not isinstance(data, bytes) or len(data) != 4 * width:
                yield pk, dataset
                continue
            row = np.frombuffer(data, "<f4").astype(np.float64)
            with np.errstate(over="ignore", invalid="ignore"):
                unit = abs(float(np.sqrt(row @ row)) - 1.0) <= _UNIT_TOLERANCE
            if not unit:
                yield pk, dataset


def bad_sparse(session: SqliteSession) -> Iterator[tuple[int, str]]:
    """Ids of sparse vectors that cannot be read, with their dataset."""
    for page in pages_of(
        session,
        "SELECT w.id, s.name, w.data FROM vector w JOIN space p "
        "ON p.id = w.space_id JOIN dataset s ON s.id = p.dataset_id "
        "WHERE w.id > ? AND p.kind = 'sparse' ORDER BY w.id LIMIT ?",
    ):
        for pk, dataset, data in page:
            try:
                SparseVector.from_bytes(data)
            except (ValueError, ValidationError):
                yield pk, dataset


def _vectors(
    name: str,
    bad: Callable[[SqliteSession], Iterator[tuple[int, str]]],
    database: SqliteDatabase,
    dataset_ids: Collection[str],
    tally: FindingCollector,
) -> None:
    with database.reading() as session:
        for pk, dataset in bad(session):
            if dataset in dataset_ids:
                place = f"dataset {dataset!r}"
                tally.add(CHECKS[name], place, f"vector {pk}", dataset_id=dataset)
