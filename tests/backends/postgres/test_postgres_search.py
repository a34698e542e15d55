"""Searches in the server find what a store in memory finds, to the score."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import psycopg
import pytest

from support.postgres import PostgresServer
from triptych.contracts import Store
from triptych.records import ChunkQuery, Filter
from triptych_backends.memory import MemoryStore
from triptych_postgres import PostgresStore
from triptych_testing import Harness, assert_backends_rank_alike, assert_same_ranking, entries
from triptych_testing.builders import (
    derive,
    fill_at_once,
    filter_of,
    keyword_query,
    put,
    vector_of,
    vector_query,
)

DOCUMENTS = 80


@pytest.fixture(scope="module")
def pair(postgres_server: PostgresServer) -> Iterator[tuple[Store, PostgresStore]]:
    """The same generated documents in memory and on the server, edited and deleted in part.

    The tests of this module only read them, but for the last one.
    """
    with PostgresStore.open(postgres_server.schema_url("pair")) as there:
        here = MemoryStore()
        for store in (here, there):
            _fill(store)
        yield here, there
        here.close()


def _text(chance: random.Random) -> str:
    # As words are in real texts: few often, most hardly ever.
    words = [f"w{min(int(chance.paretovariate(0.6)), 3000)}" for _ in range(chance.randint(3, 60))]
    lines = [" ".join(words[at : at + 12]) for at in range(0, len(words), 12)]
    return "\n\n".join(f"# Part {chance.randint(0, 3)}\n\n{line}" for line in lines)


def _fill(store: Store) -> None:
    chance = random.Random(7)
    for dataset in ("north", "south"):
        texts = {f"{at:03d}.md": _text(chance) for at in range(DOCUMENTS)}
        fill_at_once(
            store, dataset, texts, metadata={name: {"odd": int(name[:3]) % 2} for name in texts}
        )
        for name in list(texts)[::7]:
            put(store, dataset, name, _text(chance))
            assert derive(store, dataset, name)
        for name in list(texts)[3::11]:
            assert store.documents.delete(dataset, name)


QUERIES = ("w1 w2 w40", "w900 w7", "w1", "w3 w3 w5 w8 w13 w21", "w2500 w2501", "nowhere w1")


@pytest.mark.parametrize("where", [{}, {"odd": 1}, {"odd": {"$ne": 1}}, {"heading": "Part 2"}])
def test_the_server_ranks_as_memory_does(
    pair: tuple[Store, PostgresStore], where: dict[str, object]
) -> None:
    here, there = pair
    wanted = filter_of(**where) if where else Filter()
    for text in QUERIES:
        for limit in (1, 7, 500):
            words = keyword_query(text, "north", "south", top_k=limit, where=wanted)
            near = vector_query(vector_of(text), "north", "south", top_k=limit, where=wanted)
            _same(here, there, words)
            _same(here, there, near)


def _same(here: Store, there: PostgresStore, query: ChunkQuery) -> None:
    assert_same_ranking(here.chunks.search(query), entries(there.chunks.search(query)))
    one, other = here.capabilities.document_search, there.capabilities.document_search
    search = "search_docs" if query.text else "search_docs_by_vector"
    assert_same_ranking(getattr(one, search)(query), entries(getattr(other, search)(query)))


@pytest.mark.slow
def test_the_kit_ranks_alike(postgres_url: str) -> None:
    assert_backends_rank_alike(
        Harness(open=MemoryStore), Harness(open=lambda: PostgresStore.open(postgres_url))
    )


def test_statistics_are_those_of_what_is_left(pair: tuple[Store, PostgresStore]) -> None:
    here, there = pair
    terms = ["w1", "w2", "w40", "w900", "nowhere"]
    one, other = here.capabilities.document_search, there.capabilities.document_search
    assert one is not None
    assert other is not None
    assert one.corpus_stats(["north"], terms) == other.corpus_stats(["north"], terms)


def _index_scans(server: PostgresServer, store: PostgresStore) -> int:
    # A connection tells what it did when it ends, which is a moment after it was closed.
    store.database._connections._pool.dispose()
    deadline = time.monotonic() + 30
    while True:
        with server.connect() as driver:
            ((scans, others),) = driver.execute(
                "SELECT (SELECT sum(idx_scan)::int FROM pg_stat_user_indexes WHERE schemaname = %s "
                "AND indexrelname LIKE 'search_vector_hnsw%%'), (SELECT count(*) FROM "
                "pg_stat_activity WHERE application_name = 'triptych')",
                (store.database.schema,),
            ).fetchall()
        if not others or time.monotonic() > deadline:
            return int(scans)
        time.sleep(0.05)


def _rows(server: PostgresServer, store: PostgresStore, sql: str) -> list[tuple[Any, ...]]:
    with server.connect() as driver:
        driver.execute(f"SET search_path = {store.database.schema}")
        return driver.execute(sql).fetchall()


def test_joined_rows_of_postings_rank_as_before(postgres_server: PostgresServer) -> None:
    """Many writes leave many rows, removed postings among them; joining leaves what lives."""
    chance = random.Random(11)
    url = postgres_server.schema_url("folded")
    with MemoryStore() as here, PostgresStore.open(url) as there:
        for store in (here, there):
            fill_at_once(store, "d", {f"first {at}.md": f"w1 w{at}" for at in range(20)})

        def put_again(name: str) -> None:
            text = _text(chance)
            for store in (here, there):
                put(store, "d", name, text)
                assert derive(store, "d", name)

        def same() -> None:
            for text in QUERIES:
                for limit in (1, 5, 500):
                    _same(here, there, keyword_query(text, "d", top_k=limit))

        for at in range(40):
            put_again(f"{at % 13}.md")
        for store in (here, there):
            assert store.documents.delete("d", "3.md")
        counts = (
            "SELECT count(*), sum(units), sum(octet_length(block)) / 16, "
            "(SELECT count(*) FROM search_recent), "
            "(SELECT sum(octet_length(block)) / 20 FROM search_recent), "
            "(SELECT sum(cardinality(terms)) FROM search_unit) FROM search_posting"
        )
        ((rows, units, own, recent, shared, lives),) = _rows(postgres_server, there, counts)
        assert 0 < rows < recent
        assert units == own
        assert shared > lives
        same()
        there.build_indexes()
        folded = _rows(postgres_server, there, counts)
        assert folded[0][1:] == (lives, lives, 0, None, lives)
        same()
        there.build_indexes()
        assert _rows(postgres_server, there, counts) == folded
        put_again("first 0.md")  # what was joined is removed in a row that is not
        put_again("5.md")
        same()
        assert there.capabilities.diagnostics is not None
        assert not [*there.capabilities.diagnostics.check_integrity(["d"])]


def test_a_write_adds_few_rows_of_postings(postgres_server: PostgresServer) -> None:
    """Terms that few units of a write hold share rows; fewer where the write is small."""
    with PostgresStore.open(postgres_server.schema_url("shared")) as store:
        rows = []
        for dataset, words in (("small", 1_000), ("large", 10_000)):
            text = " ".join(f"w{at}" for at in range(words))
            fill_at_once(store, dataset, {"a": text, **{str(at): "often" for at in range(20)}})
            counts = "SELECT (SELECT count(*) FROM search_recent), count(*) FROM search_posting"
            rows += _rows(postgres_server, store, counts)
    # Two kinds of units; only "often" has rows of its own.
    assert rows == [(2 * 16, 2), (2 * 16 + 2 * 512, 4)]


@pytest.mark.parametrize(("at_once", "spread"), [(1, 32), (100, 32), (100, 0)])
def test_few_postings_at_a_time_rank_as_all_do(
    pair: tuple[Store, PostgresStore], monkeypatch: pytest.MonkeyPatch, at_once: int, spread: int
) -> None:
    """Lists are read one by one, and units looked at for the terms whose lists are not; keys that
    are far apart are sorted."""
    monkeypatch.setattr("triptych_postgres.keyword_lane.AT_ONCE", at_once)
    monkeypatch.setattr("triptych_postgres.keyword_lane._SPREAD", spread)
    here, there = pair
    for text in QUERIES:
        for limit in (1, 3, 20):
            for where in (Filter(), filter_of(odd={"$ne": 1})):
                _same(here, there, keyword_query(text, "north", "south", top_k=limit, where=where))


def test_lists_of_numbers_arrive_as_they_are(postgres_server: PostgresServer) -> None:
    """Those that the driver writes too: empty lists, lists of lists, and of None."""
    whole: list[list[Any]] = [[0], [1, -1, 40_000], [2**63 - 1, -(2**63)]]
    with (
        PostgresStore.open(postgres_server.schema_url("lists")) as store,
        store.database.reading() as session,
    ):
        for given in [*whole, [], [None, 7], [[1, 2], [3, 4]]]:
            assert session.text("SELECT %s::bigint[]", (given,)) == [(given,)]
        narrow = session.text("SELECT %s::int[], %s::smallint[]", ([70_000], [3]))
        assert narrow == [([70_000], [3])]
        assert session.text("SELECT %s::bool[]", ([True, False],)) == [([True, False],)]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The statements that were sent to a server."""
    asked: list[object] = []
    execute = psycopg.Cursor.execute

    def noted(self: psycopg.Cursor[Any], query: Any, *args: Any, **options: Any) -> Any:
        asked.append(query)
        return execute(self, query, *args, **options)

    monkeypatch.setattr(psycopg.Cursor, "execute", noted)
    return asked


def test_a_lane_makes_few_round_trips(
    pair: tuple[Store, PostgresStore], asked: list[object]
) -> None:
    """A server may be a network away."""
    _, there = pair
    assert there.chunks.search(keyword_query("w1 w40", "north", top_k=7))
    assert len(asked) <= 8, asked  # the last: which terms the found hold
    asked.clear()
    assert there.chunks.search(vector_query(vector_of("w1 w40"), "north", top_k=7))
    assert len(asked) <= 5, asked


def test_an_index_finds_what_a_scan_finds_also_with_filters(
    pair: tuple[Store, PostgresStore],
    postgres_server: PostgresServer,
    asked: list[object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The index is used: what it gives is scored again from the truth."""
    here, there = pair
    there.build_indexes(least=10)
    with postgres_server.connect() as driver:
        rows = driver.execute(
            "SELECT indexrelname FROM pg_stat_user_indexes WHERE schemaname = %s AND "
            "indexrelname LIKE 'search_vector_hnsw%%'",
            (there.database.schema,),
        ).fetchall()
    assert len(rows) == 2
    chance = np.random.default_rng(3)
    found = wanted = 0
    for where in (Filter(), filter_of(odd={"$ne": 1})):
        for turn in range(10):
            vector = chance.normal(size=len(vector_of("x"))).astype(np.float32)
            vector /= np.linalg.norm(vector)
            query = vector_query(vector, "north", top_k=10, where=where)
            left = {(hit.doc_name, hit.index) for hit in here.chunks.search(query)}
            asked.clear()
            right = there.chunks.search(query)
            # The first time of a filter one more, whose answer serves until the next commit.
            assert len(asked) <= (5 if where.is_trivial else 7) + (turn == 0), asked
            with monkeypatch.context() as patched:
                patched.setattr("triptych_postgres.vector_lane._IS_BEST", "")
                assert there.chunks.search(query) == right
            assert len(right) == len(left)
            found += len(left & {(hit.doc_name, hit.index) for hit in right})
            wanted += len(left)
    assert found >= 0.97 * wanted
    few = vector_query(vector_of("q"), "north", top_k=10, where=filter_of(name={"$eq": "001.md"}))
    assert_same_ranking(here.chunks.search(few), entries(there.chunks.search(few)))
    assert _index_scans(postgres_server, there) == 40


def test_nothing_outlives_its_dataset(
    pair: tuple[Store, PostgresStore], postgres_server: PostgresServer
) -> None:
    _, there = pair
    for dataset in ("north", "south"):
        there.documents.delete_dataset(dataset)
    with postgres_server.connect() as driver:
        driver.execute(f"SET search_path = {there.database.schema}")
        for table in (
            "search_unit",
            "search_posting",
            "search_recent",
            "search_term",
            "search_vector",
            "search_sparse",
        ):
            row = driver.execute(f"SELECT count(*) FROM {table}").fetchone()
            assert row == (0,), table
