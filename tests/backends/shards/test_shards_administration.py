"""Servers are added, named and changed; datasets are placed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.cli_run import ran
from support.postgres import PostgresServer
from triptych.errors import ConflictError, NotFoundError, StoreError, ValidationError
from triptych.testing.builders import fill, put

pytest.importorskip("psycopg", reason="psycopg is not installed: the extra postgres has it")

from support.shards import sharded_url
from triptych_backends.postgres import PostgresStore
from triptych_backends.shards import ShardedStore


@pytest.fixture
def urls(postgres_server: PostgresServer, postgres_url: str) -> Iterator[list[str]]:
    schemas = [f"{postgres_url.rpartition('=')[2]}_{at}" for at in (2, 3)]
    yield [postgres_url, *map(postgres_server.schema_url, schemas)]
    with postgres_server.connect() as driver:
        for schema in schemas:
            driver.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


def test_servers_are_added_with_what_they_have(urls: list[str]) -> None:
    for at, url in enumerate(urls):
        with PostgresStore.open(url) as plain:
            fill(plain, f"had{at}", {"doc": f"on server {at}"})
            if at != 1:
                fill(plain, "twice", {"doc": "of the same name"})
    with ShardedStore.open(sharded_url(urls[0])) as store:
        assert store.add_server("second", urls[1]).datasets == ("had1",)
        assert store.add_server("second", urls[1]).datasets == ("had1",)
        assert store.documents.list_datasets() == ["had0", "had1", "twice"]
        with pytest.raises(ConflictError, match="with another URL"):
            store.add_server("second", urls[2])
        with pytest.raises(ConflictError, match="belongs to a store already"):
            store.add_server("again", urls[1])
        with pytest.raises(ConflictError, match="belongs to a store already"):
            store.add_server("again", urls[0])
        with pytest.raises(ValidationError, match="cannot name a server"):
            store.add_server("a b", urls[2])
        with pytest.raises(ConflictError, match=r"'twice'.* 'first'"):
            store.add_server("third", urls[2])
        assert [each.name for each in store.servers()] == ["first", "second"]

        store.place_dataset("new", "second")
        assert put(store, "new", "doc", "text").version == 1
        assert store.router.place("new").server.name == "second"
        with pytest.raises(ConflictError, match="on the server 'second' already"):
            store.place_dataset("new", "first")
        with pytest.raises(NotFoundError, match="'first', 'second'"):
            store.place_dataset("newer", "third")
        with pytest.raises(ConflictError, match="change that URL"):
            store.change_server("first", urls[2])


def test_another_database_does_not_become_a_server(urls: list[str]) -> None:
    """Else two names are one server, and a move from one to the other loses the dataset."""
    with ShardedStore.open(sharded_url(urls[0])) as store:
        store.add_server("second", urls[1])
        store.place_dataset("d", "second")
        put(store, "d", "doc", "text")
        with pytest.raises(StoreError, match="there is no store"):
            store.change_server("second", urls[2])
        store.add_server("third", urls[2])
        for wrong in (urls[0], urls[2]):
            with pytest.raises(ConflictError, match="is not the server 'second' of this store"):
                store.change_server("second", wrong)
        store.change_server("second", urls[1] + "&pool_size=3")
        assert [each.datasets for each in store.servers()] == [(), ("d",), ()]


def test_the_commands(urls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIPTYCH_URL", sharded_url(urls[0]))
    monkeypatch.setenv("TRIPTYCH_EMBEDDER", "none")
    assert ran(["shards", "add", "second", urls[1]]).code == 0
    assert ran(["shards", "place", "d", "second"]).code == 0
    put_ = ran(["put", "-", "--name", "a.md", "--dataset", "d"], stdin=b"a lamp")
    assert put_.code == 0, put_.err
    moved = ran(["--json", "shards", "move", "d", "first"])
    assert moved.code == 0, moved.err
    assert (moved.json["source"], moved.json["destination"]) == ("second", "first")
    listed = ran(["--json", "shards", "list"]).json["servers"]
    assert [(each["name"], each["datasets"]) for each in listed] == [
        ("first", ["d"]),
        ("second", []),
    ]
    assert "postgres@" not in listed[1]["url"]
    assert ran(["search", "lamp", "--dataset", "d"]).text.startswith("a.md")
    refused = ran(["--store", urls[1], "shards", "list"])
    assert refused.code != 0
    assert "not one over several servers" in refused.err
