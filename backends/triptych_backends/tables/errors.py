"""The driver's errors about tables that are not ours, in words that say what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from triptych import deadlines
from triptych.errors import CancelledError, StoreError, TriptychError
from triptych_backends.postgres.errors import store_error

__all__ = ["table_errors"]

_ROUNDED = 0.01
"""Seconds by which the server, which counts in whole ms, may end a statement too early."""


@contextmanager
def table_errors(where: str) -> Iterator[None]:
    """Let no driver's error out."""
    try:
        yield
    except psycopg.Error as error:
        raise _translated(error, where) from error


def _translated(error: psycopg.Error, where: str) -> TriptychError:
    text = " ".join(str(error).split())
    if isinstance(error, errors.InsufficientPrivilege):
        return StoreError(
            f"the user of {where} may not read what the pipeline searches ({text}): grant it "
            "USAGE on the schema and SELECT on the table; no other right is needed"
        )
    if isinstance(error, errors.QueryCanceled):
        left = deadlines.remaining()
        if left is not None and left < _ROUNDED:
            return CancelledError(
                f"the deadline passed during a search of the tables in {where}: allow more seconds"
            )
        return StoreError(
            f"a search of the tables in {where} took longer than the statement timeout: make the "
            "index that `triptych doctor` names, or give a longer statement_timeout in the URL"
        )
    if isinstance(error, errors.UndefinedTable | errors.UndefinedColumn):
        return StoreError(
            f"the tables in {where} have changed since the pipeline was opened ({text}): correct "
            "the pipeline's columns, and open it again"
        )
    if isinstance(error, errors.UndefinedFunction | errors.UndefinedObject):
        return StoreError(
            f"the tables in {where} have changed since the pipeline was opened, or the extension "
            f"pgvector is gone ({text}): check the types of the columns that the pipeline names, "
            "and open it again"
        )
    return store_error(error, where)
