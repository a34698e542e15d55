"""What BM25 needs to know of a table: how many texts it has, and how many hold a word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from psycopg import sql

from triptych.records import FilterTree
from triptych_backends.in_place import Counts, QueryWord
from triptych_backends.tables.catalog import Pair, Table
from triptych_backends.tables.columns import identifier
from triptych_backends.tables.conditions import Parameters
from triptych_backends.tables.connections import Reader
from triptych_backends.tables.query_words import matches
from triptych_backends.tables.rows import searched

__all__ = ["count_rows", "count_texts", "count_texts_with"]

_MANY: Final = 1_000_000
"""From so many rows on the server's own estimate is good enough."""


def count_texts(
    reader: Reader, table: Table, pair: Pair, within: FilterTree | None, counts: Counts
) -> int:
    """How many texts of the pair there are within a filter."""
    if table.rows >= _MANY and table.where is None and within is None:
        return int(table.rows)
    values = Parameters()
    condition = sql.SQL("{} IS NOT NULL AND {}").format(
        identifier(pair.text.name), searched(table, within, values)
    )
    key = "texts", table.spec.name, pair.index, within
    return counts.get(key, lambda: _count(reader, table, condition, values))


def count_rows(reader: Reader, table: Table, counts: Counts) -> int:
    """How many rows there are."""
    values = Parameters()
    condition = searched(table, None, values)
    return counts.get(("rows", table.spec.name), lambda: _count(reader, table, condition, values))


def count_texts_with(
    reader: Reader,
    table: Table,
    pair: Pair,
    words: Sequence[QueryWord],
    within: FilterTree | None,
    counts: Counts,
) -> list[int]:
    """How many texts of the pair hold each of ``words``."""

    def count(word: QueryWord) -> int:
        values = Parameters()
        condition = sql.SQL("{} AND {}").format(
            matches(word, pair.search, pair.text, values), searched(table, within, values)
        )
        return _count(reader, table, condition, values)

    return [
        counts.get(("word", table.spec.name, pair.index, within, word), lambda: count(word))  # noqa: B023 - called at once
        for word in words
    ]


def _count(reader: Reader, table: Table, condition: sql.Composable, values: Parameters) -> int:
    statement = sql.SQL("SELECT count(*) FROM {} WHERE {}").format(table.name, condition)
    ((found,),) = reader.rows(statement, values)
    return int(found)
