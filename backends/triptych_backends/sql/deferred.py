"""Core expressions that are written down now, and built when they are compiled.

SQLAlchemy's import and the building of 200 statements take a quarter of a second, of which a
command that reads needs nothing: the text of each statement is kept (`compiled_statements`). So
the modules of this package import Core's functions and the tables from here. Each call, attribute
and operator makes a `Deferred`, which holds what was written; `resolve` lets SQLAlchemy do it.

Type checkers see SQLAlchemy's own names.

Two things that Core has no neutral form for have one here: a list of any length as one parameter
(`in_list`), and an INSERT that replaces what is there (`Upsert`). A `Dialect` says how its database
writes them. Nothing else may be one database's own: ticks, for one, are read FOR UPDATE, which
SQLite leaves out, since its writers take turns anyhow.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import attrs

from triptych._internal.forks import in_child

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Insert, Table
    from sqlalchemy.engine import interfaces
    from sqlalchemy.sql.base import Executable, ReadOnlyColumnCollection

__all__ = [
    "Deferred",
    "Dialect",
    "Statement",
    "Upsert",
    "and_",
    "bindparam",
    "case",
    "column_name",
    "deferred_module",
    "delete",
    "desc",
    "exists",
    "func",
    "in_list",
    "insert",
    "literal",
    "or_",
    "resolve",
    "select",
    "tables",
    "union_all",
    "update",
    "written",
]

_OPERATORS = ("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "add", "sub", "mul", "invert")


class Deferred:
    """A value that ``build`` makes, and how it was written."""

    __slots__ = ("_build", "_built", "_written")

    def __init__(self, written: str, build: Callable[[], Any]) -> None:
        self._written = written
        self._build = build
        self._built: Any = None

    def __getattr__(self, name: str) -> Deferred:
        if name.startswith("__"):  # a protocol of Python, such as copying: not SQLAlchemy's
            raise AttributeError(name)
        return Deferred(f"{self._written}.{name}", lambda: getattr(resolve(self), name))

    def __call__(self, *values: Any, **named: Any) -> Deferred:
        arguments = [written(each) for each in values]
        arguments += [f"{name}={written(each)}" for name, each in named.items()]
        return Deferred(
            f"{self._written}({', '.join(arguments)})",
            lambda: resolve(self)(*resolve(values), **resolve(named)),
        )

    # Python would iterate forever over the items 0, 1, 2, … of an object without `__iter__`.
    __iter__ = None

    def __bool__(self) -> bool:
        raise TypeError(f"{self._written} has no value before it is run")

    # By identity, as SQLAlchemy's own expressions are: `==` makes another expression.
    __hash__ = object.__hash__


def _operator(name: str) -> Callable[..., Deferred]:
    special = f"__{name}__"
    operation = getattr(operator, special)

    def operate(self: Deferred, *others: Any) -> Deferred:
        arguments = ", ".join(map(written, others))
        return Deferred(
            f"{written(self)}.{special}({arguments})",
            lambda: operation(resolve(self), *resolve(others)),
        )

    return operate


for _name in _OPERATORS:
    setattr(Deferred, f"__{_name}__", _operator(_name))


def deferred_module(name: str) -> Any:
    """The module of this name, imported when an expression that uses it is built."""
    return Deferred(name, cache(lambda: import_module(name)))


def written(value: Any) -> str:
    """How ``value`` was written: the same for expressions that were written alike."""
    if isinstance(value, Deferred):
        return value._written
    if isinstance(value, list | tuple):
        return f"({', '.join(map(written, value))})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{written(k)}: {written(v)}' for k, v in value.items())}}}"
    return repr(value)


_building = threading.RLock()


def _new_lock() -> None:
    global _building
    _building = threading.RLock()


in_child(_new_lock)


def resolve(value: Any) -> Any:
    """``value`` with every `Deferred` in it built; each is built once."""
    if isinstance(value, Deferred):
        # Once for all threads: a subquery that is built twice is two in the statement.
        with _building:
            if value._built is None:
                value._built = value._build()
            return value._built
    if isinstance(value, list | tuple):
        return type(value)(resolve(each) for each in value)
    if isinstance(value, Mapping):
        return {resolve(key): resolve(each) for key, each in value.items()}
    return value


def column_name(column: Any) -> str:
    """The name of a table's column: the last part of ``tables.document.c.name``."""
    return written(column).rpartition(".")[2]


if TYPE_CHECKING:
    from sqlalchemy import (
        and_,
        bindparam,
        case,
        delete,
        desc,
        exists,
        func,
        insert,
        literal,
        or_,
        select,
        union_all,
        update,
    )

    from triptych_backends.sql import schema as tables
else:
    tables = deferred_module("triptych_backends.sql.schema")
    _core = deferred_module("sqlalchemy")
    and_, or_, case, exists = _core.and_, _core.or_, _core.case, _core.exists
    select, union_all, desc, func = _core.select, _core.union_all, _core.desc, _core.func
    insert, update, delete = _core.insert, _core.update, _core.delete
    bindparam, literal = _core.bindparam, _core.literal


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
    """Insert a row into ``table``; where one has the same ``key``, replace its other columns."""

    table: Table
    key: tuple[str, ...]

    @property
    def changed(self) -> list[str]:
        """The names of the other columns."""
        return [column.name for column in self.table.columns if column.name not in self.key]

    def assignments(self, new: ReadOnlyColumnCollection[str, Any]) -> dict[str, ColumnElement[Any]]:
        """What the other columns become, where ``new`` are those of the row that was to go in."""
        return {name: new[name] for name in self.changed}


Statement: TypeAlias = "Executable | Upsert"

_compilation = deferred_module("triptych_backends.sql.compilation")


def in_list(column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
    """``column`` is in the list given as the parameter ``name``.

    One parameter for any number of values: the statement stays the same, and compiled.
    """
    found: ColumnElement[bool] = _compilation.InList(column, bindparam(name))
    return found
