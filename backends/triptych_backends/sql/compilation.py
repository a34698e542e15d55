"""Statements and tables as text. It imports SQLAlchemy, and is imported when it is needed."""

from __future__ import annotations

from functools import cache
from typing import Any

import attrs
from sqlalchemy import Table
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from triptych_backends.sql.deferred import Dialect, Statement, Upsert, resolve


class InList(FunctionElement[bool]):
    """See `triptych_backends.sql.deferred.in_list`."""

    inherit_cache = True
    name = "in_list"


@compiles(InList)
def _compile_in_list(
    element: InList, compiler: SQLCompiler, *, triptych: Dialect, **options: Any
) -> str:
    column, parameter = element.clauses
    written = resolve(triptych.in_list(column, str(parameter.key)))
    return compiler.process(written, triptych=triptych, **options)


def compile_statement(statement: Statement, dialect: Dialect) -> SQLCompiler:
    """The text of ``statement`` in ``dialect``, with the order of its parameters."""
    if isinstance(statement, Upsert):
        statement = dialect.upsert(attrs.evolve(statement, table=resolve(statement.table)))
    compiled: SQLCompiler = resolve(statement).compile(
        dialect=dialect.engine, compile_kwargs={"triptych": dialect}
    )
    return compiled


def creating(table: Table, dialect: Dialect) -> dict[str, str]:
    """What makes ``table``, under "", and then each of its indexes, under "index" and its name."""
    made: dict[str, CreateTable | CreateIndex] = {"": CreateTable(table)}
    for index in sorted(table.indexes, key=lambda index: str(index.name)):
        made[f"index {index.name}"] = CreateIndex(index)
    return {name: str(each.compile(dialect=dialect.engine)) for name, each in made.items()}


@cache
def creating_all(dialect: Dialect) -> tuple[str, ...]:
    """What makes all tables and their indexes; to write it takes longer than to run it."""
    from triptych_backends.sql.schema import METADATA

    tables = METADATA.sorted_tables
    return tuple(each for table in tables for each in creating(table, dialect).values())
