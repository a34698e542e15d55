"""Statements as text. It imports SQLAlchemy, and is imported when one must be compiled."""

from __future__ import annotations

from typing import Any

import attrs
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from triptych_backends.sql.deferred import resolve
from triptych_backends.sql.dialect import Dialect, Statement, Upsert


class InList(FunctionElement[bool]):
    """See `triptych_backends.sql.dialect.in_list`."""

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
