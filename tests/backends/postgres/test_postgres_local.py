"""Searches in each process (``search=local``), by an index that follows the server's log."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import pytest

from support.postgres import PostgresServer, running_server
from support.replicas import running_replica, wait_until
from triptych.contracts import Store
from triptych.errors import SchemaVersionError, StoreError, ValidationError
from triptych_backends.index import Change, LocalIndex, LocalSearcher, LogPosition
from triptych_backends.sql import Database, SqlChangeLog, SqlFilters
from triptych_testing.builders import fill_at_once, keyword_query

pytest.importorskip("psycopg", reason="psycopg is not installed: the extra postgres has it")

from triptych_postgres import PostgresStore, parse_url

LAMP = {f"{at}.md": f"the keeper of lamp {at} sails at dusk" for at in range(300)}


def found(store: Store, text: str) -> list[tuple[str, float]]:
    """The documents that hold one of the words, with scores."""
    rows = store.chunks.search(keyword_query(text, "d", top_k=1_000))
    return [(row.doc_name, row.score) for row in rows]


def search_tables(server: PostgresServer, url: str) -> list[str]:
    schema = parse_url(url).schema
    with server.connect() as driver:
        rows = driver.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename LIKE 'search%%' "
            "AND tablename <> 'search_version' ORDER BY 1",
            (schema,),
        )
        return [row[0] for row in rows]


def problems(store: PostgresStore) -> list[object]:
    diagnostics = store.capabilities.diagnostics
    assert diagnostics is not None
    return list(diagnostics.check_integrity(["d"]))


def test_a_store_that_is_searched_in_each_process_has_no_search_tables(
    postgres_url: str, postgres_server: PostgresServer
) -> None:
    with PostgresStore.open(f"{postgres_url}&search=local") as store:
        fill_at_once(store, "d", LAMP)
        assert len(found(store, "dusk")) == len(LAMP)
        assert not search_tables(postgres_server, postgres_url)
        with pytest.raises(StoreError, match="search=server"):
            store.build_indexes()
    # Who says nothing searches it as it is searched.
    with PostgresStore.open(postgres_url) as store:
        fill_at_once(store, "d", {"more": "another dusk"})
        assert len(found(store, "dusk")) == len(LAMP) + 1
    assert not search_tables(postgres_server, postgres_url)
    with pytest.raises(SchemaVersionError, match="search tables"):
        PostgresStore.open(f"{postgres_url}&search=server", read_only=True)


def test_the_server_can_take_over_while_other_processes_search_by_themselves(
    postgres_url: str,
) -> None:
    with PostgresStore.open(f"{postgres_url}&search=local") as here:
        fill_at_once(here, "d", LAMP)
        with PostgresStore.open(f"{postgres_url}&search=server") as there:
            assert found(there, "lamp dusk 7") == found(here, "lamp dusk 7")
            # Who searches by itself fills the server's tables all the same.
            fill_at_once(here, "d", {"new": "a kettle at dusk"})
            fill_at_once(there, "d", {"newer": "a kettle at dawn"})
            assert len(found(there, "kettle")) == 2
            assert found(here, "kettle dusk") == found(there, "kettle dusk")
            assert not problems(here)
            assert not problems(there)


def test_search_tables_are_dropped_once_nobody_needs_them(
    postgres_url: str, postgres_server: PostgresServer
) -> None:
    with PostgresStore.open(postgres_url) as there:
        fill_at_once(there, "d", LAMP)
        with PostgresStore.open(f"{postgres_url}&search=local") as here:
            assert search_tables(postgres_server, postgres_url)
            here.drop_search_tables()
            assert not search_tables(postgres_server, postgres_url)
            with pytest.raises(StoreError, match="open it again"):
                found(there, "dusk")
            fill_at_once(there, "d", {"new": "a kettle at dusk"})
            assert [name for name, _ in found(here, "kettle")] == ["new"]
    # The terms' numbers that a writer knew are not those of the tables that are made now.
    with PostgresStore.open(f"{postgres_url}&search=server") as again:
        fill_at_once(again, "d", {"newer": "lamp and kettle"})
        assert not problems(again)
        assert len(found(again, "kettle")) == 2


def test_processes_share_a_folder_and_stores_do_not(postgres_url: str, tmp_path: Path) -> None:
    url = f"{postgres_url}&search=local&index={quote(str(tmp_path))}"
    with PostgresStore.open(url) as store:
        fill_at_once(store, "d", LAMP)
        expected = found(store, "lamp dusk 7")
    with PostgresStore.open(url) as first, PostgresStore.open(url) as second:
        for store in (first, second):
            assert found(store, "lamp dusk 7") == expected
            assert store.index is not None
            assert all(view.segment.file for view in store.index.views("d", "chunk"))
        fill_at_once(first, "d", {"new": "a kettle"})
        assert [name for name, _ in found(second, "kettle")] == ["new"]
    other = url.replace("schema=", "schema=other_")
    assert parse_url(other).index != parse_url(url).index
    assert parse_url(url).index.parent == tmp_path  # type: ignore[union-attr]  # it names one


class _AwaitedLog(SqlChangeLog):
    """The first that replays it waits for others to want the same, and then reads in a thread."""

    def __init__(self, database: Database, others: int) -> None:
        super().__init__(database)
        self._others = others
        self._heads = threading.Semaphore(0)
        self.is_replayed = threading.Event()

    def head(self) -> LogPosition:
        found = super().head()
        self._heads.release()
        return found

    def changes(self, dataset: str, after: int) -> Sequence[Change]:
        if not self.is_replayed.is_set():
            self.is_replayed.set()
            for _ in range(1 + self._others):
                self._heads.acquire()
            with ThreadPoolExecutor(1) as thread:
                thread.submit(super().profile, dataset).result()
        return super().changes(dataset, after)


def test_who_waits_for_the_turn_to_replay_holds_no_connection(postgres_url: str) -> None:
    """The one that has the turn may need a connection: here all others would have them."""
    url = f"{postgres_url}&search=local&pool_size=3&statement_timeout=3"
    with PostgresStore.open(url) as store:
        fill_at_once(store, "d", LAMP)
        log = _AwaitedLog(store.database, others=2)
        with LocalIndex(log) as index, ThreadPoolExecutor(3) as threads:
            searcher = LocalSearcher(index, SqlFilters(store.database))
            searches = []
            for _ in range(3):
                query = keyword_query("dusk", "d", top_k=1_000)
                searches.append(threads.submit(searcher.search, "chunk", query))
                log.is_replayed.wait()
            assert [len(search.result()) for search in searches] == [len(LAMP)] * 3


def test_a_search_sees_what_was_committed_before_it_by_another(postgres_url: str) -> None:
    """What a connection has read is of the state that its transaction reads."""
    with (
        PostgresStore.open(f"{postgres_url}&search=local") as one,
        PostgresStore.open(f"{postgres_url}&search=local") as other,
    ):
        for number in range(20):
            fill_at_once(one, "d", {f"{number}": f"dusk {number}"})
            assert len(found(other, "dusk")) == number + 1
            assert len(found(other, "dusk")) == number + 1


def test_a_purge_leaves_nothing_in_the_folder_and_names_those_of_others(
    postgres_url: str, tmp_path: Path
) -> None:
    with PostgresStore.open(f"{postgres_url}&search=local&index={quote(str(tmp_path))}") as store:
        fill_at_once(store, "d", {**LAMP, "xylophone.md": "the word is xylophone"})
        assert found(store, "xylophone")
        assert store.index is not None
        store.index.publish()
        assert _holds(tmp_path, b"xylophone.md")
        store.documents.delete("d", "xylophone.md")
        report = store.scrub()
        assert not _holds(tmp_path, b"xylophone.md")
        assert report is not None
        assert any("other processes" in each for each in report.beyond)
        assert len(found(store, "dusk")) == len(LAMP)


def _holds(folder: Path, word: bytes) -> bool:
    return any(word in path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_the_doctor_drops_an_index_that_is_damaged(postgres_url: str, tmp_path: Path) -> None:
    url = f"{postgres_url}&search=local&index={quote(str(tmp_path))}"
    with PostgresStore.open(url) as store:
        fill_at_once(store, "d", LAMP)
        assert len(found(store, "dusk")) == len(LAMP)
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.stat().st_size > 1_000:
            path.write_bytes(path.read_bytes()[:-100])
    with PostgresStore.open(url) as store:
        diagnostics = store.capabilities.diagnostics
        assert diagnostics is not None
        assert any("damaged" in check.detail for check in diagnostics.check_health())
        (finding,) = problems(store)
        assert diagnostics.repair(["index.damaged"], ["d"])
        assert not problems(store), finding
        assert len(found(store, "dusk")) == len(LAMP)


def test_a_store_is_closed_also_where_its_server_is_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with running_server() as server:
        url = f"{server.schema_url('kb')}&search=local&reconnect=0.1&index={quote(str(tmp_path))}"
        with PostgresStore.open(url) as store:
            fill_at_once(store, "d", LAMP)
            assert len(found(store, "dusk")) == len(LAMP)
            server.kill()
        assert "the next process indexes" in caplog.text


def test_a_replica_is_searched_in_each_process() -> None:
    """It names no snapshot that tells which transactions it leaves out: nothing is remembered."""
    settings = ("autovacuum=off",)
    with (
        running_server(*settings) as primary,
        running_replica(primary, *settings) as replica,
        PostgresStore.open(f"{primary.schema_url('kb')}&search=local") as store,
    ):
        fill_at_once(store, "d", {"a": "dusk"})
        wait_until(replica, primary)
        with PostgresStore.open(replica.schema_url("kb"), read_only=True) as reader:
            for number in range(5):
                assert len(found(reader, "dusk")) == number + 1
                fill_at_once(store, "d", {f"{number}": "dusk"})
                wait_until(replica, primary)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("search=there", "local or server"),
        ("index=/tmp/x", "give both"),
        ("search=server&index=/tmp/x", "give both"),
        ("search=local&index=", "give both"),
    ],
)
def test_a_url_says_where_searches_run(options: str, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        parse_url(f"postgresql://host/kb?{options}")
