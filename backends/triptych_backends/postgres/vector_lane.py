"""Nearest vectors: half-precision rows in the server find candidates, the truth's score them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from triptych.errors import ModelMismatchError, ValidationError
from triptych_backends.index import Field, Scored
from triptych_backends.index.vector_scan import exact
from triptych_backends.postgres.binary import halfvec_text
from triptych_backends.postgres.predicates import Predicates
from triptych_backends.postgres.ranking import NAMES, best, best_of_owner, scored
from triptych_backends.postgres.session import PostgresSession
from triptych_backends.postgres.vector_indexes import LEAST
from triptych_backends.sql.transaction import LAYER_OF_FIELD, Dataset
from triptych_backends.sql.vectors import decode_vectors

_CHUNKS = "SELECT id AS key, document_id AS owner, position, vector_id FROM chunk"
_LAYERS = (
    "SELECT revision AS key, id AS owner, -1 AS position, vector_id FROM layer "
    "WHERE layer = %(layer)s"
)

FEW_OWNERS = 5_000
"""Where so few owners may pass, their vectors are all looked at."""

LEAST_EFFORT = 200
"""Candidates that an index keeps while it walks (`hnsw.ef_search`)."""

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
    *,
    wanted: Callable[[], None],
) -> list[Scored]:
    """The units whose vectors have the greatest dot product with ``vector``.

    Documents are found by their best chunk. Datasets of another embedding space have none.
    ``wanted`` is called where an index would have helped.

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
        "layer": str(LAYER_OF_FIELD.get(unit, "")),
        "spaces": [each.id for each in spaces],
        "query": halfvec_text(query / np.float32(norm) if norm else query),
        "limit": limit,
        "margin": _margin(len(query)),
    }
    homes = {each.id: each.dataset for each in spaces}
    if predicates.greatest > FEW_OWNERS and any(each.is_indexed for each in spaces):
        rows = _probed(session, unit, spaces, len(query), parameters, predicates)
        found = _rescored(session, unit, rows, query, names, homes, limit, where)
        if len(found) == limit:
            return found
        # An index gives up after so many vectors that do not pass.
    elif any(each.vectors >= LEAST and not each.is_indexed for each in spaces):
        wanted()
    near = None if predicates.selection else _nearest(session, unit, parameters)
    rows = _scanned(session, unit, parameters, predicates) if near is None else near
    return _rescored(session, unit, rows, query, names, homes, limit, where)


@attrs.frozen
class _Space:
    """An embedding space of one dataset; ``vectors`` is about how many it has."""

    id: int
    dataset: int
    is_indexed: bool
    vectors: int


def _spaces(
    session: PostgresSession, datasets: Sequence[Dataset], query: NDArray[np.float32]
) -> list[_Space]:
    """The embedding spaces that are searched."""
    rows = session.text(
        "SELECT s.id, s.dataset_id, s.dimension, EXISTS (SELECT FROM pg_index i WHERE "
        "i.indexrelid = to_regclass('search_vector_hnsw_' || s.id) AND i.indisvalid), "
        "coalesce((SELECT units FROM search_stat t WHERE t.dataset_id = s.dataset_id "
        "AND t.field = 0), 0) FROM space s "
        "JOIN dataset d ON d.id = s.dataset_id AND d.embed_sig = s.sig AND s.kind = 'dense' "
        "WHERE d.id = ANY(%s::bigint[])",
        ([each.id for each in datasets],),
    )
    names = {each.id: each.name for each in datasets}
    for _, dataset, width, _, _ in rows:
        if width != len(query):
            raise ModelMismatchError(
                f"the query vector is {len(query)} wide, the vectors of dataset "
                f"{names[dataset]!r} are {width}: embed the query with the dataset's model"
            )
    return [_Space(space, dataset, is_there, n) for space, dataset, _, is_there, n in rows]


def _margin(width: int) -> float:
    """How far apart two approximate scores are at least whose exact ones are in the same order.

    For vectors of length 1. Both sides are rounded to half precision, and their products summed in
    single precision.
    """
    error = 2 * (_ROUNDING + _TINY * math.sqrt(width)) + _SINGLE * width
    return 2.1 * error


def _probed(
    session: PostgresSession,
    unit: Field,
    spaces: Sequence[_Space],
    width: int,
    parameters: dict[str, Any],
    predicates: Predicates,
) -> list[tuple[Any, ...]]:
    """The nearest units as the indexes find them, a few more than are wanted; perhaps too few."""
    reach = parameters["limit"] * (8 if unit == "document" else 2) + 16
    # Only a walk through the index gives an order without sorting. The statements are never
    # prepared: a plan that was kept would not look at these settings.
    session.text(
        "SELECT set_config('hnsw.ef_search', %s, true), "
        "set_config('hnsw.iterative_scan', 'relaxed_order', true), "
        "set_config('enable_sort', 'off', true), set_config('enable_seqscan', 'off', true)",
        (str(min(max(reach, LEAST_EFFORT), 1_000)),),
    )
    found: list[tuple[Any, ...]] = []
    for space in spaces:
        # The index's own expression and condition, with the numbers written out.
        near = f"v.embedding::halfvec({width}) <#> %(query)s::halfvec({width})"
        found += session.text(
            "SELECT c.key, c.owner, c.position, v.space_id, v.id FROM search_vector v "
            f"{_units_of(unit, predicates)} WHERE v.space_id = {space.id} "
            f"{_selected(predicates)} ORDER BY {near} LIMIT %(reach)s",
            {**parameters, "reach": reach},
            prepare=False,
        )
    session.text(
        "SELECT set_config('enable_sort', 'on', true), set_config('enable_seqscan', 'on', true)"
    )
    return found


def _units(unit: Field) -> str:
    return _LAYERS if unit in LAYER_OF_FIELD else _CHUNKS


def _units_of(unit: Field, predicates: Predicates) -> str:
    """The units that have a vector ``v``, as ``c``."""
    headed = "JOIN search_unit u ON u.key = c.key" if predicates.headed else ""
    return f"JOIN ({_units(unit)}) c ON c.vector_id = v.id {headed}"


def _selected(predicates: Predicates) -> str:
    return f"AND {predicates.selection}" if predicates.selection else ""


def _nearest(
    session: PostgresSession, unit: Field, parameters: dict[str, Any]
) -> list[tuple[Any, ...]] | None:
    """What `_scanned` finds, where nothing is filtered: the vectors first, then their units.

    None where the vectors nearest to the query have too few units of this kind.
    """
    reach = parameters["limit"] * (8 if unit == "document" else 2) + 64
    rows = session.text(
        "WITH near AS MATERIALIZED (SELECT v.id, v.space_id, -(v.embedding <#> %(query)s::halfvec) "
        "AS score FROM search_vector v WHERE v.space_id = ANY(%(spaces)s::bigint[]) "
        "ORDER BY score DESC LIMIT %(reach)s) "
        "SELECT c.key, c.owner, c.position, n.space_id, n.id, n.score, "
        "(SELECT CASE WHEN count(*) < %(reach)s THEN '-Infinity' ELSE min(score) END FROM near) "
        f"FROM near n JOIN ({_units(unit)}) c ON c.vector_id = n.id",
        {**parameters, "reach": reach},
        prepare=False,
    )
    peaks: dict[int, float] = {}
    for row in rows:
        group = row[1] if unit == "document" else row[0]
        peaks[group] = max(peaks.get(group, -math.inf), row[5])
    seen_to = rows[0][6] if rows else math.inf
    if seen_to == -math.inf:
        return rows
    if len(peaks) < parameters["limit"]:
        return None
    # A document's best chunk may be another one than it seems, and be as far off again.
    bar = sorted(peaks.values(), reverse=True)[parameters["limit"] - 1] - 2 * parameters["margin"]
    return [row for row in rows if row[5] >= bar] if bar > seen_to else None


def _scanned(
    session: PostgresSession, unit: Field, parameters: dict[str, Any], predicates: Predicates
) -> list[tuple[Any, ...]]:
    """All units whose exact scores may be among the best. Every vector is looked at.

    No index serves this statement: those of `search_vector` are over a cast to a width.
    """
    found = (
        "WITH found AS MATERIALIZED (SELECT c.key, c.owner, c.position, v.space_id, v.id AS "
        "vector_id, -(v.embedding <#> %(query)s::halfvec) AS score FROM search_vector v "
        f"{_units_of(unit, predicates)} WHERE v.space_id = ANY(%(spaces)s::bigint[]) "
        f"{_selected(predicates)})"
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
    found = scored(
        [
            (key, owner, position, spaces[space], scores[vector], names[owner])
            for key, owner, position, space, vector, *_ in rows
        ],
        datasets,
    )
    return best(best_of_owner(found) if unit == "document" else found, limit)
