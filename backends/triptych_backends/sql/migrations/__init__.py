"""The migrations of the tables, numbered, and how to run them."""

from __future__ import annotations

import secrets
from importlib import metadata
from pathlib import Path

from sqlalchemy import insert
from sqlalchemy.engine import Connection

from triptych_backends.sql import tables as t

__all__ = ["add_first_rows", "first_rows", "upgrade"]


def upgrade(connection: Connection, *, to: str = "head") -> None:
    """Run the migrations that are missing up to ``to``, in the connection's transaction."""
    # Its import takes a quarter of a second.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    command.upgrade(config, to)


def add_first_rows(connection: Connection) -> None:
    """Add the rows that a store has from its first day."""
    clock, meta = first_rows()
    connection.execute(insert(t.clock).values(clock))
    connection.execute(insert(t.meta).values(meta))


def first_rows() -> tuple[tuple[int, str, int], tuple[str, str]]:
    """The rows of `clock` and of `meta` that a store has from its first day."""
    return (1, secrets.token_hex(16), 0), ("created_with", _triptych_version())


def _triptych_version() -> str:
    try:
        return metadata.version("triptych")
    except metadata.PackageNotFoundError:
        return "unknown"
