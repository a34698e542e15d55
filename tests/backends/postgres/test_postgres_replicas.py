"""A real streaming replica serves whoever only reads, and takes the primary's place."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from urllib.parse import quote

import attrs
import pytest

import triptych
from support.postgres import PostgresServer, running_server
from support.replicas import replay_position, running_replica, wait_until
from triptych.errors import StoreError
from triptych_testing.builders import put

pytest.importorskip("psycopg", reason="psycopg is not installed: the extra postgres has it")

from triptych_postgres import PostgresStore

DURABLE = ("autovacuum=off",)


@attrs.frozen
class Pair:
    primary: PostgresServer
    replica: PostgresServer


@pytest.fixture
def pair() -> Iterator[Pair]:
    with running_server(*DURABLE) as primary, running_replica(primary, *DURABLE) as replica:
        yield Pair(primary, replica)


def test_a_store_that_is_only_read_may_be_a_replica(pair: Pair) -> None:
    url = pair.replica.schema_url("kb")
    with triptych.open(pair.primary.schema_url("kb"), embedder="hash") as kb:
        kb.put_document("d", "a", "words of a kettle")
        wait_until(pair.replica, pair.primary)
        with triptych.open(url, embedder="hash", read_only=True) as reader:
            assert reader.search("kettle", dataset_id="d").hits
            kb.put_document("d", "b", "another kettle")
            wait_until(pair.replica, pair.primary)
            assert reader.get_document("d", "b").content == "another kettle"
            pair.primary.kill()
            for mode in ("bm25", "vector", "hybrid"):
                result = reader.search("kettle", dataset_id="d", mode=mode)
                assert {hit.doc_name for hit in result.hits} == {"a", "b"}
            assert reader.context("kettle", 200, dataset_id="d").pieces
            assert reader.health(probe=False).ok
            with pytest.raises(StoreError, match="read-only"):
                reader.put_document("d", "c", "text")
    with PostgresStore.open(url) as store, pytest.raises(StoreError, match="takes no writes"):
        put(store, "d", "c", "text")


@pytest.mark.slow
def test_a_promoted_replica_has_everything_that_was_acknowledged(pair: Pair) -> None:
    """With synchronous_commit = remote_apply; the URL names both hosts."""
    with pair.primary.connect() as driver:
        driver.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        driver.execute("ALTER SYSTEM SET synchronous_commit = 'remote_apply'")
        driver.execute("SELECT pg_reload_conf()")
    hosts = ",".join(str(each.folder / "s") for each in (pair.primary, pair.replica))
    url = (
        "postgresql+psycopg://postgres@/postgres?target_session_attrs=read-write&reconnect=60"
        f"&schema=kb&host={quote(hosts, safe='')}"
    )
    acknowledged: dict[str, int] = {}
    failures: list[BaseException] = []
    with PostgresStore.open(url) as store:

        def write() -> None:
            try:
                for number in range(100_000):
                    name = f"{number:05d}"
                    try:
                        acknowledged[name] = put(store, "d", name, f"text {number}").version
                    except StoreError:
                        if len(acknowledged) and ended.is_set():
                            return  # a write in the middle of the failover is not acknowledged
                    if after.is_set():
                        return
            except BaseException as error:  # noqa: BLE001 - the test raises it
                failures.append(error)

        ended, after = threading.Event(), threading.Event()
        writer = threading.Thread(target=write)
        writer.start()
        while len(acknowledged) < 30 and writer.is_alive():
            after.wait(0.01)
        pair.primary.kill()
        before = len(acknowledged)
        with pair.replica.connect() as driver:
            driver.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
            driver.execute("SELECT pg_promote(), pg_reload_conf()")
        while len(acknowledged) < before + 30 and writer.is_alive():
            after.wait(0.01)
        after.set()
        writer.join()
        assert not failures, failures
        names = {info.name: info.version for info in store.documents.list("d")}
        assert acknowledged.items() <= names.items()
        assert len(acknowledged) > before
    assert replay_position(pair.replica) > 0
