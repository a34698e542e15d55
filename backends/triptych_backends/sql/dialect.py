"""What differs from database to database in the statements of this package.

The statements are Core expressions. Two things that Core has no neutral form for have one here:
a list of any length as one parameter (`in_list`), and an INSERT that replaces what is there
(`Upsert`). A `Dialect` says how its database writes them.

Nothing else may be one database's own. What they share through Core suffices for the rest: ticks,
for one, are read FOR UPDATE, which SQLite leaves out, since its writers take turns anyhow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import attrs

from triptych_backends.sql.deferred import bindparam, deferred_module

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Insert, Table
    from sqlalchemy.engine import interfaces
    from sqlalchemy.sql.base import Executable, ReadOnlyColumnCollection


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

    def assignments(self, new: ReadOnlyColumnCollection[str, Any]) -> dict[str, ColumnElement[Any]]:
        """What the other columns become, where ``new`` are those of the row that was to go in."""
        old = self.table.columns
        return {name: old[name] + new[name] if self.add else new[name] for name in self.changed}


Statement: TypeAlias = "Executable | Upsert"

_compilation = deferred_module("triptych_backends.sql.compilation")


def in_list(column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
    """``column`` is in the list given as the parameter ``name``.

    One parameter for any number of values: the statement stays the same, and compiled.
    """
    found: ColumnElement[bool] = _compilation.InList(column, bindparam(name))
    return found
