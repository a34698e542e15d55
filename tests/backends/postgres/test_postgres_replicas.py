"""Reads from a real streaming replica show what this process has written, or fail over."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from urllib.parse import quote

import attrs
import pytest

import triptych
from support.postgres import PostgresServer, running_server
from support.replicas import replay_position, running_replica, wait_until
from triptych.errors import StoreError, ValidationError
from triptych.records import HealthCheck
from triptych.testing.builders import derive, fill, keyword_query, put

pytest.importorskip("psycopg", reason="psycopg is not installed: the extra postgres has it")

from triptych_backends.postgres import PostgresStore
from triptych_backends.postgres.location import parse_url

DURABLE = ("autovacuum=off",)


@attrs.frozen
class Pair:
    primary: PostgresServer
    replica: PostgresServer

    def url(self, schema: str, **options: object) -> str:
        """The URL of a store that reads from the replica."""
        extra = "".join(f"&{name}={value}" for name, value in options.items())
        return (
            f"{self.primary.schema_url(schema)}&replica={quote(self.replica.url, safe='')}{extra}"
        )

    def pause(self, *, paused: bool) -> None:
        """Let the replica replay nothing, or go on."""
        with self.replica.connect() as driver:
            driver.execute(f"SELECT pg_wal_replay_{'pause' if paused else 'resume'}()")
            wanted = "paused" if paused else "not paused"
            while driver.execute("SELECT pg_get_wal_replay_pause_state()").fetchone() != (wanted,):
                pass


def replica_checks(store: PostgresStore) -> list[HealthCheck]:
    diagnostics = store.capabilities.diagnostics
    assert diagnostics is not None
    return [each for each in diagnostics.check_health() if each.name == "replica"]


@pytest.fixture
def pair() -> Iterator[Pair]:
    with running_server(*DURABLE) as primary, running_replica(primary, *DURABLE) as replica:
        yield Pair(primary, replica)


def test_a_process_reads_what_it_wrote_from_a_replica_or_the_primary(pair: Pair) -> None:
    with (
        PostgresStore.open(pair.url("kb")) as store,
        PostgresStore.open(pair.url("kb", replica_wait=60)) as patient,
    ):
        fill(store, "d", {"a": "the first words", "b": "other words"})
        wait_until(pair.replica, pair.primary)
        with PostgresStore.open(pair.url("kb")) as reader:
            assert len(reader.chunks.search(keyword_query("words", "d"))) == 2

            # A replica that stands still: this process reads the primary, another the replica.
            pair.pause(paused=True)
            for number in range(3):
                put(store, "d", "a", f"written {number}")
                derive(store, "d", "a")
                found = store.documents.get("d", "a")
                assert found is not None
                assert found.content == f"written {number}"
                assert len(store.chunks.search(keyword_query("written", "d"))) == 1
                assert store.documents.list_datasets() == ["d"]
            old = reader.documents.get("d", "a")
            assert old is not None
            assert old.content == "the first words"
            assert reader.chunks.search(keyword_query("written", "d")) == []
            (status,) = store.database.replicas()
            assert (status.behind or 0) > 0
            (check,) = replica_checks(store)
            assert re.search(r"is [1-9][\d,]* bytes behind", check.detail)

            # What another has put meanwhile is compared with, and not what the replica has.
            assert put(reader, "d", "a", "the first words").version == 5
            assert reader.set_setting("s", "1", expected=None)
            assert store.get_setting("s") == "1"
            assert store.hold_leases("q", ["x"], holder="h", seconds=60) == ["x"]

            # Who waits long enough for a replica reads from it.
            threading.Timer(0.2, lambda: pair.pause(paused=False)).start()
            put(patient, "d", "c", "patience")
            assert patient.documents.get("d", "c") is not None

            wait_until(pair.replica, pair.primary)
            for each in (store, reader, patient):
                assert each.documents.get("d", "c") is not None
            (status,) = store.database.replicas()
            assert status.behind == 0
            pair.primary.kill()
            for each in (store, reader, patient):
                assert each.documents.get("d", "c") is not None, "it reads from the replica"
                assert len(each.chunks.search(keyword_query("words", "d"))) > 0


def test_searches_go_on_without_the_primary(pair: Pair) -> None:
    with triptych.open(pair.url("kb"), embedder="hash") as kb:
        kb.put_document("d", "a", "words of a kettle")
        wait_until(pair.replica, pair.primary)
        assert kb.search("kettle", dataset_id="d").hits
        pair.primary.kill()
        for mode in ("bm25", "vector", "hybrid"):
            result = kb.search("kettle", dataset_id="d", mode=mode)
            assert [hit.doc_name for hit in result.hits] == ["a"]
        assert kb.context("kettle", 200, dataset_id="d").pieces


@pytest.mark.slow
def test_reads_go_on_without_the_replica(pair: Pair) -> None:
    with PostgresStore.open(pair.url("kb")) as store:
        fill(store, "d", {"a": "words"})
        wait_until(pair.replica, pair.primary)
        assert len(store.chunks.search(keyword_query("words", "d"))) == 1
        pair.replica.kill()
        for _ in range(3):
            assert store.documents.get("d", "a") is not None
            assert len(store.chunks.search(keyword_query("words", "d"))) == 1
        (check,) = replica_checks(store)
        assert check.status == "warning"
        assert "reads do not use the replica" in check.detail
        put(store, "d", "b", "more")
        pair.replica.start()
        wait_until(pair.replica, pair.primary)
        assert store.documents.get("d", "b") is not None
        (status,) = store.database.replicas()
        assert status.error == ""


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


def test_the_url_names_replicas() -> None:
    found = parse_url(
        "postgresql+psycopg://me:secret@one/kb?schema=s&replica=postgresql%3A%2F%2Ftwo%2Fkb"
        "&replica=postgresql%3A%2F%2Fyou@three%2Fkb&replica_wait=2"
    )
    assert [each.where for each in found.replicas] == [
        "postgresql://two/kb",
        "postgresql://***@three/kb",
    ]
    assert [each.schema for each in found.replicas] == ["s", "s"]
    assert "user=me password=secret" in found.replicas[0].conninfo
    assert "secret" not in found.replicas[1].conninfo
    assert found.replica_wait == 2
    with pytest.raises(ValidationError, match="is not a postgresql:// URL"):
        parse_url("postgresql://one/kb?replica=sqlite:///kb.db")
