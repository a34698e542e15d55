"""Rows of a table as documents, whose names are the rows' ids."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

from psycopg import sql

from triptych.records import FilterTree
from triptych_backends.in_place.postgres.catalog import Table
from triptych_backends.in_place.postgres.columns import identifier, read_value, select
from triptych_backends.in_place.postgres.conditions import Parameters, condition
from triptych_backends.in_place.postgres.connections import Reader
from triptych_backends.in_place.rows import EPOCH, Row


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
    updated = select(table.updated_at) if table.updated_at and table.has_times else sql.SQL("NULL")
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
