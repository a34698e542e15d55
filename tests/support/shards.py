"""Stores on several servers."""

from __future__ import annotations

from collections.abc import Sequence

from triptych_backends.postgres.database import PostgresDatabase
from triptych_backends.postgres.location import parse_url
from triptych_backends.shards import ShardedStore
from triptych_backends.shards.placement import PlacementMap

__all__ = ["make_sharded", "open_sharded", "sharded_url"]


def sharded_url(first: str) -> str:
    """The URL of the store whose first server has the URL ``first``."""
    return first.replace("postgresql+psycopg://", "postgresql+shards://", 1)


def make_sharded(urls: Sequence[str]) -> str:
    """Make a store over the servers with these URLs; its URL."""
    database = PostgresDatabase.open(
        parse_url(urls[0]), read_only=False, lock_timeout=30, create=True, history=10
    )
    try:
        servers = PlacementMap(database)
        servers.add_server("first", "")
        for number, url in enumerate(urls[1:], start=2):
            servers.add_server(f"server{number}", url)
    finally:
        database.close()
    return sharded_url(urls[0])


def open_sharded(url: str) -> ShardedStore:
    """Open a store; importable by other processes."""
    return ShardedStore.open(url)
