"""Keywords in a table: the server's text search finds the texts that hold most of the words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from psycopg import sql

from triptych.records import FilterTree
from triptych_backends.in_place.postgres.catalog import Pair, Table, TextSearch
from triptych_backends.in_place.postgres.columns import Column, identifier
from triptych_backends.in_place.postgres.conditions import Parameters
from triptych_backends.in_place.postgres.connections import Reader
from triptych_backends.in_place.postgres.rows import searched
from triptych_backends.in_place.query_words import QueryWord
from triptych_backends.in_place.table import WantedWord

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
