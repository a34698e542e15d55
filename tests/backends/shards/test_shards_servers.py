"""Three real servers, one with a replica that takes its place."""

from __future__ import annotations

import threading
from urllib.parse import quote

import pytest

from support.postgres import running_server
from support.replicas import running_replica, wait_until
from triptych.errors import StoreError
from triptych.testing.builders import derive, fill, keyword_query, put

pytest.importorskip("psycopg", reason="psycopg is not installed: the extra postgres has it")

from support.shards import sharded_url
from triptych_backends.shards import ShardedStore

pytestmark = pytest.mark.slow

DURABLE = ("autovacuum=off",)


def test_a_server_is_replaced_by_its_replica() -> None:
    with (
        running_server(*DURABLE) as one,
        running_server(*DURABLE) as two,
        running_server(*DURABLE) as three,
        running_replica(two, *DURABLE) as replica,
        ShardedStore.open(sharded_url(one.schema_url("kb"))) as store,
        ShardedStore.open(sharded_url(one.schema_url("kb"))) as other,
    ):
        beside = f"&reconnect=0&replica={quote(replica.url, safe='')}"
        store.add_server("second", two.schema_url("kb") + beside)
        store.add_server("third", three.schema_url("kb"))
        for name in ("a", "b", "c"):
            fill(store, name, {"doc": f"words of {name}", "more": f"extra of {name}"})
        assert [each.datasets for each in store.servers()] == [("a",), ("b",), ("c",)]
        wait_until(replica, two)
        query = keyword_query("words extra", "a", "b", "c")
        assert len(other.chunks.search(query)) == 6
        put(store, "b", "doc", "words of b, again")
        assert derive(store, "b", "doc")
        found = store.documents.get("b", "doc")
        assert found is not None
        assert found.version == 2
        checks = {each.detail for each in store.check_health() if each.name == "replica"}
        assert any("server second: the replica" in each for each in checks)
        wait_until(replica, two)

        two.kill()
        # Who has written nothing since reads from the replica; nobody writes.
        assert len(other.chunks.search(query)) == 6
        with pytest.raises(StoreError, match="the server 'second' of this store is away"):
            put(other, "b", "doc", "lost")
        put(other, "a", "doc", "words of a, again")

        with replica.connect() as driver:
            driver.execute("SELECT pg_promote()")
        store.change_server("second", replica.schema_url("kb"))
        for each in (store, other):
            again = each.documents.get("b", "doc")
            assert again is not None
            assert again.content == "words of b, again"
        for each in (store, other):
            put(each, "b", "doc", f"by {id(each)}")
            assert derive(each, "b", "doc")
            assert len(each.chunks.search(query)) >= 5

        # What was on the one that is gone moves on, with a writer beside it.
        ended = threading.Event()
        written = [0]

        def write() -> None:
            while not ended.wait(0.01):
                written[0] = put(other, "b", "beat", f"beat {written[0]}").version

        writer = threading.Thread(target=write)
        writer.start()
        store.move_dataset("b", "third")
        ended.set()
        writer.join()
        beat = store.documents.get("b", "beat")
        assert beat is not None
        assert beat.version == written[0] > 0
        assert [each.datasets for each in store.servers()] == [("a",), (), ("b", "c")]


def test_a_move_copies_what_the_primary_has() -> None:
    with (
        running_server(*DURABLE) as one,
        running_replica(one, *DURABLE) as replica,
        running_server(*DURABLE) as two,
    ):
        beside = f"&replica={quote(replica.url, safe='')}"
        url = sharded_url(one.schema_url("kb") + beside)
        with ShardedStore.open(url) as store, ShardedStore.open(url) as other:
            store.add_server("second", two.schema_url("kb"))
            fill(store, "a", {"doc": "what the replica has"})
            wait_until(replica, one)
            assert other.documents.get("a", "doc") is not None
            with replica.connect() as driver:
                driver.execute("SELECT pg_wal_replay_pause()")
            put(store, "a", "doc", "what the primary has")
            put(store, "a", "new", "another")
            other.move_dataset("a", "second")
            for each in (store, other):
                found = each.documents.get("a", "doc")
                assert found is not None
                assert found.content == "what the primary has"
                assert each.documents.get("a", "new") is not None
            with one.connect() as driver:
                assert driver.execute("SELECT count(*) FROM kb.document").fetchone() == (0,)
