"""Vectors: the server finds candidates by rounded rows or sums, the truth's vectors score them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from triptych.errors import ModelMismatchError, ValidationError
from triptych.records import SparseVector
from triptych_backends.index import Field, Scored, exact
from triptych_backends.sql import LAYER_OF_FIELD, decode_further, decode_vectors
from triptych_postgres.binary import halfvec_text, sparsevec_text
from triptych_postgres.lanes import NAMES, Asked, best, best_of_owner, scored
from triptych_postgres.vector_indexes import LEAST

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
    asked: Asked, vector: NDArray[np.float32], space: str, *, wanted: Callable[[], None]
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
    spaces = _spaces(asked, space, query)
    if asked.limit <= 0 or not spaces:
        return []
    norm = float(np.linalg.norm(query))
    parameters = {
        **asked.predicates.parameters,
        "layer": str(LAYER_OF_FIELD.get(asked.unit, "")),
        "spaces": [each.id for each in spaces],
        "query": halfvec_text(query / np.float32(norm) if norm else query),
        "limit": asked.limit,
        "margin": _margin(len(query)),
    }
    homes = {each.id: each.dataset for each in spaces}
    if asked.predicates.greatest > FEW_OWNERS and any(each.is_indexed for each in spaces):
        rows = _probed(asked, spaces, len(query), parameters)
        found = _rescored(asked, rows, query, homes)
        if len(found) == asked.limit:
            return found
        # An index gives up after so many vectors that do not pass.
        asked.session.text(
            "SELECT set_config('enable_sort', 'on', true), set_config('enable_seqscan', 'on', true)"
        )
    elif any(each.vectors >= LEAST and not each.is_indexed for each in spaces):
        wanted()
    near = None if asked.predicates.selection else _nearest(asked, parameters)
    rows = _scanned(asked, parameters) if near is None else near
    return _rescored(asked, rows, query, homes)


@attrs.frozen
class _Space:
    """An embedding space of one dataset; ``vectors`` is about how many it has."""

    id: int
    dataset: int
    is_indexed: bool
    vectors: int


def _spaces(asked: Asked, space: str, query: NDArray[np.float32]) -> list[_Space]:
    """The embedding spaces that are searched; an index is walked by all that follows."""
    rows = asked.session.text(
        "SELECT s.id, s.dataset_id, s.dimension, i.there, "
        "coalesce((SELECT units FROM search_stat t WHERE t.dataset_id = s.dataset_id "
        # Only a walk through the index gives an order without sorting.
        "AND t.field = 0), 0), CASE WHEN i.there AND %s THEN concat("
        "set_config('hnsw.ef_search', %s, true), "
        "set_config('hnsw.iterative_scan', 'relaxed_order', true), "
        "set_config('enable_sort', 'off', true), set_config('enable_seqscan', 'off', true)) END "
        "FROM space s JOIN dataset d ON d.id = s.dataset_id AND d.embed_sig = s.sig "
        "AND s.kind = 'dense', LATERAL (SELECT EXISTS (SELECT FROM pg_index x WHERE x.indexrelid "
        "= to_regclass('search_vector_hnsw_' || s.id) AND x.indisvalid) AS there) i "
        "WHERE d.id = ANY(%s::bigint[])",
        (
            asked.predicates.greatest > FEW_OWNERS,
            str(min(max(_reach(asked), LEAST_EFFORT), 1_000)),
            [each.id for each in asked.datasets if each.embed_sig == space],
        ),
    )
    for _, dataset, width, *_ in rows:
        if width != len(query):
            raise ModelMismatchError(
                f"the query vector is {len(query)} wide, the vectors of dataset "
                f"{asked.names[dataset]!r} are {width}: embed the query with the dataset's model"
            )
    return [_Space(pk, dataset, is_there, n) for pk, dataset, _, is_there, n, _ in rows]


def _margin(width: int) -> float:
    """How far apart two approximate scores are at least whose exact ones are in the same order.

    For vectors of length 1. Both sides are rounded to half precision, and their products summed in
    single precision.
    """
    error = 2 * (_ROUNDING + _TINY * math.sqrt(width)) + _SINGLE * width
    return 2.1 * error


def _probed(
    asked: Asked, spaces: Sequence[_Space], width: int, parameters: dict[str, Any]
) -> list[tuple[Any, ...]]:
    """The nearest units as the indexes find them, a few more than are wanted; perhaps too few."""
    is_best = "" if asked.unit == "document" else _IS_BEST
    found: list[tuple[Any, ...]] = []
    for space in spaces:
        # The index's own expression and condition, with the numbers written out.
        near = f"v.embedding::halfvec({width}) <#> %(query)s::halfvec({width})"
        found += asked.session.text(
            f"WITH near AS MATERIALIZED (SELECT c.key, c.owner, c.position, v.space_id, v.id, "
            f"-({near}) AS score FROM search_vector v {_units_of(asked)} "
            f"WHERE v.space_id = {space.id} {_selected(asked)} ORDER BY {near} LIMIT %(reach)s) "
            f"SELECT {_FOUND} FROM near f {_truth_of(asked)} {is_best}",
            {**parameters, "reach": _reach(asked)},
            prepare=False,  # a plan that was kept would not look at the settings
        )
    return found


# Of the others, none can be among the best: their vectors are not read.
_IS_BEST = (
    "WHERE f.score >= coalesce((SELECT score FROM near ORDER BY score DESC "
    "OFFSET %(limit)s - 1 LIMIT 1), '-Infinity') - %(margin)s"
)


def _reach(asked: Asked) -> int:
    """How many units are asked of an index."""
    return asked.limit * (8 if asked.unit == "document" else 2) + 16


_FOUND = "f.key, f.owner, f.position, f.space_id, f.id, w.data, n.name"
"""Columns of what a lane finds: ``id`` is the vector's."""


def _truth_of(asked: Asked) -> str:
    """The truth's vector ``w`` of the few units ``f``, and the names ``n`` of their owners."""
    return f"JOIN vector w ON w.id = f.id JOIN ({NAMES[asked.unit]}) n ON n.id = f.owner"


def _units(unit: Field) -> str:
    return _LAYERS if unit in LAYER_OF_FIELD else _CHUNKS


def _units_of(asked: Asked) -> str:
    """The units that have a vector ``v``, as ``c``."""
    headed = "JOIN search_unit u ON u.key = c.key" if asked.predicates.headed else ""
    return f"JOIN ({_units(asked.unit)}) c ON c.vector_id = v.id {headed}"


def _selected(asked: Asked) -> str:
    return f"AND {asked.predicates.selection}" if asked.predicates.selection else ""


def _nearest(asked: Asked, parameters: dict[str, Any]) -> list[tuple[Any, ...]] | None:
    """What `_scanned` finds, where nothing is filtered: the vectors first, then their units.

    None where the vectors nearest to the query have too few units of this kind.
    """
    reach = asked.limit * (8 if asked.unit == "document" else 2) + 64
    rows = asked.session.text(
        "WITH near AS MATERIALIZED (SELECT v.id, v.space_id, -(v.embedding <#> %(query)s::halfvec) "
        "AS score FROM search_vector v WHERE v.space_id = ANY(%(spaces)s::bigint[]) "
        "ORDER BY score DESC LIMIT %(reach)s) "
        f"SELECT {_FOUND}, f.score, "
        "(SELECT CASE WHEN count(*) < %(reach)s THEN '-Infinity' ELSE min(score) END FROM near) "
        "FROM (SELECT c.key, c.owner, c.position, r.space_id, r.id, r.score FROM near r "
        f"JOIN ({_units(asked.unit)}) c ON c.vector_id = r.id) f {_truth_of(asked)}",
        {**parameters, "reach": reach},
        prepare=False,
    )
    peaks: dict[int, float] = {}
    for row in rows:
        group = row[1] if asked.unit == "document" else row[0]
        peaks[group] = max(peaks.get(group, -math.inf), row[7])
    seen_to = rows[0][8] if rows else math.inf
    if seen_to == -math.inf:
        return rows
    if len(peaks) < asked.limit:
        return None
    # A document's best chunk may be another one than it seems, and be as far off again.
    bar = sorted(peaks.values(), reverse=True)[asked.limit - 1] - 2 * parameters["margin"]
    return [row for row in rows if row[7] >= bar] if bar > seen_to else None


def _scanned(asked: Asked, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
    """All units whose exact scores may be among the best. Every vector is looked at.

    No index serves this statement: those of `search_vector` are over a cast to a width.
    """
    found = (
        "WITH found AS MATERIALIZED (SELECT c.key, c.owner, c.position, v.space_id, v.id AS "
        "vector_id, -(v.embedding <#> %(query)s::halfvec) AS score FROM search_vector v "
        f"{_units_of(asked)} WHERE v.space_id = ANY(%(spaces)s::bigint[]) "
        f"{_selected(asked)})"
    )
    if asked.unit != "document":
        rest = (
            ", best AS (SELECT score FROM found ORDER BY score DESC LIMIT %(limit)s) "
            "SELECT key, owner, position, space_id, vector_id FROM found "
            "WHERE score >= (SELECT min(score) FROM best) - %(margin)s"
        )
    else:
        rest = (
            ", peaks AS (SELECT owner, max(score) AS peak FROM found GROUP BY owner), "
            "best AS (SELECT peak FROM peaks ORDER BY peak DESC LIMIT %(limit)s) "
            "SELECT f.key, f.owner, f.position, f.space_id, f.vector_id FROM found f "
            "JOIN peaks p ON p.owner = f.owner WHERE f.score >= p.peak - %(margin)s "
            "AND p.peak >= (SELECT min(peak) FROM best) - %(margin)s"
        )
    rows = asked.session.text(found + rest, parameters, prepare=False)
    # In one statement all vectors would be read: how few rows there are is not known before.
    stored, names = _vectors_and_names(asked, rows)
    data = dict(stored)
    return [(*row, data[row[4]], names[row[1]]) for row in rows]


def _vectors_and_names(
    asked: Asked, rows: Sequence[tuple[Any, ...]]
) -> tuple[list[tuple[Any, ...]], dict[int, str]]:
    """The truth's vectors that rows of key, owner, position, … and vector name, and the names of
    their owners by id."""
    stored = asked.session.text(
        "SELECT id, data FROM vector WHERE id = ANY(%s::bigint[])",
        (list({row[4] for row in rows}),),
    )
    owners = asked.session.text(
        f"SELECT id, name FROM ({NAMES[asked.unit]}) n WHERE id = ANY(%s::bigint[])",
        (list({row[1] for row in rows}),),
    )
    return stored, dict(owners)


def _rescored(
    asked: Asked,
    rows: Sequence[tuple[Any, ...]],
    query: NDArray[np.float32],
    spaces: Mapping[int, int],
) -> list[Scored]:
    """The best of ``rows`` by the truth's vectors."""
    if not rows:
        return []
    known = decode_vectors(list({row[4]: row[5] for row in rows}.items()), asked.where)
    scores = dict(zip(known.keys, exact(query, known.vectors).tolist(), strict=True))
    found = scored(
        [
            (key, owner, position, spaces[space], scores[vector], name)
            for key, owner, position, space, vector, _, name, *_ in rows
        ],
        asked.names,
    )
    return best(best_of_owner(found) if asked.unit == "document" else found, asked.limit)


_SINGLE_SUM = 2.0**-22
"""The error of a sum in single precision, relative to it, for each of its terms."""


def find_by_sparse_vector(asked: Asked, query: SparseVector, encoder: str) -> list[Scored]:
    """The chunks that share a term with ``query``, by dot product; documents by their best chunk.

    Datasets whose sparse vectors are of another encoder have none.
    """
    datasets = [each for each in asked.datasets if each.sparse_sig == encoder]
    asked, limit = attrs.evolve(asked, datasets=datasets), asked.limit
    if limit <= 0 or not len(query) or not datasets:
        return []
    error = _SINGLE_SUM * len(query)
    floor = 0.0
    while True:
        rows = _scanned_sparse(asked, query, encoder, error, floor)
        found = _rescored_sparse(asked, rows, query)
        ranked = best(best_of_owner(found) if asked.unit == "document" else found, limit)
        if len(ranked) < limit:
            return ranked
        # Terms that fold into one make a candidate look better: the bar may be lower than it was.
        least = ranked[-1].score * (1 - 2 * error) - 1e-6
        lowest = min(row[5] for row in rows)
        if lowest <= least or floor:
            return ranked
        floor = max(least, 1e-30)


def _scanned_sparse(
    asked: Asked, query: SparseVector, encoder: str, error: float, floor: float
) -> list[tuple[Any, ...]]:
    """Key, owner, position, dataset, vector, and a score that the exact one does not exceed."""
    headed = "JOIN search_unit u ON u.key = c.id" if asked.predicates.headed else ""
    group = "owner" if asked.unit == "document" else "key"
    return asked.session.text(
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
        f"{_selected(asked)}), "
        f"peaks AS (SELECT {group} AS g, max(score) AS peak FROM found WHERE score > 0 "
        f"GROUP BY {group}), "
        "best AS (SELECT peak FROM peaks ORDER BY peak DESC LIMIT %(limit)s) "
        "SELECT f.key, f.owner, f.position, f.dataset_id, f.vector_id, f.score FROM found f "
        "WHERE f.score > 0 AND f.score >= CASE WHEN %(floor)s::float8 > 0 THEN %(floor)s::float8 "
        "ELSE (SELECT min(peak) FROM best) * (1 - 2 * %(error)s::float8) - 0.000002 END",
        {
            **asked.predicates.parameters,
            "datasets": asked.ids,
            "encoder": encoder,
            "query": sparsevec_text(query),
            "limit": asked.limit,
            "error": error,
            "floor": floor,
        },
        prepare=False,
    )


def _rescored_sparse(
    asked: Asked, rows: Sequence[tuple[Any, ...]], query: SparseVector
) -> list[Scored]:
    stored, names = _vectors_and_names(asked, rows)
    scores = {
        pk: _product(query, decode_further("sparse", data, asked.where)) for pk, data in stored
    }
    return scored(
        [
            (key, owner, position, dataset, scores[vector], names[owner])
            for key, owner, position, dataset, vector, _ in rows
            if scores[vector] > 0
        ],
        asked.names,
    )


def _product(left: SparseVector, right: SparseVector) -> float:
    """The dot product, summed in the order of the terms: the same wherever it is computed."""
    _, mine, theirs = np.intersect1d(
        left.indices, right.indices, assume_unique=True, return_indices=True
    )
    products = left.values[mine].astype(np.float64) * right.values[theirs].astype(np.float64)
    return float(np.cumsum(products)[-1]) if len(products) else 0.0
