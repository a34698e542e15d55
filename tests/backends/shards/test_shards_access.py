"""An access to datasets of two servers shows them as a store of their own would."""

from __future__ import annotations

import pytest

from support.postgres import PostgresServer
from triptych.access import Access
from triptych.records import ChangePage
from triptych.service import Service

pytest.importorskip("psycopg", reason="psycopg is not installed: the extra postgres has it")

from support.shards import make_sharded
from triptych_backends.memory import MemoryStore
from triptych_backends.shards import ShardedStore


def told(page: ChangePage) -> list[tuple[str, str, str]]:
    return [(each.dataset_id, each.name, each.kind) for each in page.changes]


def test_an_access_over_two_servers(postgres_server: PostgresServer) -> None:
    url = make_sharded([postgres_server.schema_url(f"access_{at}") for at in range(2)])
    alone = Service(store=MemoryStore())
    texts = {"a": "a lamp, a lamp", "b": "the lighthouse has a lamp", "c": "lamps of another"}
    with ShardedStore.open(url) as store:
        service = Service(store=store)
        for dataset, text in texts.items():
            service.put_document(dataset, "doc.md", text)
            if dataset != "c":
                alone.put_document(dataset, "doc.md", text)
        assert store.router.place("a").server is not store.router.place("b").server
        caller = service.restricted(Access(dataset_ids=("a", "b")))
        for where in ({"scope": "all"}, {"dataset_ids": ["a", "b"]}):
            shown = caller.search("lighthouse lamp", **where)  # type: ignore[arg-type]
            wanted = alone.search("lighthouse lamp", **where)  # type: ignore[arg-type]
            assert [(hit.dataset_id, hit.score) for hit in shown.hits] == [
                (hit.dataset_id, hit.score) for hit in wanted.hits
            ]
        page = caller.changes()
        assert told(page) == [("a", "doc.md", "added"), ("b", "doc.md", "added")]
        service.put_document("c", "more.md", "nobody sees it")
        store.move_dataset("c", "server2")
        assert told(caller.changes(since=page.cursor)) == []
        service.put_document("b", "more.md", "another")
        service.delete_document("a", "doc.md")
        first = caller.changes(since=page.cursor, limit=1)
        assert (told(first), first.reset, first.more) == (
            [("a", "doc.md", "deleted")],
            False,
            True,
        )
        then = caller.changes(since=first.cursor)
        assert (told(then), then.more) == ([("b", "more.md", "added")], False)
        assert told(caller.changes(since=page.cursor, dataset_id="b")) == told(then)
    alone.close()
