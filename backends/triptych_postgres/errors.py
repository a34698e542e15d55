"""Mapping the driver's errors to Triptych's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from triptych.errors import (
    StoreAwayError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    ValidationError,
)
from triptych_backends.sql import corrupt

_LOCKED = ("55P03", "40P01", "40001")
# The server is starting, stopping, or was stopped: a new connection may succeed.
_AWAY = ("57P01", "57P02", "57P03")
_STARTING = (
    "the database system is starting up",
    "the database system is shutting down",
    "the database system is not yet accepting connections",
    "the database system is in recovery mode",
    "Connection refused",
    "No such file or directory",
    "server closed the connection unexpectedly",
)
_TIMEOUT = "57014"
_FULL = "53100"
_UNDEFINED = ("42P01", "42703")
_ADVICE = {
    "53200": "the server ran out of memory",
    "53300": "the server has no connection left: raise its max_connections, or give fewer by "
    "pool_size in the URL",
    "25006": "the server takes no writes (a replica, or read-only): connect to the primary",
    "42501": "this user lacks a right: grant it CREATE on the database, or make the schema and the "
    "extension vector for it",
    "28P01": "the password was refused",
    "28000": "the server refused this user: check the URL and the server's pg_hba.conf",
    "3D000": "there is no such database: create it first",
    "3F000": "there is no such schema",
    "58P01": "the server lacks a file: is the extension pgvector installed there?",
    "0A000": "the server cannot do this: it is a replica, which takes no writes, or lacks the "
    "extension pgvector",
}


def is_lost(error: BaseException) -> bool:
    """Whether the connection ended with this error, and another one may succeed."""
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    state = getattr(error, "sqlstate", None)
    return state is None or state in _AWAY or state.startswith("08")


def is_starting(error: BaseException) -> bool:
    """Whether a server did not take a connection that it may take in a moment."""
    if not isinstance(error, psycopg.OperationalError):
        return False
    # An error before a connection is there has no state. These words are not translated, or libpq
    # says them in the language of this process: then it is not waited for.
    text = str(error)
    return error.sqlstate in _AWAY or any(word in text for word in _STARTING)


def store_error(error: psycopg.Error, where: str) -> StoreError | ValidationError:
    """What the driver's ``error`` in the store ``where`` means to its user."""
    state = error.sqlstate
    text = " ".join(str(error).split())
    if state in _LOCKED:
        return StoreLockedError(
            f"the store {where} is locked by another writer for longer than the wait: try "
            "again, or give a longer lock_timeout"
        )
    if state == _TIMEOUT:
        return StoreError(
            f"the store {where} took longer than the statement timeout: try again, or give a "
            "longer statement_timeout in the URL"
        )
    if state == "42P01" and "search_" in text:
        return StoreError(
            f"the store {where} has no search tables (any more): open it again, or with "
            "search=server in the URL, which makes them"
        )
    if state in _UNDEFINED or (state or "").startswith("XX"):
        return corrupt(where, text)
    if state == _FULL:
        return StoreFullError(
            f"the store {where} failed ({text}): the server's disk is full: free some space and "
            "try again"
        )
    if state in _ADVICE:
        return StoreError(f"the store {where} failed ({text}): {_ADVICE[state or '']}")
    if is_lost(error):
        return StoreAwayError(
            f"the connection to the store {where} failed ({text}): check that the server runs and "
            "can be reached, and try again; a write may have been committed"
        )
    return StoreError(f"the store {where} failed: {text}")


@contextmanager
def driver_errors(where: str) -> Iterator[None]:
    """Let no driver's error out."""
    try:
        yield
    except psycopg.Error as error:
        raise store_error(error, where) from error
    except UnicodeDecodeError as error:
        raise corrupt(where, error) from error
