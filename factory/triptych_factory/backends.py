"""From a location to a store: an explicit dict of builders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import attrs

from triptych.contracts import Store
from triptych.errors import NotFoundError
from triptych.installation import lacking
from triptych_factory.discovery import make_store_folder, user_store
from triptych_factory.locations import Location, parse_location
from triptych_factory.settings import Settings

if TYPE_CHECKING:
    from triptych_backends.qdrant.truth import TruthStore

__all__ = ["BUILDERS", "open_store", "store_exists"]


def _memory(location: Location, settings: Settings, create: bool) -> Store:
    from triptych_backends.memory import MemoryStore

    return MemoryStore(history=settings.history)


def _sqlite(location: Location, settings: Settings, create: bool) -> Store:
    from triptych_backends.sqlite import SqliteStore

    assert location.path is not None
    return SqliteStore.open(
        location.path,
        read_only=settings.read_only,
        lock_timeout=settings.lock_timeout,
        history=settings.history,
        background_index=settings.background_index,
    )


def _files(location: Location, settings: Settings, create: bool) -> Store:
    from triptych_backends.filesystem import FilesStore

    assert location.path is not None
    return FilesStore.open(
        location.path,
        read_only=settings.read_only,
        lock_timeout=settings.lock_timeout,
        history=settings.history,
        background_index=settings.background_index,
    )


@contextmanager
def _needs_psycopg() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "psycopg":
            raise
        raise lacking(
            "a store on PostgreSQL needs psycopg, which is not installed", "postgres"
        ) from error


def _postgresql(location: Location, settings: Settings, create: bool) -> Store:
    with _needs_psycopg():
        from triptych_backends.postgres import PostgresStore
    return PostgresStore.open(
        location.address,
        read_only=settings.read_only,
        lock_timeout=settings.lock_timeout,
        create=create,
        history=settings.history,
    )


def _qdrant(location: Location, settings: Settings, create: bool) -> Store:
    try:
        from triptych_backends.qdrant import ClientCollections, QdrantStore, parse_url
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("qdrant_client", "grpc"):
            raise
        raise lacking(
            "searches in Qdrant need qdrant-client, which is not installed", "qdrant"
        ) from error
    found = parse_url(location.address)
    truth = parse_location(found.truth)
    # The local index is asked for sparse vectors and statistics alone: no process of its own.
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
    "sqlite": _sqlite,
    "files": _files,
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


def store_exists(location: Location) -> bool:
    """Whether there is a store at ``location``; one in memory always is.

    Of one on a server it is not known before it is opened.
    """
    if location.path is None:
        return True
    # A folder that holds files is not a store yet.
    return (location.path / ".triptych" if location.scheme == "files" else location.path).exists()
