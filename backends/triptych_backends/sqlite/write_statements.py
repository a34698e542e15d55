"""``python -m triptych_backends.sqlite.write_statements``: compile every statement ahead.

The Makefile runs it where a module of `triptych_backends.sql` is newer than the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from sqlalchemy.sql.base import Executable

from triptych_backends import sql
from triptych_backends.sql.compilation import compile_statement, creating_all
from triptych_backends.sql.deferred import Deferred, Upsert, resolve
from triptych_backends.sqlite import database, store
from triptych_backends.sqlite.session import DIALECT, FILE, TABLES, key_of


def compile_all() -> dict[str, list[Any]]:
    """What the file must hold: the statements of `triptych_backends.sql` and of this package, and
    what makes the tables."""
    made: dict[str, list[Any]] = {}
    modules = [import_module(f"{sql.__name__}.{each.name}") for each in iter_modules(sql.__path__)]
    for module in (*modules, database, store):
        for value in vars(module).values():
            for statement in statements_in(value):
                compiled = compile_statement(statement, DIALECT)
                order = list(compiled.positiontup or ())
                key = key_of(statement)
                assert key is not None, f"{statement} is not deferred"
                made[key] = [_in_one_line(str(compiled)), order, dict(compiled.params)]
    made[TABLES] = [_in_one_line(each) for each in creating_all(DIALECT)]
    return {key: made[key] for key in sorted(made)}


def _in_one_line(text: str) -> str:
    """Versions of SQLAlchemy break lines in other places."""
    return " ".join(text.split())


def statements_in(value: object) -> Iterator[Any]:
    """The statements in the ``value`` of a module's name: itself, or those that it holds."""
    if isinstance(value, Upsert) or (
        isinstance(value, Deferred) and isinstance(resolve(value), Executable)
    ):
        yield value
    elif isinstance(value, tuple | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from statements_in(each)


if __name__ == "__main__":
    rows = (f"{json.dumps(key)}: {json.dumps(row)}" for key, row in compile_all().items())
    FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
