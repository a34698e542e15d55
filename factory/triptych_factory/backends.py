"""From a location to a store: an explicit dict of builders."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, cast

import attrs

from triptych.contracts import Store
from triptych.copies.notes import note_copy
from triptych.errors import NotFoundError
from triptych.installation import lacking
from triptych_factory.discovery import make_store_folder, user_store
from triptych_factory.locations import Location, parse_location
from triptych_factory.settings import Settings

if TYPE_CHECKING:
    from triptych_backends.qdrant.truth import TruthStore

_ENDED = 3600.0
"""Seconds after which a store that is being made is taken for one whose maker was killed."""


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
