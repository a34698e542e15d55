"""How SQLite writes the statements of `triptych_backends.sql`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Insert, bindparam, func, select
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import interfaces

from triptych_backends.sql.dialect import Upsert

__all__ = ["DIALECT", "SqliteDialect"]


class SqliteDialect:
    """Lists are JSON; see `triptych_backends.sql.Dialect`."""

    engine: interfaces.Dialect = sqlite.dialect(paramstyle="qmark")

    def in_list(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """See `Dialect.in_list`."""
        values = func.json_each(bindparam(name)).table_valued("value")
        return column.in_(select(values.c.value))

    def bind_list(self, values: Sequence[int] | Sequence[str]) -> str:
        """See `Dialect.bind_list`."""
        return json.dumps(values)

    def upsert(self, upsert: Upsert) -> Insert:
        """See `Dialect.upsert`."""
        statement = sqlite.insert(upsert.table)
        old, new = upsert.table.columns, statement.excluded
        return statement.on_conflict_do_update(
            index_elements=upsert.key,
            set_={
                name: old[name] + new[name] if upsert.add else new[name] for name in upsert.changed
            },
        )


DIALECT = SqliteDialect()
