"""Sparse vectors: the server finds candidates by products in single precision, the truth's score
them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from triptych.records import SparseVector
from triptych_backends.index import Field, Scored
from triptych_backends.postgres.binary import sparsevec_text
from triptych_backends.postgres.predicates import Predicates
from triptych_backends.postgres.ranking import NAMES, best, best_of_owner, scored
from triptych_backends.postgres.session import PostgresSession
from triptych_backends.sql.transaction import Dataset
from triptych_backends.sql.vectors import decode_sparse

_SINGLE = 2.0**-22
"""The error of a sum in single precision, relative to it, for each of its terms."""


def find_by_sparse_vector(
    session: PostgresSession,
    unit: Field,
    datasets: Sequence[Dataset],
    query: SparseVector,
    encoder: str,
    limit: int,
    predicates: Predicates,
    where: str,
) -> list[Scored]:
    """The chunks that share a term with ``query``, by dot product; documents by their best chunk.

    Datasets whose sparse vectors are of another encoder have none.
    """
    names = {each.id: each.name for each in datasets if each.sparse_sig == encoder}
    if limit <= 0 or not len(query) or not names:
        return []
    error = _SINGLE * len(query)
    floor = 0.0
    while True:
        rows = _scanned(session, unit, names, query, encoder, limit, predicates, error, floor)
        found = _rescored(session, unit, rows, query, names, where)
        ranked = best(best_of_owner(found) if unit == "document" else found, limit)
        if len(ranked) < limit:
            return ranked
        # Terms that fold into one make a candidate look better: the bar may be lower than it was.
        least = ranked[-1].score * (1 - 2 * error) - 1e-6
        lowest = min(row[5] for row in rows)
        if lowest <= least or floor:
            return ranked
        floor = max(least, 1e-30)


def _scanned(
    session: PostgresSession,
    unit: Field,
    datasets: Mapping[int, str],
    query: SparseVector,
    encoder: str,
    limit: int,
    predicates: Predicates,
    error: float,
    floor: float,
) -> list[tuple[Any, ...]]:
    """Key, owner, position, dataset, vector, and a score that the exact one does not exceed."""
    headed = "JOIN search_unit u ON u.key = c.id" if predicates.headed else ""
    selection = f"AND {predicates.selection}" if predicates.selection else ""
    group = "owner" if unit == "document" else "key"
    return session.text(
        "WITH found AS MATERIALIZED (SELECT c.id AS key, c.document_id AS owner, c.position, "
        "d.dataset_id, v.id AS vector_id, -(v.weights <#> %(query)s::sparsevec) AS score "
        "FROM space s JOIN search_sparse v ON v.space_id = s.id "
        "JOIN vector t ON t.id = v.id "
        "JOIN vector_use x ON x.vector_id = v.id "
        "JOIN chunk c ON c.document_id = x.owner AND c.input_sig = t.digest "
        "JOIN document d ON d.id = c.document_id AND d.dataset_id = s.dataset_id "
        f"{headed} WHERE s.dataset_id = ANY(%(datasets)s::bigint[]) "
        "AND s.kind = 'sparse' AND s.sig = %(encoder)s "
        "AND NOT EXISTS (SELECT FROM waiting p WHERE p.document_id = c.document_id) "
        f"{selection}), "
        f"peaks AS (SELECT {group} AS g, max(score) AS peak FROM found WHERE score > 0 "
        f"GROUP BY {group}), "
        "best AS (SELECT peak FROM peaks ORDER BY peak DESC LIMIT %(limit)s) "
        "SELECT f.key, f.owner, f.position, f.dataset_id, f.vector_id, f.score FROM found f "
        "WHERE f.score > 0 AND f.score >= CASE WHEN %(floor)s::float8 > 0 THEN %(floor)s::float8 "
        "ELSE (SELECT min(peak) FROM best) * (1 - 2 * %(error)s::float8) - 0.000002 END",
        {
            **predicates.parameters,
            "datasets": list(datasets),
            "encoder": encoder,
            "query": sparsevec_text(query),
            "limit": limit,
            "error": error,
            "floor": floor,
        },
        prepare=False,
    )


def _rescored(
    session: PostgresSession,
    unit: Field,
    rows: Sequence[tuple[Any, ...]],
    query: SparseVector,
    datasets: Mapping[int, str],
    where: str,
) -> list[Scored]:
    vectors = session.text(
        "SELECT id, data FROM vector WHERE id = ANY(%s::bigint[])",
        (list({row[4] for row in rows}),),
    )
    scores = {pk: _product(query, decode_sparse(data, where)) for pk, data in vectors}
    names = dict(
        session.text(
            f"SELECT id, name FROM ({NAMES[unit]}) n WHERE id = ANY(%s::bigint[])",
            (list({row[1] for row in rows}),),
        )
    )
    return scored(
        [
            (key, owner, position, dataset, scores[vector], names[owner])
            for key, owner, position, dataset, vector, _ in rows
            if scores[vector] > 0
        ],
        datasets,
    )


def _product(left: SparseVector, right: SparseVector) -> float:
    """The dot product, summed in the order of the terms: the same wherever it is computed."""
    _, mine, theirs = np.intersect1d(
        left.indices, right.indices, assume_unique=True, return_indices=True
    )
    products = left.values[mine].astype(np.float64) * right.values[theirs].astype(np.float64)
    return float(np.cumsum(products)[-1]) if len(products) else 0.0
