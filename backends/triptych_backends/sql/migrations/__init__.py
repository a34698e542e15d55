"""Changes of the tables since the first release, numbered, as SQL.

A change is two files beside this one, ``0014_what.sqlite.sql`` and ``0014_what.postgresql.sql``;
a statement ends with a semicolon at the end of a line. With it come the same change in
`triptych_backends.sql.schema`, by which new stores are made, `SCHEMA_VERSION`, and a row in
docs/migrations/README.md. A store takes all that it lacks in one transaction.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from triptych.errors import SchemaVersionError

__all__ = ["FIRST_VERSION", "SCHEMA_VERSION", "changes_since", "check_version", "first_rows"]

FIRST_VERSION = 13
"""The oldest schema that is migrated. Those before were never released."""

SCHEMA_VERSION = 14
"""The schema of this version: the number of the last change, or `FIRST_VERSION`."""

FOLDER = Path(__file__).parent
_END = re.compile(r";[ \t]*(?:\n|\Z)")


def changes_since(version: int, dialect: str) -> Iterator[str]:
    """The statements that bring a store of ``version`` up to date, in order.

    ``dialect`` is "sqlite" or "postgresql".
    """
    for file in sorted(FOLDER.glob(f"*.{dialect}.sql")):
        if int(file.name[:4]) > version:
            text = file.read_text(encoding="utf-8")
            yield from filter(None, map(str.strip, _END.split(text)))


def check_version(version: int, where: str) -> None:
    """Raise `SchemaVersionError` where this version of Triptych cannot bring ``version`` up."""
    if version > SCHEMA_VERSION:
        raise SchemaVersionError(
            f"the store {where} has schema {version}, and this version of Triptych knows schemas "
            f"up to {SCHEMA_VERSION}: update triptych, or open it with the version that wrote it"
        )
    if version < FIRST_VERSION:
        raise SchemaVersionError(
            f"the store {where} has schema {version}, of a version of Triptych before the first "
            "release: with that version run `triptych export`, and with this one `triptych import`"
        )


def first_rows() -> tuple[tuple[int, str, int], list[tuple[str, str]]]:
    """The row of `clock` and the rows of `meta` that a store has from its first day."""
    meta = [("created_with", _triptych_version()), ("schema", str(SCHEMA_VERSION))]
    return (1, secrets.token_hex(16), 0), meta


def _triptych_version() -> str:
    from importlib import metadata  # tens of milliseconds, for who makes a store

    try:
        return metadata.version("triptych")
    except metadata.PackageNotFoundError:
        return "unknown"
