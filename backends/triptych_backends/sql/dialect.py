"""What differs from database to database in the statements of this package.

The statements are Core expressions. Two things that Core has no neutral form for have one here:
a list of any length as one parameter (`in_list`), and an INSERT that replaces what is there
(`Upsert`). A `Dialect` says how its database writes them.

Nothing else may be one database's own. What they share through Core suffices for the rest: ticks,
for one, are read FOR UPDATE, which SQLite leaves out, since its writers take turns anyhow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import attrs
from sqlalchemy import ColumnElement, Insert, Table, bindparam
from sqlalchemy.engine import interfaces
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

__all__ = ["Dialect", "Statement", "Upsert", "compile_statement", "in_list"]


class Dialect(Protocol):
    """How one database writes what this package needs."""

    @property
    def engine(self) -> interfaces.Dialect:
        """SQLAlchemy's own dialect of it."""
        ...

    def in_list(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """``column`` is in the list given as the parameter ``name``: one, however long it is."""
        ...

    def bind_list(self, values: Sequence[int] | Sequence[str]) -> Any:
        """A list as the driver takes it for an `in_list`."""
        ...

    def upsert(self, upsert: Upsert) -> Insert:
        """The statement for ``upsert``, its parameters in the order of the table's columns."""
        ...


@attrs.frozen(eq=False)
class Upsert:
    """Insert a row into ``table``; where one has the same ``key``, replace its other columns.

    With ``add``, the other columns are numbers and are added to those that are there.
    """

    table: Table
    key: tuple[str, ...]
    add: bool = False

    @property
    def changed(self) -> list[str]:
        """The names of the other columns."""
        return [column.name for column in self.table.columns if column.name not in self.key]


Statement = Executable | Upsert


class _InList(FunctionElement[bool]):
    inherit_cache = True
    name = "in_list"


def in_list(column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
    """``column`` is in the list given as the parameter ``name``.

    One parameter for any number of values: the statement stays the same, and compiled.
    """
    return _InList(column, bindparam(name))


@compiles(_InList)
def _compile_in_list(
    element: _InList, compiler: SQLCompiler, *, triptych: Dialect, **options: Any
) -> str:
    column, parameter = element.clauses
    written = triptych.in_list(column, str(parameter.key))
    return compiler.process(written, triptych=triptych, **options)


def compile_statement(statement: Statement, dialect: Dialect) -> SQLCompiler:
    """The text of ``statement`` in ``dialect``, with the order of its parameters."""
    if isinstance(statement, Upsert):
        statement = dialect.upsert(statement)
    compiled: SQLCompiler = statement.compile(  # type: ignore[attr-defined]  # every Executable here is a ClauseElement
        dialect=dialect.engine, compile_kwargs={"triptych": dialect}
    )
    return compiled
