"""``python -m triptych_backends.sqlite.write_statements``: compile every statement ahead.

The Makefile runs it where a module of `triptych_backends.sql` is newer than the file.
"""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from sqlalchemy.sql.base import Executable

from triptych_backends import sql
from triptych_backends.sql.compilation import compile_statement
from triptych_backends.sql.deferred import Deferred, Upsert, resolve
from triptych_backends.sqlite.session import DIALECT, FILE, key_of


def compile_all() -> dict[str, list[Any]]:
    """What the file must hold: every statement that a module of `triptych_backends.sql` holds."""
    made: dict[str, list[Any]] = {}
    for module in pkgutil.iter_modules(sql.__path__):
        for value in vars(import_module(f"{sql.__name__}.{module.name}")).values():
            for statement in statements_in(value):
                compiled = compile_statement(statement, DIALECT)
                order = list(compiled.positiontup or ())
                key = key_of(statement)
                assert key is not None, f"{statement} is not deferred"
                # Versions of SQLAlchemy break lines in other places.
                made[key] = [" ".join(str(compiled).split()), order, dict(compiled.params)]
    return {key: made[key] for key in sorted(made)}


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
