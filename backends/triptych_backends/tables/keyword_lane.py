"""Keywords in a table: the server's text search finds the texts that hold most of the words."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from psycopg import sql

from triptych.records import FilterTree
from triptych_backends.in_place import QueryWord, Text
from triptych_backends.tables.catalog import Pair, Table
from triptych_backends.tables.columns import identifier
from triptych_backends.tables.conditions import Parameters, name_condition
from triptych_backends.tables.connections import Reader
from triptych_backends.tables.query_words import matches
from triptych_backends.tables.rows import searched

__all__ = ["TablePart", "texts_named"]


@attrs.frozen
class TablePart:
    """A `Part`: a pair of columns of one table, of the rows that pass ``tree``."""

    reader: Reader
    table: Table
    pair: Pair
    tree: FilterTree | None
    texts: int
    frequencies: Sequence[int]

    def best(
        self,
        words: Sequence[QueryWord],
        weights: Sequence[float],
        asked: Sequence[int],
        limit: int,
    ) -> list[Text]:
        """See `Part.best`."""
        table, pair, values = self.table, self.pair, Parameters()
        # Each word by its own scan of the index: to rank a row, its whole text would have to be cut
        # into words again wherever the server keeps no tsvector.
        scans = sql.SQL(" UNION ALL ").join(
            sql.SQL(
                "SELECT {} AS id, {} AS weight FROM {} WHERE {} AND {} IS NOT NULL AND {}"
            ).format(
                identifier(table.id.name),
                values.add(weights[at], "float8"),
                table.name,
                matches(words[at], pair.search, pair.text, values),
                identifier(pair.text.name),
                searched(table, self.tree, values),
            )
            for at in asked
        )
        rows = self.reader.rows(
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
        return [self._text(name, text) for name, text in rows]

    def _text(self, name: str, text: str) -> Text:
        at = self.pair.index
        return Text(self.table.spec.name, name, at, (name, at), text)


def texts_named(
    reader: Reader, table: Table, pair: Pair, names: Sequence[str], tree: FilterTree | None
) -> list[Text]:
    """The texts of a pair, of the rows of these names that pass ``tree``."""
    values = Parameters()
    rows = reader.rows(
        sql.SQL("SELECT {}::text, {}::text FROM {} WHERE {} AND {} IS NOT NULL AND {}").format(
            identifier(table.id.name),
            identifier(pair.text.name),
            table.name,
            name_condition(table.id, list(names), values),
            identifier(pair.text.name),
            searched(table, tree, values),
        ),
        values,
    )
    return [
        Text(table.spec.name, name, pair.index, (name, pair.index), text) for name, text in rows
    ]
