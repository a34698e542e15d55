"""A snapshot shows all servers as they were at one moment."""

from __future__ import annotations

import threading

import pytest

from support.postgres import PostgresServer
from triptych.errors import NotAvailableError, StoreError
from triptych.records import NewDocument
from triptych.replication import copy_store
from triptych.testing.builders import derive, keyword_query, put

pytest.importorskip("psycopg", reason="psycopg is not installed: the extra postgres has it")

from support.shards import make_sharded
from triptych_backends.memory import MemoryStore
from triptych_backends.shards import ShardedStore


def numbers(store: object) -> tuple[int, int]:
    """How far the writer of the test is in each dataset, which are on two servers."""
    found = [store.documents.get(name, "doc") for name in ("a", "b")]  # type: ignore[attr-defined]
    first, second = (int(each.content) for each in found)
    return first, second


def test_two_servers_are_shown_at_one_moment(postgres_server: PostgresServer) -> None:
    urls = [postgres_server.schema_url(f"moment_{at}") for at in range(2)]
    url = make_sharded([urls[0], f"{urls[1]}&pool_size=2"])
    with ShardedStore.open(url) as store, ShardedStore.open(url) as other:
        for name in ("a", "b"):
            put(store, name, "doc", "0")
            derive(store, name, "doc")
        seen: list[tuple[int, int]] = []

        def look() -> None:
            with store.snapshot() as shown:
                seen.append(numbers(shown))
                assert numbers(shown) == seen[-1]

        def write() -> None:
            for name in ("a", "b"):  # never the second before the first
                other.documents.put(name, NewDocument(name="doc", content="1"))

        # It waits for a connection to the second server, and two writes come in between.
        database = store.router.server("server2").database
        with database.reading(), database.reading():
            threads = [threading.Thread(target=look), threading.Thread(target=write)]
            for thread in threads:
                thread.start()
                thread.join(0.3)
        for thread in threads:
            thread.join()
        assert seen in ([(0, 0)], [(1, 0)], [(1, 1)])
        assert numbers(store) == (1, 1)
        with store.snapshot() as shown, pytest.raises(NotAvailableError):
            shown.chunks.search(keyword_query("text", "a"))
        with ShardedStore.open(url, read_only=True) as reader, reader.snapshot() as shown:
            assert numbers(shown) == numbers(store)
            with pytest.raises(StoreError, match="snapshot"):
                shown.documents.put("a", NewDocument(name="doc", content="x"))
        with MemoryStore() as copied:
            copy_store(store, copied)
            assert numbers(copied) == numbers(store)
