"""The URL of a PostgreSQL store."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any, Literal

import attrs
import psycopg
from psycopg.conninfo import conninfo_to_dict

from triptych.errors import ValidationError
from triptych.resources import query_of, shown_url, split_url, url_options

_SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")
_STARTUP = 5.0
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}")
_SEARCHES = ("local", "server")
_OWN = ("schema", "statement_timeout", "pool_size", "reconnect", "search", "index")
_PLACE = ("host", "hostaddr", "port", "dbname")


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
        search: where its searches run: in this process, by an index of its own, or in the server;
            None where the store has been searched so far, in the server for a new one.
        index: the folder of the index of this process; None to keep it in memory.
    """

    conninfo: str = attrs.field(repr=False)
    schema: str
    where: str
    statement_timeout: float
    pool_size: int
    reconnect: float
    startup: float = _STARTUP
    search: Literal["local", "server"] | None = None
    index: Path | None = None


def parse_url(url: str) -> PostgresLocation:
    """Read ``url``: ``postgresql+psycopg://user@host:port/database?options``.

    The options are libpq's (``sslmode``, ``sslrootcert``, ``connect_timeout``, which also bounds
    the wait for a server that is starting, 5 seconds by default, …), and ``schema`` (triptych),
    ``statement_timeout`` (300 seconds), ``pool_size`` (8), ``reconnect`` (10 seconds), ``search``
    (``local`` or ``server``) and ``index``, a folder for ``search=local``. Values are
    percent-encoded; a plus sign is itself.

    Raises:
        ValidationError: it is invalid; the message shows no password.
    """
    parts = split_url(url)
    if parts.scheme.lower() not in _SCHEMES:
        raise ValidationError(f"{shown_url(url)!r} is not a postgresql:// URL")
    own: dict[str, str] = {}
    passed = []
    for key, value in url_options(url):
        if key in _OWN:
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
            f"sslmode), {', '.join(_OWN[:-1])} and {_OWN[-1]}"
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
        **_search(own, [str(known.get(key)) for key in _PLACE] + [schema]),
    )


def _search(own: dict[str, str], store: list[str]) -> dict[str, Any]:
    """Where searches run, and a folder for the index of ``store`` alone in the one that is named:
    processes share it, stores do not."""
    search, folder = own.get("search"), own.get("index")
    if search not in (None, *_SEARCHES):
        raise ValidationError(f"search must be local or server, not {search!r}")
    if folder is not None and (search != "local" or not folder):
        raise ValidationError(
            "index names the folder of the index of search=local: give both, and a folder"
        )
    if folder is None:
        return {"search": search}
    place = hashlib.sha256("\n".join(store).encode()).hexdigest()[:16]
    return {"search": search, "index": Path(folder).expanduser().absolute() / place}


def _number(options: dict[str, str], name: str, default: float) -> float:
    text = options.get(name)
    try:
        value = default if text is None else float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e6:
        raise ValidationError(f"{name} must be a number of 0 or more, not {text!r}")
    return value
