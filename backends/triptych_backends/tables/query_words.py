"""A word of a query as a condition of the server's text search."""

from __future__ import annotations

from psycopg import sql

from triptych_backends.in_place import QueryWord
from triptych_backends.tables.catalog import TextSearch
from triptych_backends.tables.columns import Column, identifier
from triptych_backends.tables.conditions import Parameters

__all__ = ["matches"]


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
    return sql.SQL("{} @@ {}").format(search.document, _asked(word, search, values))
