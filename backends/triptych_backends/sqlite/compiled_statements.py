"""The text of the statements in SQLite, as SQLAlchemy wrote it: no command that reads needs it.

``compiled_statements.json`` maps how a statement was written (its SHA-256) to its text, the order
of its parameters, and the constants among them. A statement that is not in it is compiled when it
is run. The Makefile writes the file again after a change; a test checks that each text is the one
that SQLAlchemy writes.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from triptych_backends.sql.deferred import Deferred, written
from triptych_backends.sql.dialect import Statement, Upsert
from triptych_backends.sqlite.dialect import DIALECT

Compiled: TypeAlias = tuple[str, tuple[str, ...], dict[str, Any]]
"""The text, the names of its parameters in order, and those that are constants."""

FILE = Path(__file__).with_suffix(".json")


@lru_cache(maxsize=512)
def compiled(statement: Statement) -> Compiled:
    """``statement`` as SQLite takes it."""
    known = compiled_before(statement)
    if known is not None:
        return known
    # A quarter of a second, the first time: its import, and that of SQLAlchemy.
    from triptych_backends.sql.compilation import compile_statement

    made = compile_statement(statement, DIALECT)
    return str(made), tuple(made.positiontup or ()), dict(made.params)


def compiled_before(statement: object) -> Compiled | None:
    """The text of ``statement``; None where it must be compiled."""
    key = key_of(statement)
    found = None if key is None else _kept().get(key)
    return None if found is None else (found[0], tuple(found[1]), found[2])


def key_of(statement: object) -> str | None:
    """What ``statement`` is called in the file; None for one that SQLAlchemy made itself."""
    if isinstance(statement, Upsert):
        text = f"upsert {written(statement.table)} {statement.key} {statement.add}"
    elif isinstance(statement, Deferred):
        text = written(statement)
    else:
        return None
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@cache
def _kept() -> dict[str, list[Any]]:
    kept: dict[str, list[Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    return kept
