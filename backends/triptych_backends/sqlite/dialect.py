"""How SQLite writes the statements of `triptych_backends.sql`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from triptych_backends.sql.dialect import Upsert

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Insert
    from sqlalchemy.engine import interfaces


class SqliteDialect:
    """Lists are JSON; see `triptych_backends.sql.Dialect`."""

    @cached_property
    def engine(self) -> interfaces.Dialect:
        """See `Dialect.engine`."""
        # Only what compiles a statement needs SQLAlchemy.
        from sqlalchemy.dialects import sqlite

        return sqlite.dialect(paramstyle="qmark")

    def in_list(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """See `Dialect.in_list`."""
        from sqlalchemy import bindparam, func, select

        values = func.json_each(bindparam(name)).table_valued("value")
        return column.in_(select(values.c.value))

    def bind_list(self, values: Sequence[int] | Sequence[str]) -> str:
        """See `Dialect.bind_list`."""
        return json.dumps(values)

    def upsert(self, upsert: Upsert) -> Insert:
        """See `Dialect.upsert`."""
        from sqlalchemy.dialects import sqlite

        statement = sqlite.insert(upsert.table)
        return statement.on_conflict_do_update(
            index_elements=upsert.key, set_=upsert.assignments(statement.excluded)
        )


DIALECT = SqliteDialect()
