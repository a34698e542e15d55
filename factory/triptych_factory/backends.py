"""From a location to a store, by an explicit dict of builders, or to the client of a server."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from glob import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, cast

import attrs

from triptych.contracts import Store
from triptych.copies.notes import note_copy
from triptych.errors import NotAvailableError, NotFoundError, ValidationError
from triptych.installation import lacking
from triptych.resources.urls import shown_url
from triptych.service import KnowledgeBase
from triptych_factory.locations import (
    Location,
    is_server,
    make_store_folder,
    parse_location,
    user_store,
)
from triptych_factory.provider_access import TRUSTED_HOSTS, ca_file, is_trusted, load
from triptych_factory.settings import Settings

if TYPE_CHECKING:
    from triptych_qdrant.truth import TruthStore

_ENDED = 3600.0
"""Seconds after which a store that is being made is taken for one whose maker was killed."""


def _memory(location: Location, settings: Settings, create: bool) -> Store:
    from triptych_backends.memory import MemoryStore

    return MemoryStore(history=settings.history)


def _on_disk(kind: str, location: Location, settings: Settings, create: bool) -> Store:
    opened: Store = load(f"triptych_backends.{kind}").open(
        location.path,
        read_only=settings.read_only,
        lock_timeout=settings.lock_timeout,
        history=settings.history,
        background_index=settings.background_index,
    )
    return opened


_DRIVERS = {
    "psycopg": ("psycopg", "postgres"),
    **dict.fromkeys(("qdrant_client", "grpc"), ("qdrant-client", "qdrant")),
}
"""What packages of databases' drivers are called, and the extras that bring them, by module."""


@contextmanager
def driver_needed(what: str) -> Iterator[None]:
    """Say that ``what`` needs a database's driver, and name its extra, where it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        package, extra = _DRIVERS.get((error.name or "").partition(".")[0], ("", ""))
        if not package:
            raise
        raise lacking(f"{what} {package}, which is not installed", extra) from error


def _postgresql(location: Location, settings: Settings, create: bool) -> Store:
    with driver_needed("a store on PostgreSQL needs"):
        from triptych_postgres import PostgresStore
    return PostgresStore.open(
        location.address,
        read_only=settings.read_only,
        lock_timeout=settings.lock_timeout,
        create=create,
        history=settings.history,
    )


def _qdrant(location: Location, settings: Settings, create: bool) -> Store:
    with driver_needed("searches in Qdrant need"):
        from triptych_qdrant import ClientCollections, QdrantStore, parse_url
    found = parse_url(location.address)
    truth = parse_location(found.truth)
    # The local index is asked for other lanes and statistics alone: no process of its own.
    kept = open_store(truth, attrs.evolve(settings, background_index=False), create=create)
    return QdrantStore(
        cast("TruthStore", kept),
        ClientCollections(
            found.connect,
            found.where,
            secrets=[found.api_key] if found.api_key else [],
            shard_number=found.shard_number,
            replication_factor=found.replication_factor,
        ),
        prefix=found.prefix,
        exact=found.exact,
        falls_back=found.falls_back,
    )


BUILDERS: Mapping[str, Callable[[Location, Settings, bool], Store]] = {
    "memory": _memory,
    "sqlite": partial(_on_disk, "sqlite:SqliteStore"),
    "files": partial(_on_disk, "filesystem:FilesStore"),
    "postgresql": _postgresql,
    "qdrant": _qdrant,
}


def open_store(location: Location, settings: Settings, *, create: bool = True) -> Store:
    """Open the store at ``location``.

    Raises:
        NotFoundError: there is none, and ``create`` is False or the settings are read-only.
        StoreError: it cannot be opened.
    """
    if location.path is not None and not store_exists(location):
        if not create or settings.read_only:
            if location.path == user_store():
                raise NotFoundError(
                    "there is no store in this folder or above it, and none of your own at "
                    f"{location.path}: put or sync something first"
                ).hinted("`triptych init` makes a store for this folder")
            raise NotFoundError(
                f"there is no store at {location.path}: put a document there first, or name "
                "another store"
            )
        make_store_folder(location.path)
        if not location.path.parent.is_dir():
            raise NotFoundError(
                f"the folder {location.path.parent} does not exist: make it first, or name "
                "another store"
            )
    return BUILDERS[location.scheme](location, settings, create)


def open_target(location: Location, settings: Settings, again: str) -> Store:
    """`open_store` of a store to copy into; a new one says from its first moment that it is
    unfinished, and that ``again`` finishes it. One on a server says so once the copy begins.
    """
    path = location.path
    if path is not None and not store_exists(location) and not settings.read_only:
        with suppress(OSError):  # what is wrong is said where the store is opened
            make_store_folder(path)
            begins = f".{path.name}.new-"
            for left in path.parent.glob(f"{escape(begins)}*"):
                if time.time() - left.stat().st_mtime > _ENDED:
                    shutil.rmtree(left, ignore_errors=True)
            with TemporaryDirectory(prefix=begins, dir=path.parent) as folder:
                _make_unfinished(location, Path(folder) / path.name, settings, again)
    return open_store(location, settings)


def _make_unfinished(location: Location, draft: Path, settings: Settings, again: str) -> None:
    assert location.path is not None
    kind = "files" if location.scheme == "files" else "sqlite"
    store = open_store(Location(scheme=kind, path=draft), settings)
    try:
        kept = store.capabilities.settings
        assert kept is not None
        note_copy(kept, (), again)
    finally:
        store.close()
    if kind == "sqlite":
        os.link(draft, location.path)  # which replaces nothing
    else:
        draft.rename(location.path)


def store_exists(location: Location) -> bool:
    """Whether there is a store at ``location``; one in memory always is.

    Of one on a server it is not known before it is opened.
    """
    if location.path is None:
        return True
    # A folder that holds files is not a store yet.
    return (location.path / ".triptych" if location.scheme == "files" else location.path).exists()


_OWN = frozenset({"url", "api_key", "ca_file"})


def check_local(settings: Settings, doing: str) -> None:
    """Refuse a server where ``doing`` needs the store itself.

    Raises:
        NotAvailableError: the settings name a server.
    """
    if is_server(settings.url):
        raise NotAvailableError(
            f"{doing} works on the store itself, and {shown_url(settings.url)} is a knowledge base "
            "on a server: run it where the server runs; `triptych put PATH` sends files there"
        )


def connect(
    settings: Settings, given: Iterable[str] = (), environ: Mapping[str, str] | None = None
) -> KnowledgeBase:
    """The knowledge base at the address that ``settings`` name; nothing is asked of it yet.

    ``given`` are names of arguments that are the server's business. A key goes to an address that
    the user gave, or that stands in the file of the key, or whose host the user trusts.

    Raises:
        ValidationError: the address or the key is invalid, the key may not go there, or an
            argument is the server's business.
        NotAvailableError: the extra ``http`` is not installed.
    """
    named = {name for name, source in settings.sources.items() if source == "argument"} - _OWN
    if wrong := sorted({*named, *given}):
        raise ValidationError(
            f"{', '.join(wrong)}: a knowledge base on a server is configured on the server; leave "
            "this out, or give the path of a store"
        )
    key = settings.api_key
    if key and settings.origin("url") == "file" and settings.origin("api_key") != "file":
        environ = os.environ if environ is None else environ
        if not is_trusted(settings.url, environ):
            raise ValidationError(
                f"the key in TRIPTYCH_API_KEY is not sent to {shown_url(settings.url)!r:.200}, "
                f"which {settings.sources['url']} names: if you trust that address with it, name "
                f"its host in {TRUSTED_HOSTS}, or set TRIPTYCH_URL"
            )
    try:
        # The one import that points upwards here: to the records of a server belongs its wire.
        from triptych_server.client import connect as connected
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("triptych"):
            raise
        raise lacking(
            "a knowledge base on a server needs the package httpx2, which is not installed", "http"
        ) from error
    authorities = settings.ca_file or ca_file(os.environ if environ is None else environ)
    return connected(settings.url, key=key, ca_file=authorities)
