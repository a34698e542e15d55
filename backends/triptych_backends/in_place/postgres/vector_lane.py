"""Nearest vectors of a table: by its own index, and one by one where that finds too few."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from triptych.errors import ModelMismatchError, ValidationError
from triptych.records import FilterTree
from triptych_backends.in_place.postgres.catalog import Pair, Table
from triptych_backends.in_place.postgres.columns import Column, identifier
from triptych_backends.in_place.postgres.conditions import Parameters
from triptych_backends.in_place.postgres.connections import Reader
from triptych_backends.in_place.postgres.rows import searched

_OPERATORS: Final = {"cosine": "<=>", "l2": "<->", "ip": "<#>"}
_EFFORT: Final = {
    # Filters act after the index: it goes on until enough rows pass, or it has seen so many.
    "hnsw.iterative_scan": "strict_order",
    "ivfflat.iterative_scan": "relaxed_order",
    "ivfflat.probes": "10",
}


def check_width(pair: Pair, table: Table, width: int) -> None:
    """Refuse a query vector of another width than the column's.

    Raises:
        ModelMismatchError: it is of another model.
    """
    column = pair.vector
    if column is not None and column.dimension and column.dimension != width:
        raise ModelMismatchError(
            f"the column {column.name!r} of {table.spec.table!r} is {column.type}, and the "
            f"embedder of the pipeline makes vectors of {width}: name under embedder the model "
            "that filled the column",
            stored=column.type,
            configured=str(width),
        )


def find_nearest(
    reader: Reader,
    table: Table,
    pair: Pair,
    vector: NDArray[np.float32],
    limit: int,
    tree: FilterTree | None,
) -> list[tuple[str, float]]:
    """The names of the rows whose vectors are nearest to ``vector``, and their cosines.

    There are min(limit, matches) of them.

    Raises:
        ModelMismatchError: it is not as wide as the column.
        ValidationError: it is not one row of finite numbers.
    """
    query = np.asarray(vector, np.float32)
    if query.ndim != 1 or not np.isfinite(query).all():
        raise ValidationError("a query vector must be one row of finite numbers")
    if pair.vector is None or limit <= 0:
        return []
    check_width(pair, table, len(query))
    reader.configure({**_EFFORT, "hnsw.ef_search": str(min(max(limit, 100), 1000))})
    found = _asked(reader, table, pair, query, limit, tree, exact=False)
    if len(found) < limit:
        # The index gave up, or all have been found already: then this is as quick.
        found = _asked(reader, table, pair, query, limit, tree, exact=True)
    return found


def _asked(
    reader: Reader,
    table: Table,
    pair: Pair,
    query: NDArray[np.float32],
    limit: int,
    tree: FilterTree | None,
    *,
    exact: bool,
) -> list[tuple[str, float]]:
    assert pair.vector is not None
    values = Parameters()
    type_ = "halfvec" if pair.vector.kind == "halfvec" else "vector"
    home = table.extension or "public"
    column = _vectors(pair.vector, home)
    wanted = sql.SQL("{}::{}").format(sql.Placeholder("query"), identifier(home, type_))
    values["query"] = "[" + ",".join(map(repr, query.tolist())) + "]"

    def distance(kind: str) -> sql.Composable:
        operator = sql.SQL("OPERATOR({}.").format(identifier(home)) + sql.SQL(
            _OPERATORS[kind] + ")"
        )
        return sql.SQL("({} {} {})").format(column, operator, wanted)

    order = distance(pair.distance)
    if exact:
        # An index serves no expression but its own.
        order = sql.SQL("{} + 0").format(order)
    width: sql.Composable = sql.SQL("true")
    if not pair.vector.dimension:
        width = sql.SQL("{}({}) = {}").format(
            identifier(home, "vector_dims"), column, values.add(len(query), "int4")
        )
        # Vectors of another width must not be compared at all.
        order = sql.SQL("CASE WHEN {} THEN {} END").format(width, order)
    rows = reader.rows(
        sql.SQL(
            "SELECT name, 1 - distance FROM (SELECT {id}::text AS name, {cosine} AS distance "
            "FROM {table} WHERE {column} IS NOT NULL AND {text} IS NOT NULL AND {width} AND "
            "{where} ORDER BY {order} LIMIT {limit}) AS found WHERE distance = distance"
        ).format(
            id=identifier(table.id.name),
            cosine=(
                distance("cosine")
                if pair.vector.dimension
                else sql.SQL("CASE WHEN {} THEN {} END").format(width, distance("cosine"))
            ),
            table=table.name,
            column=identifier(pair.vector.name),
            text=identifier(pair.text.name),
            width=width,
            where=searched(table, tree, values),
            order=order,
            limit=values.add(limit, "int8"),
        ),
        values,
    )
    # A NaN, of a vector of zeros, is near to nothing.
    return [(name, score) for name, score in rows if score == score]


def _vectors(column: Column, home: str) -> sql.Composable:
    name = identifier(column.name)
    if column.kind == "floats":
        return sql.SQL("{}::{}").format(name, identifier(home, "vector"))
    return name
