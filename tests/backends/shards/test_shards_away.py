"""A server that is away stops nobody who does not need it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.postgres import PostgresServer, running_server
from triptych.errors import NotFoundError, StoreError
from triptych.testing.builders import derive, fill, keyword_query, put

pytest.importorskip("psycopg", reason="psycopg is not installed: the extra postgres has it")

from support.shards import make_sharded, sharded_url
from triptych_backends.shards import ShardedStore


def test_what_is_on_other_servers_goes_on(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    with running_server("autovacuum=off") as other:
        url = make_sharded([postgres_url, f"{other.schema_url('two')}&reconnect=0"])
        with ShardedStore.open(url) as store, ShardedStore.open(url) as later:
            for name in ("a", "b", "c"):
                fill(store, name, {"doc": f"words of {name}"})
            away = [
                each for each in ("a", "b", "c") if store.router.place(each).server.name != "first"
            ]
            assert away == ["b"]
            other.kill()

            # One that has used the server, and one that has not opened it yet.
            for each in (store, later):
                calls: list[Callable[[], object]] = [
                    lambda each=each: each.documents.get("b", "doc"),
                    lambda each=each: put(each, "b", "more", "text"),
                    lambda each=each: each.chunks.search(keyword_query("words", "a", "b")),
                    each.documents.list_datasets,
                ]
                for call in calls:
                    with pytest.raises(StoreError, match=r"the server .server2. .* is away"):
                        call()
                put(each, "a", "more", "text")
                derive(each, "a", "more")
                assert len(each.chunks.search(keyword_query("words text", "a", "c"))) == 3

            other.start()
            for each in (store, later):
                assert each.documents.get("b", "doc") is not None
                assert each.documents.list_datasets() == ["a", "b", "c"]
                assert len(each.chunks.search(keyword_query("words", "a", "b"))) == 2


def test_a_plain_store_becomes_the_first_server(postgres_url: str) -> None:
    from triptych_backends.postgres import PostgresStore

    with PostgresStore.open(postgres_url) as plain:
        fill(plain, "old", {"doc": "what was there before"})
    with ShardedStore.open(sharded_url(postgres_url)) as store:
        store.router.map.add_server("other", f"{postgres_url}_other")
        assert store.documents.list_datasets() == ["old"]
        assert len(store.chunks.search(keyword_query("before", "old"))) == 1
        put(store, "old", "doc", "changed")
        put(store, "new", "doc", "new")
        assert store.router.place("old").server.name == "first"
        assert store.router.place("new").server.name == "other"
        with pytest.raises(NotFoundError, match="'first', 'other'"):
            store.router.server("nowhere")
