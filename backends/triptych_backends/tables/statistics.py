"""What BM25 needs to know of a table: how many texts it has, and how many hold a word."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Final

from psycopg import sql

from triptych.records import FilterTree
from triptych_backends.tables.catalog import Pair, Table
from triptych_backends.tables.columns import identifier
from triptych_backends.tables.conditions import Parameters
from triptych_backends.tables.connections import Reader
from triptych_backends.tables.query_words import QueryWord, matches
from triptych_backends.tables.rows import searched

__all__ = ["Statistics"]

_SECONDS: Final = 60.0
"""So long a number is used again: a table of others changes, but its statistics hardly."""

_MOST: Final = 10_000

_MANY: Final = 1_000_000
"""From so many rows on the server's own estimate is good enough."""


class Statistics:
    """Counts, kept for a minute. Thread-safe."""

    def __init__(self, seconds: float = _SECONDS) -> None:
        self._seconds = seconds
        self._known: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()
        self._lock = threading.Lock()

    def texts(self, reader: Reader, table: Table, pair: Pair, within: FilterTree | None) -> int:
        """How many texts of the pair there are within a filter."""
        if table.rows >= _MANY and table.where is None and within is None:
            return int(table.rows)
        key = "texts", table.spec.name, pair.index, within
        known = self._get(key)
        if known is None:
            values = Parameters()
            statement = sql.SQL("SELECT count(*) FROM {} WHERE {} IS NOT NULL AND {}").format(
                table.name, identifier(pair.text.name), searched(table, within, values)
            )
            ((known,),) = reader.rows(statement, values)
            self._put(key, known)
        return known

    def rows(self, reader: Reader, table: Table) -> int:
        """How many rows there are."""
        key = "rows", table.spec.name
        known = self._get(key)
        if known is None:
            values = Parameters()
            statement = sql.SQL("SELECT count(*) FROM {} WHERE {}").format(
                table.name, searched(table, None, values)
            )
            ((known,),) = reader.rows(statement, values)
            self._put(key, known)
        return known

    def frequencies(
        self,
        reader: Reader,
        table: Table,
        pair: Pair,
        words: Sequence[QueryWord],
        within: FilterTree | None,
    ) -> list[int]:
        """How many texts of the pair hold each of ``words``."""
        found = []
        for word in words:
            key = "word", table.spec.name, pair.index, within, word
            known = self._get(key)
            if known is None:
                values = Parameters()
                statement = sql.SQL("SELECT count(*) FROM {} WHERE {} AND {}").format(
                    table.name,
                    matches(word, pair.search, pair.text, values),
                    searched(table, within, values),
                )
                ((known,),) = reader.rows(statement, values)
                self._put(key, known)
            found.append(known)
        return found

    def _get(self, key: Hashable) -> int | None:
        with self._lock:
            kept = self._known.get(key)
        return None if kept is None or time.monotonic() > kept[0] else kept[1]

    def _put(self, key: Hashable, number: int) -> None:
        with self._lock:
            self._known[key] = time.monotonic() + self._seconds, number
            self._known.move_to_end(key)
            while len(self._known) > _MOST:
                self._known.popitem(last=False)
