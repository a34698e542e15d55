"""The driver's errors about tables that are not ours, in words that say what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from triptych.errors import NotAvailableError, StoreError, TriptychError
from triptych_backends.postgres.errors import store_error

__all__ = ["table_errors"]


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
        return NotAvailableError(
            f"the database {where} lacks what the search needs ({text}): vectors need the "
            "extension pgvector there"
        )
    return store_error(error, where)
