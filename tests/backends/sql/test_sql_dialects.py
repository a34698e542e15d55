"""The statements of `triptych_backends.sql` are no one database's: PostgreSQL can be given them."""

from __future__ import annotations

import ast
import pkgutil
import re
from importlib import import_module
from pathlib import Path

from sqlalchemy import Integer
from sqlalchemy.schema import CreateIndex, CreateTable

from support.rows import each_row
from triptych_backends import sql
from triptych_backends.sql import Dialect, Statement, compile_statement, schema, select
from triptych_backends.sql.deferred import deferred_module, in_list
from triptych_backends.sqlite.session import SqliteDialect
from triptych_backends.sqlite.write_statements import statements_in
from triptych_postgres.session import PostgresDialect

PACKAGE = Path(sql.__file__).parent


POSTGRES: Dialect = PostgresDialect()
SQLITE: Dialect = SqliteDialect()


def every_statement() -> list[tuple[str, Statement]]:
    """Each statement that a module of the package holds, with where it is."""
    modules = [
        import_module(f"triptych_backends.sql.{module.name}")
        for module in pkgutil.iter_modules([str(PACKAGE)])
    ]
    return [
        (f"{module.__name__.rpartition('.')[2]}.{name}", statement)
        for module in modules
        for name, value in vars(module).items()
        for statement in statements_in(value)
    ]


def test_every_statement_compiles_for_postgresql() -> None:
    found = every_statement()
    assert len(found) > 120
    for place, statement in found:
        text = str(compile_statement(statement, POSTGRES))
        assert not re.search(r"json_each|sqlite|typeof|rowid|PRAGMA|\?", text), (place, text)
        # Both have the parameters that the repositories name.
        mine, theirs = (
            {name for name in compile_statement(statement, dialect).params if "param_" not in name}
            for dialect in (POSTGRES, SQLITE)
        )
        assert mine == theirs, place


def test_what_a_dialect_writes_is_in_the_text() -> None:
    texts = {place: str(compile_statement(each, POSTGRES)) for place, each in every_statement()}
    assert "vector.id = ANY (%s::BIGINT[])" in texts["change_log._VECTORS"]
    assert texts["transaction._CLOCK"].endswith("FOR UPDATE")
    assert texts["transaction._LOG"].endswith(
        "ON CONFLICT (dataset_id, field, owner) DO UPDATE SET seq = excluded.seq"
    )


def test_a_list_is_one_parameter_wherever_it_stands() -> None:
    id_ = deferred_module("sqlalchemy").column("id", Integer)
    ids = select(id_).where(in_list(id_, "ids")).subquery()
    statement = select(ids).where(in_list(ids.c.id, "more"))
    assert set(compile_statement(statement, POSTGRES).params) == {"ids", "more"}
    assert str(compile_statement(statement, SQLITE)).count("json_each(?)") == 2


def test_the_tables_can_be_made_in_postgresql() -> None:
    for table in schema.METADATA.sorted_tables:
        text = str(CreateTable(table).compile(dialect=POSTGRES.engine))
        assert "ROWID" not in text
        assert ' COLLATE "C"' in text or not {"name", "doc_name"} & set(table.columns.keys())
        for index in table.indexes:
            CreateIndex(index).compile(dialect=POSTGRES.engine)


@each_row("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_module_knows_sqlite(path: Path) -> None:
    """Also the migrations, which nothing imports by name."""
    imported: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            imported.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            imported.update(f"{node.module}.{name.name}" for name in node.names)
    for name in imported:
        assert not name.startswith(("sqlite3", "triptych_backends.sqlite", "sqlalchemy.dialects"))
