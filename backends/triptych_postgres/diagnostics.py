"""Checks of the server's search tables against the stored data."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from triptych.diagnostics import Check, FindingCollector, answering
from triptych.errors import StoreError
from triptych.records import Finding, HealthCheck
from triptych_backends.index import LocalIndex, check_index, examine_index
from triptych_backends.sql import LAYER_OF_FIELD, Dataset, find_datasets
from triptych_postgres.database import PostgresDatabase
from triptych_postgres.postings import decode_shared
from triptych_postgres.search_tables import are_made, empty_words
from triptych_postgres.session import PostgresSession

_REPAIR = "the tables that searches read are filled again from the documents"
_MISSING, _SURPLUS, _STATISTICS, _VECTORS = (
    Check(
        "index.missing",
        "the search tables lack stored data",
        "searches do not find it",
        repair=_REPAIR,
    ),
    Check(
        "index.surplus",
        "the search tables have data that is not stored",
        "scores are counted over what is gone",
        repair=_REPAIR,
    ),
    Check(
        "index.words",
        "the search tables count other units or words than they hold",
        "scores are not those of BM25",
        repair=_REPAIR,
    ),
    Check(
        "index.vectors",
        "the search tables lack vectors that are stored",
        "vector searches do not find their texts",
        repair=_REPAIR,
    ),
)

# The kind (`FIELD_CODES`) and the key of each unit, and what it is called.
_TRUTH = (
    "SELECT 0 AS field, c.id AS key, d.name FROM chunk c JOIN document d ON d.id = c.document_id "
    "WHERE d.dataset_id = %(dataset)s UNION ALL "
    "SELECT 1, revision, name FROM document WHERE dataset_id = %(dataset)s UNION ALL "
    f"SELECT CASE layer WHEN '{LAYER_OF_FIELD['abstract']}' THEN 2 ELSE 3 END, revision, doc_name "
    "FROM layer WHERE dataset_id = %(dataset)s"
)
_DATASETS = "SELECT name FROM dataset WHERE live ORDER BY name"
_HELD = "SELECT field, key FROM search_unit WHERE dataset_id = %(dataset)s"
_LACKING = (
    f"SELECT count(*), (array_agg(DISTINCT name))[:3] FROM ({_TRUTH}) t "
    f"WHERE NOT EXISTS (SELECT FROM ({_HELD}) u WHERE u.key = t.key AND u.field = t.field)"
)
_LEFT = (
    f"SELECT count(*) FROM ({_HELD}) u "
    f"WHERE NOT EXISTS (SELECT FROM ({_TRUTH}) t WHERE u.key = t.key AND u.field = t.field)"
)
_MISCOUNTED = (
    "SELECT (SELECT count(*) FROM (SELECT s.field, s.units, s.length FROM search_stat s "
    "WHERE s.dataset_id = %(dataset)s AND s.units > 0 EXCEPT SELECT field, count(*), sum(length) "
    "FROM search_unit WHERE dataset_id = %(dataset)s GROUP BY field) x) + (SELECT count(*) FROM "
    "(SELECT t.id, sum(p.units) AS units FROM search_term t JOIN (SELECT term, units FROM "
    "search_posting UNION ALL SELECT * FROM unnest(%(terms)s::int[], %(signs)s::int[])) p "
    "ON p.term = t.id "
    "WHERE t.dataset_id = %(dataset)s GROUP BY t.id HAVING sum(p.units) <> 0) t FULL JOIN "
    "(SELECT term AS id, count(*) AS units FROM search_unit, unnest(terms) AS term "
    "WHERE dataset_id = %(dataset)s GROUP BY term) u USING (id) "
    "WHERE t.units IS DISTINCT FROM u.units)"
)
_UNSEEN = (
    "SELECT count(*) FROM vector v JOIN space s ON s.id = v.space_id "
    "WHERE s.dataset_id = %(dataset)s AND (EXISTS (SELECT FROM chunk c WHERE c.vector_id = v.id) "
    "OR EXISTS (SELECT FROM layer l WHERE l.vector_id = v.id)) "
    "AND NOT EXISTS (SELECT FROM search_vector h WHERE h.id = v.id)"
)


class PostgresDiagnostics:
    """`Diagnostics` of a store on a server, and of the index of this process, if it has one."""

    def __init__(self, database: PostgresDatabase, index: LocalIndex | None) -> None:
        self._database = database
        self._index = index

    def check_health(self) -> Sequence[HealthCheck]:
        """See `Diagnostics.check_health`. Waits for another writer as long as a write would."""
        found = [_answers(self._database)]
        if self._index is not None and found[0].status != "failed":
            with self._database.reading() as session:
                datasets = [name for (name,) in session.text(_DATASETS)]
            # One in memory is of this process, and as new as its last search.
            found += [
                check_index(self._index, dataset, writes=True)
                for dataset in datasets
                if self._index.folder(dataset) is not None
            ]
        return found

    def check_integrity(self, dataset_ids: Collection[str]) -> Iterator[Finding]:
        """See `Diagnostics.check_integrity`; each dataset is seen at one moment."""
        findings: list[Finding] = []
        for name in dataset_ids:
            found = FindingCollector()
            with self._database.snapshot() as session:
                for dataset in find_datasets(session, [name]) if are_made(session) else ():
                    _examine(session, dataset, found)
            findings += found.findings()
            if self._index is not None:
                findings += examine_index(self._index, name)
        return iter(findings)

    def repair(self, checks: Collection[str], dataset_ids: Collection[str]) -> Sequence[str]:
        """See `Diagnostics.repair`."""
        if not any(name.startswith("index.") for name in checks):
            return []
        done = []
        for name in sorted(dataset_ids):
            if self._index is not None:
                self._index.drop(name)
                done.append(f"dropped the search index of dataset {name!r}")
            with self._database.writing() as tx:
                for dataset in find_datasets(tx, [name]) if are_made(tx) else ():
                    _empty(tx, dataset.id)
                    tx.reset_log(dataset.id)  # all that lives is taken up at the end
                    done.append(f"filled the search tables of dataset {name!r} again")
        return done


def _answers(database: PostgresDatabase) -> HealthCheck:
    with answering(f"the server of {database.where}"), database.reading() as session:
        ((server, pgvector),) = session.text(
            "SELECT current_setting('server_version'), "
            "(SELECT extversion FROM pg_extension WHERE extname = 'vector')"
        )
    extension = f", pgvector {pgvector}" if pgvector else ""
    about = f"{database.where} (PostgreSQL {server}{extension})"
    if database.read_only:
        return HealthCheck(name="store", status="ok", detail=f"{about} is open read-only")
    try:
        with database.writing("health"):  # its own turn: no dataset's writer is waited for
            pass
    except StoreError as error:
        return HealthCheck(name="store", status="failed", detail=str(error), error=error)
    return HealthCheck(name="store", status="ok", detail=f"{about} takes writes")


def _examine(session: PostgresSession, dataset: Dataset, found: FindingCollector) -> None:
    rows = session.text("SELECT block FROM search_recent WHERE dataset_id = %s", (dataset.id,))
    shared = decode_shared([row[0] for row in rows])
    signs = np.sign(shared.records["count"])
    bound = {"dataset": dataset.id, "terms": shared.terms.tolist(), "signs": signs.tolist()}

    def ask(sql: str) -> tuple[Any, ...]:
        return session.text(sql, bound, prepare=False)[0]

    missing, names = ask(_LACKING)
    where, place = dataset.name, f"dataset {dataset.name!r}"
    for at, name in enumerate(names or ()):
        count = 1 if at else missing - len(names) + 1
        found.add(_MISSING, place, name, dataset_id=where, count=count)
    for check, sql in ((_SURPLUS, _LEFT), (_STATISTICS, _MISCOUNTED), (_VECTORS, _UNSEEN)):
        (count,) = ask(sql)
        if count:
            found.add(check, place, dataset_id=where, count=count)


def _empty(session: PostgresSession, dataset: int) -> None:
    """Remove all that searches read of a dataset."""
    empty_words(session, dataset)
    for table in ("search_vector", "search_sparse"):
        session.text(
            f"DELETE FROM {table} WHERE space_id IN (SELECT id FROM space WHERE dataset_id = %s)",
            (dataset,),
        )
