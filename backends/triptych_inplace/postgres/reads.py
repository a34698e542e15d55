"""Rows of a table: as documents, by a condition; by the words of a text; by nearest vectors."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from triptych.errors import ValidationError
from triptych.records import FilterTree
from triptych_backends.sql import EPOCH
from triptych_inplace.postgres.catalog import Pair, Table, TextSearch, check_vector
from triptych_inplace.postgres.columns import Column, identifier, read_value, select
from triptych_inplace.postgres.conditions import Parameters, condition
from triptych_inplace.postgres.connections import Reader
from triptych_inplace.source import store_errors
from triptych_inplace.table import QueryWord, Row, WantedWord


def searched(table: Table, tree: FilterTree | None, values: Parameters) -> sql.Composable:
    """The condition that a row is one of the dataset's and passes ``tree``."""
    any_text = sql.SQL(" OR ").join(
        sql.SQL("{} IS NOT NULL").format(identifier(pair.text.name)) for pair in table.pairs
    )
    return sql.SQL("{} IS NOT NULL AND ({}) AND {} AND {}").format(
        identifier(table.id.name),
        any_text,
        condition(table.where, table.own, values),
        condition(tree, table.columns, values),
    )


def read_rows(
    reader: Reader,
    table: Table,
    where: sql.Composable,
    values: Parameters,
    rest: sql.Composable | None = None,
) -> list[Row]:
    """The rows that ``where`` selects, with ``rest`` of the statement after it."""
    texts = [sql.SQL("{}::text").format(identifier(pair.text.name)) for pair in table.pairs]
    updated = select(table.updated_at) if table.updated_at else sql.SQL("NULL")
    expressions = [
        sql.SQL("{}::text").format(identifier(table.id.name)),
        updated,
        *texts,
        *(select(column) for column in table.metadata),
    ]
    found = reader.rows(
        sql.SQL("SELECT {} FROM {} WHERE {} {}").format(
            sql.SQL(", ").join(expressions), table.name, where, rest or sql.SQL("")
        ),
        values,
    )
    return [_row(table, each) for each in found]


def _row(table: Table, found: Sequence[Any]) -> Row:
    name, updated, *rest = found
    texts, values = rest[: len(table.pairs)], rest[len(table.pairs) :]
    metadata = {
        column.name: value
        for column, raw in zip(table.metadata, values, strict=True)
        if (value := read_value(column, raw)) is not None
    }
    return Row(
        dataset_id=table.spec.name,
        name=name,
        texts=texts,
        metadata=metadata,
        updated_at=_moment(updated),
    )


def _moment(value: date | None) -> datetime:
    if value is None:
        return EPOCH
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


_LONG: Final = 200_000
"""Bytes of a text from which on its ``tsvector`` may exceed what the server allows, 1 MB."""
_PART: Final = 40_000
_SHARED: Final = 2_000
"""Characters of a part of a long text, and those that it shares with the next."""


def matches(
    word: QueryWord, search: TextSearch, text: Column, values: Parameters
) -> sql.Composable:
    """The condition that a text holds the word."""
    if word.unspaced:
        escaped = word.text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        return sql.SQL("{}::text LIKE {}").format(
            identifier(text.name), values.add(f"%{escaped}%", "text")
        )
    asked = sql.SQL("plainto_tsquery({}::regconfig, {})").format(
        sql.Literal(search.config), values.add(word.text, "text")
    )
    if search.kept:
        return sql.SQL("{} @@ {}").format(search.document, asked)
    return sql.SQL(
        "CASE WHEN octet_length({text}::text) <= {long} THEN {document} @@ {asked} ELSE EXISTS ("
        "SELECT FROM generate_series(1, length({text}::text), {part}) AS part (start) WHERE "
        "to_tsvector({config}::regconfig, substr({text}::text, part.start, {size})) @@ {asked}) END"
    ).format(
        text=identifier(text.name),
        long=sql.Literal(_LONG),
        document=search.document,
        asked=asked,
        part=sql.Literal(_PART),
        config=sql.Literal(search.config),
        size=sql.Literal(_PART + _SHARED),
    )


def best_texts(
    reader: Reader,
    table: Table,
    pair: Pair,
    words: Sequence[WantedWord],
    tree: FilterTree | None,
    limit: int,
) -> list[tuple[str, str]]:
    """The names and texts of the ``limit`` rows whose texts hold most of ``words`` by weight."""
    values = Parameters()
    # Each word by its own scan of the index: to rank a row, its whole text would have to be cut
    # into words again wherever the server keeps no tsvector.
    scans = sql.SQL(" UNION ALL ").join(
        sql.SQL("SELECT {} AS id, {} AS weight FROM {} WHERE {} AND {} IS NOT NULL AND {}").format(
            identifier(table.id.name),
            values.add(each.weight, "float8"),
            table.name,
            matches(each.word, pair.search, pair.text, values),
            identifier(pair.text.name),
            searched(table, tree, values),
        )
        for each in words
    )
    return reader.rows(
        sql.SQL(
            "WITH best AS MATERIALIZED (SELECT id, sum(weight) AS weight "
            "FROM ({scans}) AS scan GROUP BY id ORDER BY weight DESC, id LIMIT {limit}) "
            "SELECT t.{id}::text, t.{text}::text FROM best JOIN {table} t ON t.{id} = best.id "
            "WHERE t.{text} IS NOT NULL"
        ).format(
            scans=scans,
            id=identifier(table.id.name),
            text=identifier(pair.text.name),
            table=table.name,
            limit=values.add(limit, "int8"),
        ),
        values,
    )


_OPERATORS: Final = {"cosine": "<=>", "l2": "<->", "ip": "<#>"}
_EFFORT: Final = {
    # Filters act after the index: it goes on until enough rows pass, or it has seen so many.
    "hnsw.iterative_scan": "strict_order",
    "ivfflat.iterative_scan": "relaxed_order",
    "ivfflat.probes": "10",
}


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
        StoreError: the column does not serve, or is of another width.
        ValidationError: ``vector`` is not one row of finite numbers.
    """
    query = np.asarray(vector, np.float32)
    if query.ndim != 1 or not np.isfinite(query).all():
        raise ValidationError("a query vector must be one row of finite numbers")
    if pair.vector is None or limit <= 0:
        return []
    with store_errors():
        check_vector(pair, table, len(query))
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
