"""Threads and processes on one store: unique versions, no lost update, no torn set."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import attrs
import pytest

from triptych.contracts import Store
from triptych.testing.builders import (
    CONFIG,
    chunks_of,
    derive,
    fill,
    ids,
    keyword_query,
    put,
    set_config,
    sig_of,
    vector_of,
    vector_query,
)
from triptych.testing.guarantees import guarantee
from triptych.testing.harness import Harness, HarnessTests
from triptych.testing.processes import Worker
from triptych.testing.work import count_up

THREADS = 4
T = TypeVar("T")


class ConcurrencyTests(HarnessTests):
    """All methods may be called from any thread, and from any process on a shared store."""

    @guarantee(1)
    def test_versions_are_unique_under_threads(self, store: Store) -> None:
        def work(number: int) -> list[int]:
            texts = (f"{number} {count}" for count in range(15))
            return [put(store, "d", "a", text).version for text in texts]

        versions = [version for made in _in_threads(work) for version in made]
        assert len(set(versions)) == len(versions)
        stored = store.documents.get("d", "a")
        assert stored is not None
        assert stored.version == max(versions)

    @guarantee(1)
    def test_versions_are_unique_over_deletes(self, store: Store) -> None:
        def work(number: int) -> list[int]:
            versions = []
            for count in range(15):
                versions.append(put(store, "d", "a", f"{number} {count}").version)
                if count % 3 == number % 3:
                    store.documents.delete("d", "a")
            return versions

        versions = [version for made in _in_threads(work) for version in made]
        assert len(set(versions)) == len(versions)

    def test_no_update_is_lost_between_threads(self, store: Store) -> None:
        made = _in_threads(lambda number: count_up(store, 10))
        versions = [version for of_thread in made for version in of_thread]
        stored = store.documents.get("d", "counter")
        assert stored is not None
        assert stored.content == str(10 * THREADS)
        assert len(set(versions)) == 10 * THREADS

    def test_equal_puts_make_one_version(self, store: Store) -> None:
        versions = _in_threads(lambda number: put(store, "d", "a", "the same").version)
        assert len(set(versions)) == 1

    def test_one_of_many_configures(self, store: Store) -> None:
        configs = [
            attrs.evolve(CONFIG, chunker_sig=f"chunker/{number}") for number in range(THREADS)
        ]
        done = _in_threads(
            lambda number: store.chunks.configure("d", configs[number], expected=None)
        )
        assert sorted(done) == [False] * (THREADS - 1) + [True]
        assert store.chunks.config("d") == configs[done.index(True)]

    @guarantee(5)
    def test_older_derivations_never_overwrite_newer_ones(self, store: Store) -> None:
        set_config(store, "d")
        put(store, "d", "a", "start")
        assert derive(store, "d", "a")

        def work(number: int) -> None:
            last = 0
            for count in range(10):
                document = put(store, "d", "a", f"{number} {count}")
                sig = attrs.evolve(
                    sig_of(store, "d", "a"), source_version=document.version, input_sig="any"
                )
                store.chunks.replace("d", "a", chunks_of(document, sig), sig=sig)
                stored = store.chunks.get_doc_sig("d", "a")
                assert stored is not None
                assert stored.source_version >= last
                last = stored.source_version

        _in_threads(work)
        assert derive(store, "d", "a")
        document = store.documents.get("d", "a")
        assert document is not None
        assert [chunk.content for chunk in store.chunks.iter_chunks("d")] == [document.content]

    def test_every_thread_finds_what_it_wrote(self, store: Store) -> None:
        set_config(store, "d")

        def work(number: int) -> None:
            for count in range(8):
                word = f"{chr(97 + number)}{chr(97 + count)}quux"
                name = f"{number}/{count}"
                put(store, "d", name, word)
                assert derive(store, "d", name)
                assert ids(store.chunks.search(keyword_query(word, "d"))) == [(name, 0)]
                nearest = store.chunks.search(vector_query(vector_of(word), "d", top_k=1))
                assert ids(nearest) == [(name, 0)]

        _in_threads(work)
        assert len(list(store.chunks.iter_chunks("d"))) == 8 * THREADS

    def test_searches_beside_writers_answer_in_order_and_full(self, store: Store) -> None:
        fill(store, "d", {f"kept{number}": "fish" for number in range(5)})
        writing = threading.Event()

        def write(number: int) -> None:
            for count in range(12):
                put(store, "d", f"moving{number}", f"fish {count}")
                assert derive(store, "d", f"moving{number}")

        def read() -> int:
            searches = 0
            while not writing.is_set() or searches < 3:
                found = store.chunks.search(keyword_query("fish", "d", top_k=5))
                scores = [candidate.score for candidate in found]
                assert len(found) == 5
                assert scores == sorted(scores, reverse=True)
                searches += 1
            return searches

        with ThreadPoolExecutor(1) as pool:
            reader = pool.submit(read)
            try:
                _in_threads(write)
            finally:
                writing.set()
            assert reader.result() >= 3

    @guarantee(1)
    def test_versions_are_unique_between_processes(
        self, store: Store, workers: tuple[Worker, Worker]
    ) -> None:
        first, second = workers
        for worker in workers:
            worker.send({"do": "put", "times": 25})
        versions = [put(store, "d", "a", f"parent {count}").version for count in range(25)]
        versions += first.receive() + second.receive()
        assert len(set(versions)) == 75
        stored = store.documents.get("d", "a")
        assert stored is not None
        assert stored.version == max(versions)

    def test_no_update_is_lost_between_processes(
        self, store: Store, workers: tuple[Worker, Worker]
    ) -> None:
        first, second = workers
        for worker in workers:
            worker.send({"do": "count", "times": 20})
        versions = count_up(store, 20) + first.receive() + second.receive()
        stored = store.documents.get("d", "counter")
        assert stored is not None
        assert (stored.content, len(set(versions))) == ("60", 60)

    @guarantee(8)
    def test_processes_find_what_others_wrote(
        self, store: Store, workers: tuple[Worker, Worker]
    ) -> None:
        first, second = workers
        set_config(store, "d")
        word = ""
        for letter in "abcdef":
            word = f"{letter}quux"
            put(store, "d", "from parent", word)
            assert derive(store, "d", "from parent")
            for worker in workers:
                assert worker.ask({"do": "find", "text": word}) == [["from parent", 0]]
            word = f"{letter}quuz"
            assert first.ask({"do": "write", "name": "from child", "text": word}) is True
            assert second.ask({"do": "find", "text": word}) == [["from child", 0]]
            assert ids(store.chunks.search(keyword_query(word, "d"))) == [("from child", 0)]
        assert second.ask({"do": "delete", "name": "from child"}) is True
        assert first.ask({"do": "find", "text": word}) == []
        assert ids(store.chunks.search(keyword_query(word, "d"))) == []

    @pytest.fixture(scope="class")
    @classmethod
    def processes(cls) -> Iterator[tuple[Worker, Worker]]:
        with Worker() as first, Worker() as second:
            yield first, second

    @pytest.fixture
    def workers(
        self, request: pytest.FixtureRequest, harness: Harness, store: Store
    ) -> Iterator[tuple[Worker, Worker]]:
        if not harness.shared or harness.child is None:
            pytest.skip("no other process can open this store")
        processes: tuple[Worker, Worker] = request.getfixturevalue("processes")
        for worker in processes:
            worker.open(harness.child)
        yield processes
        for worker in processes:
            worker.close()


def _in_threads(work: Callable[[int], T]) -> list[T]:
    """What ``work`` returned in each of several threads, started together."""
    start = threading.Barrier(THREADS)

    def started(number: int) -> T:
        start.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(started, range(THREADS)))
