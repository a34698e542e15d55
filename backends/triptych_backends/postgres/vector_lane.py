"""Nearest vectors: half-precision rows in the server find candidates, the truth's score them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triptych.errors import ModelMismatchError, ValidationError
from triptych_backends.index import Field, Scored
from triptych_backends.index.vector_scan import exact
from triptych_backends.postgres.binary import halfvec_text
from triptych_backends.postgres.predicates import Predicates
from triptych_backends.postgres.ranking import NAMES, best, best_of_owner, scored
from triptych_backends.postgres.session import PostgresSession
from triptych_backends.sql.transaction import LAYER_OF_FIELD, Dataset
from triptych_backends.sql.vectors import decode_vectors

__all__ = ["find_by_vector"]

# Of a set that waits for vectors none is served.
_CHUNKS = (
    "SELECT c.id AS key, c.document_id AS owner, c.position, c.vector_id FROM chunk c "
    "JOIN derivation g ON g.document_id = c.document_id WHERE g.embed_sig = %(space)s"
)
_LAYERS = (
    "SELECT revision AS key, id AS owner, -1 AS position, vector_id FROM layer "
    "WHERE layer = %(layer)s"
)

_ROUNDING = 2.0**-11  # of a number in half precision, relative to it
_TINY = 2.0**-25  # of one near zero
_SINGLE = 2.0**-23  # of a sum in single precision, for each of its terms


def find_by_vector(
    session: PostgresSession,
    unit: Field,
    datasets: Sequence[Dataset],
    vector: NDArray[np.float32],
    space: str,
    limit: int,
    predicates: Predicates,
    where: str,
) -> list[Scored]:
    """The units whose vectors have the greatest dot product with ``vector``.

    Documents are found by their best chunk. Datasets of another embedding space have none.

    Raises:
        ValidationError: ``vector`` is not one row of finite numbers.
        ModelMismatchError: it is not as wide as the datasets' vectors.
    """
    query = np.asarray(vector, np.float32)
    if query.ndim != 1 or not np.isfinite(query).all():
        raise ValidationError("a query vector must be one row of finite numbers")
    spaces = _spaces(session, [each for each in datasets if each.embed_sig == space], query)
    if limit <= 0 or not spaces:
        return []
    names = {each.id: each.name for each in datasets}
    norm = float(np.linalg.norm(query))
    parameters = {
        **predicates.parameters,
        "space": space,
        "layer": str(LAYER_OF_FIELD.get(unit, "")),
        "spaces": list(spaces),
        "query": halfvec_text(query / np.float32(norm) if norm else query),
        "limit": limit,
        "margin": _margin(len(query)),
    }
    rows = _scanned(session, unit, parameters, predicates)
    return _rescored(session, unit, rows, query, names, spaces, limit, where)


def _spaces(
    session: PostgresSession, datasets: Sequence[Dataset], query: NDArray[np.float32]
) -> dict[int, int]:
    """The dataset of each embedding space that is searched."""
    rows = session.text(
        "SELECT s.id, s.dataset_id, s.dimension FROM space s "
        "JOIN dataset d ON d.id = s.dataset_id AND d.embed_sig = s.embed_sig "
        "WHERE d.id = ANY(%s::bigint[])",
        ([each.id for each in datasets],),
    )
    names = {each.id: each.name for each in datasets}
    for _, dataset, width in rows:
        if width != len(query):
            raise ModelMismatchError(
                f"the query vector is {len(query)} wide, the vectors of dataset "
                f"{names[dataset]!r} are {width}: embed the query with the dataset's model"
            )
    return {space: dataset for space, dataset, _ in rows}


def _margin(width: int) -> float:
    """How far apart two approximate scores are at least whose exact ones are in the same order.

    For vectors of length 1. Both sides are rounded to half precision, and their products summed in
    single precision.
    """
    error = 2 * (_ROUNDING + _TINY * math.sqrt(width)) + _SINGLE * width
    return 2.1 * error


def _scanned(
    session: PostgresSession, unit: Field, parameters: dict[str, Any], predicates: Predicates
) -> list[tuple[Any, ...]]:
    """All units whose exact scores may be among the best. Every vector is looked at.

    No index serves this statement: those of `search_vector` are over a cast to a width.
    """
    units = _LAYERS if unit in LAYER_OF_FIELD else _CHUNKS
    headed = "JOIN search_unit u ON u.key = c.key" if predicates.headed else ""
    selection = f"AND {predicates.selection}" if predicates.selection else ""
    found = (
        "WITH found AS MATERIALIZED (SELECT c.key, c.owner, c.position, v.space_id, v.id AS "
        "vector_id, -(v.embedding <#> %(query)s::halfvec) AS score FROM search_vector v "
        f"JOIN ({units}) c ON c.vector_id = v.id {headed} "
        f"WHERE v.space_id = ANY(%(spaces)s::bigint[]) {selection})"
    )
    if unit != "document":
        return session.text(
            f"{found}, best AS (SELECT score FROM found ORDER BY score DESC LIMIT %(limit)s) "
            "SELECT key, owner, position, space_id, vector_id FROM found "
            "WHERE score >= (SELECT min(score) FROM best) - %(margin)s",
            parameters,
            prepare=False,
        )
    return session.text(
        f"{found}, peaks AS (SELECT owner, max(score) AS peak FROM found GROUP BY owner), "
        "best AS (SELECT peak FROM peaks ORDER BY peak DESC LIMIT %(limit)s) "
        "SELECT f.key, f.owner, f.position, f.space_id, f.vector_id FROM found f "
        "JOIN peaks p ON p.owner = f.owner WHERE f.score >= p.peak - %(margin)s "
        "AND p.peak >= (SELECT min(peak) FROM best) - %(margin)s",
        parameters,
        prepare=False,
    )


def _rescored(
    session: PostgresSession,
    unit: Field,
    rows: Sequence[tuple[Any, ...]],
    query: NDArray[np.float32],
    datasets: Mapping[int, str],
    spaces: Mapping[int, int],
    limit: int,
    where: str,
) -> list[Scored]:
    """The best of ``rows`` by the truth's vectors."""
    if not rows:
        return []
    stored = session.text(
        "SELECT id, data FROM vector WHERE id = ANY(%s::bigint[])",
        (list({row[4] for row in rows}),),
    )
    known = decode_vectors(stored, where)
    scores = dict(zip(known.keys, exact(query, known.vectors).tolist(), strict=True))
    owners = session.text(
        f"SELECT id, name FROM ({NAMES[unit]}) n WHERE id = ANY(%s::bigint[])",
        (list({row[1] for row in rows}),),
    )
    names = dict(owners)
    found = [
        scored((key, owner, position, spaces[space], scores[vector], names[owner]), datasets)
        for key, owner, position, space, vector in rows
    ]
    return best(best_of_owner(found) if unit == "document" else found, limit)
