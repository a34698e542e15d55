"""The URL of a PostgreSQL store."""

from __future__ import annotations

import re

import attrs
import psycopg
from psycopg.conninfo import conninfo_to_dict

from triptych._internal.urls import query_of, shown_url, split_url, url_options
from triptych.errors import ValidationError

_SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")
_STARTUP = 5.0
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}")


@attrs.frozen(kw_only=True)
class PostgresLocation:
    """Where a store is on a server, and how it is reached.

    Attributes:
        conninfo: what the driver connects by; it may hold a password.
        schema: the schema that the tables are in.
        where: what messages call the store, without a password.
        statement_timeout: seconds that one statement may take, 0 for no limit.
        pool_size: the most connections that one process opens.
        reconnect: seconds for which a lost connection is tried again.
        startup: seconds for which a server that does not answer is waited for when a store is
            opened, and for each connection.
    """

    conninfo: str = attrs.field(repr=False)
    schema: str
    where: str
    statement_timeout: float
    pool_size: int
    reconnect: float
    startup: float = _STARTUP


def parse_url(url: str) -> PostgresLocation:
    """Read ``url``: ``postgresql+psycopg://user@host:port/database?options``.

    The options are libpq's (``sslmode``, ``sslrootcert``, ``connect_timeout``, which also bounds
    the wait for a server that is starting, 5 seconds by default, …), and ``schema`` (triptych),
    ``statement_timeout`` (300 seconds), ``pool_size`` (8) and ``reconnect`` (10 seconds). Values
    are percent-encoded; a plus sign is itself.

    Raises:
        ValidationError: it is invalid; the message shows no password.
    """
    parts = split_url(url)
    if parts.scheme.lower() not in _SCHEMES:
        raise ValidationError(f"{shown_url(url)!r} is not a postgresql:// URL")
    own: dict[str, str] = {}
    passed = []
    for key, value in url_options(url):
        if key in ("schema", "statement_timeout", "pool_size", "reconnect"):
            own[key] = value
        else:
            passed.append((key, value))
    # By hand: without a host, as for a socket, urlunsplit leaves the slashes out.
    address = f"postgresql://{parts.netloc}{parts.path}"
    plain = f"{address}?{query_of(passed)}" if passed else address
    try:
        known = conninfo_to_dict(plain)
    except psycopg.ProgrammingError as error:
        raise ValidationError(
            f"{shown_url(url)!r} is not a URL of PostgreSQL: write "
            "postgresql+psycopg://user@host:5432/database; its options are libpq's (such as "
            "sslmode), schema, statement_timeout, pool_size and reconnect"
        ) from error
    if not known.get("dbname"):
        raise ValidationError(
            f"{shown_url(url)!r} names no database: write postgresql+psycopg://host/database"
        )
    schema = own.get("schema", "triptych")
    if not _NAME.fullmatch(schema) or schema.lower().startswith("pg_"):
        raise ValidationError(
            f"{schema!r} cannot be the schema of a store: give up to 63 letters, digits and _"
        )
    where = shown_url(address)
    return PostgresLocation(
        conninfo=plain,
        schema=schema,
        where=where if "schema" not in own else f"{where} (schema {schema})",
        statement_timeout=_number(own, "statement_timeout", 300.0),
        pool_size=max(int(_number(own, "pool_size", 8)), 2),
        reconnect=_number(own, "reconnect", 10.0),
        startup=_number(dict(passed), "connect_timeout", _STARTUP) or _STARTUP,
    )


def _number(options: dict[str, str], name: str, default: float) -> float:
    text = options.get(name)
    try:
        value = default if text is None else float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e6:
        raise ValidationError(f"{name} must be a number of 0 or more, not {text!r}")
    return value
