"""The conformance kit on a store over three servers: three schemas of one, which it cannot tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from support.postgres import PostgresServer
from triptych.testing import BackendConformance, Child, Contents, Harness
from triptych.testing.service import ServiceTests

pytest.importorskip("psycopg", reason="psycopg is not installed: the extra postgres has it")

from contract.test_postgres import raw_of
from support.shards import make_sharded
from triptych_backends.memory import MemoryStore
from triptych_backends.shards import ShardedStore


@pytest.fixture
def server_urls(postgres_server: PostgresServer, postgres_url: str) -> Iterator[list[str]]:
    schemas = [f"{postgres_url.rpartition('=')[2]}_{number}" for number in (2, 3)]
    yield [postgres_url, *map(postgres_server.schema_url, schemas)]
    with postgres_server.connect() as driver:
        for schema in schemas:
            driver.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


@pytest.fixture
def sharded(server_urls: list[str]) -> str:
    return make_sharded(server_urls)


def raw_of_shards(
    server: PostgresServer, urls: list[str]
) -> Callable[[ShardedStore, str], Contents]:
    def raw(store: ShardedStore, dataset: str) -> Contents:
        at = sorted(store.router.servers()).index(store.router.place(dataset).server.name)
        return raw_of(server, urls[at])(store, dataset)  # type: ignore[arg-type]

    return raw


class TestShards(BackendConformance):
    @pytest.fixture
    def harness(
        self, postgres_server: PostgresServer, sharded: str, server_urls: list[str]
    ) -> Harness:
        return Harness(
            open=lambda: ShardedStore.open(sharded),
            persistent=True,
            shared=True,
            child=Child(opener="triptych_backends.shards:ShardedStore.open", argument=sharded),
            raw=raw_of_shards(postgres_server, server_urls),
            one_log=False,
        )


class TestShardsService(ServiceTests):
    @pytest.fixture
    def harness(self, sharded: str) -> Harness:
        return Harness(
            open=lambda: ShardedStore.open(sharded), persistent=True, scratch=MemoryStore
        )
