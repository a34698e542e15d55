"""A word of a query as a condition of the server's text search."""

from __future__ import annotations

from typing import Final

from psycopg import sql

from triptych_backends.in_place import QueryWord
from triptych_backends.tables.catalog import TextSearch
from triptych_backends.tables.columns import Column, identifier
from triptych_backends.tables.conditions import Parameters

__all__ = ["matches"]

_LONG: Final = 200_000
"""Bytes of a text from which on its ``tsvector`` may exceed what the server allows, 1 MB."""
_PART: Final = 40_000
_SHARED: Final = 2_000
"""Characters of a part of a long text, and those that it shares with the next."""


def _asked(word: QueryWord, search: TextSearch, values: Parameters) -> sql.Composable:
    return sql.SQL("plainto_tsquery({}::regconfig, {})").format(
        sql.Literal(search.config), values.add(word.text, "text")
    )


def matches(
    word: QueryWord, search: TextSearch, text: Column, values: Parameters
) -> sql.Composable:
    """The condition that a text holds the word."""
    if word.unspaced:
        escaped = word.text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        return sql.SQL("{}::text LIKE {}").format(
            identifier(text.name), values.add(f"%{escaped}%", "text")
        )
    asked = _asked(word, search, values)
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
