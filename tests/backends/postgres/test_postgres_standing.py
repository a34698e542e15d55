"""Waits for a server that stands still (SIGSTOP) end on the client's side."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext

import pytest

from support.postgres import PostgresServer, running_server
from triptych import Progress, Service, deadline
from triptych.errors import CancelledError, StoreAwayError, StoreError
from triptych_testing.builders import fill, keyword_query, put

pytest.importorskip("psycopg", reason="psycopg is not installed: the extra postgres has it")

from triptych_postgres import PostgresStore, parse_url
from triptych_postgres.connection import connect
from triptych_postgres.watched import WatchedConnection, server_answers

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="finds the server's processes in /proc"),
]
EVER = 40.0
"""Seconds within which a wait ends that would last as long as the server stands; no measure."""


@contextmanager
def woken(server: PostgresServer) -> Iterator[None]:
    """A server that stands still; if a call waits for ever, it goes on, and the test fails."""
    late = threading.Event()
    with ExitStack() as held:
        standing = held.enter_context(ExitStack())
        standing.enter_context(server.standing())

        def wake() -> None:
            late.set()
            standing.close()

        timer = threading.Timer(EVER, wake)
        timer.start()
        held.callback(timer.cancel)
        yield
        assert not late.is_set(), "a call waited until the server went on"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_server() as found:
        yield found


CALLS: dict[str, Callable[[PostgresStore], object]] = {
    "get": lambda store: store.documents.get("d", "a"),
    "search": lambda store: store.chunks.search(keyword_query("words", "d")),
    "put": lambda store: put(store, "d", "a", "newer"),
    "snapshot": lambda store: store.stats("d", chunker_sig="", embed_sig=""),
}


@pytest.mark.parametrize("name", CALLS)
def test_deadline_ends_a_wait_for_a_server_that_stands(name: str, server: PostgresServer) -> None:
    with PostgresStore.open(server.schema_url(f"deadline_{name}")) as store:
        fill(store, "d", {"a": "words"})
        CALLS[name](store)
        with woken(server), deadline(1), pytest.raises(CancelledError):
            CALLS[name](store)
        CALLS[name](store)  # it goes on with another connection


@pytest.mark.parametrize("name", ["get", "put"])
def test_wait_ends_without_a_deadline_too(name: str, server: PostgresServer) -> None:
    url = (
        f"{server.schema_url(f'plain_{name}')}&statement_timeout=1&reconnect=0.1&connect_timeout=2"
    )
    with PostgresStore.open(url) as store:
        fill(store, "d", {"a": "words"})
        with woken(server), pytest.raises(StoreError, match="check that the server runs"):
            CALLS[name](store)
        CALLS[name](store)


def test_bulk_put_ends_with_the_first_batch_that_meets_a_server_that_stands(
    server: PostgresServer,
) -> None:
    url = f"{server.schema_url('bulk')}&statement_timeout=1&reconnect=0.1&connect_timeout=2"
    documents = {f"n{number}.txt": f"words {number}" for number in range(6_000)}
    with PostgresStore.open(url) as store, ExitStack() as held:
        service = Service(store)
        stopped: list[int] = []

        def stop(progress: Progress) -> None:
            if not stopped:
                stopped.append(progress.done)
                held.enter_context(woken(server))

        with pytest.raises(StoreAwayError, match="check that the server runs"):
            service.put_documents("d", documents, progress=stop)
        held.close()
        assert 0 < stopped[0] <= len(service.list_documents("d")) < 1_000
        report = service.put_documents("d", documents)
        assert (report.added + report.unchanged, report.failed) == (6_000, ())


def test_threads_that_wait_for_a_connection_end_with_their_deadlines(
    server: PostgresServer,
) -> None:
    with PostgresStore.open(f"{server.schema_url('threads')}&pool_size=2") as store:
        fill(store, "d", {"a": "words"})
        ended: list[str] = []

        def ask() -> None:
            with deadline(1), pytest.raises(CancelledError):
                CALLS["get"](store)
            ended.append("so")

        with woken(server):
            threads = [threading.Thread(target=ask) for _ in range(6)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
        assert len(ended) == 6


def test_searches_that_queue_for_a_connection_end_with_their_deadlines(
    server: PostgresServer,
) -> None:
    with PostgresStore.open(server.schema_url("queue")) as store:
        fill(store, "d", {"a": "words"})
        service = Service(store)
        took: list[float] = []

        def search() -> None:
            began = time.monotonic()
            with deadline(3), pytest.raises(CancelledError):
                service.search("words", dataset_id="d")
            took.append(time.monotonic() - began)

        with woken(server):
            threads = [threading.Thread(target=search) for _ in range(20)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
        assert len(took) == 20
        assert max(took) < 4.5


def test_asking_whether_the_server_stands_ends_with_the_deadline_too(
    server: PostgresServer,
) -> None:
    with PostgresStore.open(f"{server.schema_url('asking')}&statement_timeout=1") as store:
        fill(store, "d", {"a": "words"})
        with woken(server), deadline(1.3):
            began = time.monotonic()
            with pytest.raises(CancelledError):
                store.documents.get("d", "a")
            assert time.monotonic() - began < 2.5


@pytest.mark.parametrize("stands", [True, False], ids=["stands", "is away"])
def test_health_waits_once_and_says_who_does_not_answer(stands: bool) -> None:
    with running_server() as server, PostgresStore.open(server.schema_url("health")) as store:
        fill(store, "d", {"a": "words"})
        service = Service(store)
        assert service.health().ok
        if not stands:
            server.stop()
        with server.standing() if stands else nullcontext():
            began = time.monotonic()
            health = service.health()
            assert time.monotonic() - began < 8
            with deadline(1), pytest.raises(CancelledError):
                service.health()
        (failed,) = [each for each in health.checks if each.status == "failed"]
        assert failed.name == "store"
        assert "did not answer within 5 seconds" in failed.detail
        if stands:
            assert service.health().ok


def test_opening_a_store_ends_too(server: PostgresServer) -> None:
    url = f"{server.schema_url('opened')}&connect_timeout=2"
    PostgresStore.open(url).close()
    with woken(server), pytest.raises(StoreError):
        PostgresStore.open(url)


def test_slow_statement_of_a_server_that_answers_has_its_time(server: PostgresServer) -> None:
    location = parse_url(server.url)
    with WatchedConnection.connect(location.conninfo) as driver:
        driver.conninfo, driver.patience = location.conninfo, 0.1
        driver.execute("SELECT pg_sleep(0.7)")
        assert driver.execute("SELECT 1").fetchone() == (1,)
        with deadline(0):  # what is begun after it can be tidied up
            driver.execute("SELECT pg_sleep(0.2)")
        with deadline(0), pytest.raises(CancelledError):
            driver.execute("SELECT pg_sleep(30)")
    assert driver.closed
    assert server_answers(location.conninfo)


def test_url_may_say_how_long_data_is_unacknowledged(server: PostgresServer) -> None:
    for option, wanted in (("", "10000"), ("&tcp_user_timeout=7000", "7000")):
        with closing(connect(parse_url(f"{server.url}{option}"))) as driver:
            assert driver.info.get_parameters()["tcp_user_timeout"] == wanted
