"""Tests of concurrent writers: threads, processes, and writes between the steps of a call."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs
import pytest

from triptych.contracts import Capabilities, Store
from triptych.contracts.defaults import Repositories
from triptych.errors import ConflictError, NotFoundError
from triptych.records import Layer, RebuildScope
from triptych.service import Service
from triptych_testing.builders import (
    CONFIG,
    chunks_of,
    derive,
    fill,
    ids,
    keyword_query,
    layer_of,
    put,
    set_config,
    sig_of,
    vector_of,
    vector_query,
)
from triptych_testing.fakes import Before, FakeEmbedder
from triptych_testing.harness import (
    THREADS,
    Harness,
    HarnessTests,
    beside,
    guarantee,
    in_threads,
    there,
)
from triptych_testing.work import Worker, count_up, serve, write_layered


class ConcurrencyTests(HarnessTests):
    """All methods may be called from any thread, and from any process on a shared store."""

    @guarantee(1)
    def test_versions_are_unique_under_threads(self, store: Store) -> None:
        def work(number: int) -> list[int]:
            texts = (f"{number} {count}" for count in range(15))
            return [put(store, "d", "a", text).version for text in texts]

        versions = [version for made in in_threads(work) for version in made]
        assert len(set(versions)) == len(versions)
        assert there(store.documents.get("d", "a")).version == max(versions)

    @guarantee(1)
    def test_versions_are_unique_over_deletes(self, store: Store) -> None:
        def work(number: int) -> list[int]:
            versions = []
            for count in range(15):
                versions.append(put(store, "d", "a", f"{number} {count}").version)
                if count % 3 == number % 3:
                    store.documents.delete("d", "a")
            return versions

        versions = [version for made in in_threads(work) for version in made]
        assert len(set(versions)) == len(versions)

    def test_no_update_is_lost_between_threads(self, store: Store) -> None:
        made = in_threads(lambda number: count_up(store, 10))
        versions = [version for of_thread in made for version in of_thread]
        assert there(store.documents.get("d", "counter")).content == str(10 * THREADS)
        assert len(set(versions)) == 10 * THREADS

    def test_equal_puts_make_one_version(self, store: Store) -> None:
        versions = in_threads(lambda number: put(store, "d", "a", "the same").version)
        assert len(set(versions)) == 1

    def test_one_of_many_configures(self, store: Store) -> None:
        configs = [
            attrs.evolve(CONFIG, chunker_sig=f"chunker/{number}") for number in range(THREADS)
        ]
        done = in_threads(
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
                stored = there(store.chunks.get_doc_sig("d", "a"))
                assert stored.source_version >= last
                last = stored.source_version

        in_threads(work)
        assert derive(store, "d", "a")
        document = there(store.documents.get("d", "a"))
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

        in_threads(work)
        assert len(list(store.chunks.iter_chunks("d"))) == 8 * THREADS

    def test_searches_beside_writers_answer_in_order_and_full(self, store: Store) -> None:
        fill(store, "d", {f"kept{number}": "fish" for number in range(5)})

        def write(number: int) -> None:
            for count in range(12):
                put(store, "d", f"moving{number}", f"fish {count}")
                assert derive(store, "d", f"moving{number}")

        def read() -> None:
            found = store.chunks.search(keyword_query("fish", "d", top_k=5))
            scores = [candidate.score for candidate in found]
            assert len(found) == 5
            assert scores == sorted(scores, reverse=True)

        with beside(read):
            in_threads(write)
        for _ in range(3):
            read()

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
        assert there(store.documents.get("d", "a")).version == max(versions)

    def test_no_update_is_lost_between_processes(
        self, store: Store, workers: tuple[Worker, Worker]
    ) -> None:
        first, second = workers
        for worker in workers:
            worker.send({"do": "count", "times": 20})
        versions = count_up(store, 20) + first.receive() + second.receive()
        stored = there(store.documents.get("d", "counter"))
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


ROUNDS = 20
TIMES = 40
OLD, NEW = "an old fish", "a new fish"


class SteppedStore:
    """A store that lets another writer in just before its call number ``at``, from 0.

    ``rival`` is called once, and works on the store itself. `taken` counts the calls.
    """

    def __init__(self, store: Store, at: int, rival: Callable[[], object]) -> None:
        self.taken: int = 0
        self._at = at
        self._rival = rival
        self.documents: Any = Before(store.documents, self._step)
        self.chunks: Any = Before(store.chunks, self._step)
        self.layers: Any = Before(store.layers, self._step)
        self.stats: Any = store.stats
        self.scrub: Any = store.scrub
        self.capabilities: Capabilities = Repositories.over(
            store, documents=self.documents, chunks=self.chunks, layers=self.layers
        ).capabilities

    def close(self) -> None:
        """Leave the store open: it is another's."""

    def _step(self) -> None:
        if self.taken == self._at:
            self.taken += 1  # the rival's turn comes once
            self._rival()
            return
        self.taken += 1


def at_every_step(
    store: Store,
    prepare: Callable[[Service, str], object],
    act: Callable[[Service, str], object],
    rival: Callable[[Service, str], object],
) -> Iterator[str]:
    """Let ``rival`` in before each repository call of ``act``, each time in a new dataset.

    The dataset's id, when ``act`` has ended. The last one is that of a rival who came after it.
    """
    other = serve(store, FakeEmbedder())
    for at in range(100):
        dataset_id = f"d{at}"
        prepare(other, dataset_id)
        stepped = SteppedStore(store, at, functools.partial(rival, other, dataset_id))
        act(serve(stepped, FakeEmbedder()), dataset_id)
        if stepped.taken <= at:
            rival(other, dataset_id)
            yield dataset_id
            return
        yield dataset_id
    pytest.fail("it takes more than a hundred calls")


def assert_whole_or_gone(store: Store, dataset_id: str, name: str = "a") -> bool:
    """Whether the document is there, with its chunks and its layer; if not, they are gone too."""
    document = store.documents.get(dataset_id, name)
    sig = store.chunks.get_doc_sig(dataset_id, name)
    texts = [chunk.content for chunk in store.chunks.iter_chunks(dataset_id, name)]
    layer = store.layers.get(dataset_id, name, Layer.ABSTRACT)
    if document is None:
        assert (sig, texts, layer) == (None, [], None), "a deleted document left something"
        return False
    assert sig is not None, f"{name!r} of {dataset_id!r} has no chunks"
    assert sig.source_version == document.version
    assert texts == [document.content]
    assert layer is not None, f"{name!r} of {dataset_id!r} has lost its layer"
    assert layer.sig.source_version == document.version
    assert store.chunks.config(dataset_id) is not None
    return True


def _put_old(kb: Service, dataset_id: str) -> None:
    write_layered(kb, dataset_id, "a", OLD)
    write_layered(kb, dataset_id, "kept", OLD)


def _put_new(kb: Service, dataset_id: str) -> None:
    write_layered(kb, dataset_id, "a", NEW)


DELETES: dict[str, Callable[[Service, str], object]] = {
    "delete_document": lambda kb, dataset_id: kb.delete_document(dataset_id, "a"),
    "purge of a document": lambda kb, dataset_id: kb.purge(dataset_id, "a"),
    "delete_dataset": lambda kb, dataset_id: kb.delete_dataset(dataset_id),
    "purge of a dataset": lambda kb, dataset_id: kb.purge(dataset_id),
    "recreate": lambda kb, dataset_id: kb.recreate(dataset_id),
}
PUTS: dict[str, Callable[[Service, str], object]] = {
    "put_document": lambda kb, dataset_id: kb.put_document(dataset_id, "a", NEW),
    "put_documents": lambda kb, dataset_id: kb.put_documents(dataset_id, {"a": NEW, "b": NEW}),
    "a put of metadata": lambda kb, dataset_id: kb.put_document(dataset_id, "a", OLD, {"k": "v"}),
    "an identical put": lambda kb, dataset_id: kb.put_document(dataset_id, "a", OLD),
}
REBUILDS: dict[str, RebuildScope] = {
    "everything": RebuildScope(),
    "a dataset": RebuildScope(dataset_id="d"),
    "by name": RebuildScope(dataset_id="d", doc_names=("dir/", "dir/a")),
}


class RaceTests(HarnessTests):
    """Two writers: neither takes from the other what a call has said is stored."""

    @guarantee(6)
    @pytest.mark.parametrize("act", DELETES.values(), ids=DELETES)
    def test_a_put_between_the_steps_of_a_delete_is_whole_or_gone(
        self, store: Store, act: Callable[[Service, str], object]
    ) -> None:
        there = [
            assert_whole_or_gone(store, dataset_id)
            for dataset_id in at_every_step(store, _put_old, act, _put_new)
        ]
        assert there[-1], "what is put after a delete stays"

    @guarantee(6)
    @pytest.mark.parametrize("remove", ["delete_dataset", "delete_document", "recreate"])
    @pytest.mark.parametrize("act", PUTS.values(), ids=PUTS)
    def test_a_delete_between_the_steps_of_a_put_leaves_it_whole_or_gone(
        self, store: Store, act: Callable[[Service, str], object], remove: str
    ) -> None:
        for dataset_id in at_every_step(
            store,
            lambda kb, dataset_id: kb.put_documents(dataset_id, {"a": OLD, "kept": OLD}),
            act,
            lambda kb, dataset_id: DELETES[remove](kb, dataset_id),
        ):
            for name in ("a", "b"):
                document = store.documents.get(dataset_id, name)
                sig = store.chunks.get_doc_sig(dataset_id, name)
                version = 0 if document is None else document.version
                assert (0 if sig is None else sig.source_version) == version
            found = (
                serve(store, FakeEmbedder()).search("fish", dataset_id=dataset_id, top_k=9).hits
                if (dataset_id in store.documents.list_datasets())
                else ()
            )
            names = {info.name for info in store.documents.list(dataset_id)}
            assert {hit.doc_name for hit in found} == names

    @pytest.mark.parametrize("scope", REBUILDS.values(), ids=REBUILDS)
    def test_what_is_put_while_orphans_are_removed_stays(
        self, store: Store, scope: RebuildScope
    ) -> None:
        """The layers of a folder, and of a dataset, that had no documents and have one now."""

        def prepare(kb: Service, dataset_id: str) -> None:
            kb.put_document(dataset_id, "kept", OLD)
            if scope.doc_names:
                store.layers.put(layer_of(store, dataset_id, "dir/", "left behind"))
                return
            kb.delete_document(dataset_id, "kept")
            for name in ("", "dir/"):
                store.layers.put(layer_of(store, dataset_id, name, "left behind"))

        def act(kb: Service, dataset_id: str) -> None:
            mine = RebuildScope(dataset_id=dataset_id, doc_names=scope.doc_names)
            kb.rebuild(mine if scope.dataset_id else scope)

        def rival(kb: Service, dataset_id: str) -> None:
            write_layered(kb, dataset_id, "dir/a", NEW)
            kb.put_folder_layer(dataset_id, "dir/", "L0", "of the folder")
            kb.put_dataset_layer(dataset_id, "L0", "of the dataset")

        for dataset_id in at_every_step(store, prepare, act, rival):
            assert assert_whole_or_gone(store, dataset_id, "dir/a")
            layers = {
                layer.doc_name: layer.content
                for layer in store.layers.list(dataset_id, layer=Layer.ABSTRACT)
            }
            assert layers.get("") == "of the dataset"
            assert layers.get("dir/") == "of the folder"
            store.documents.delete_dataset(dataset_id)

    @pytest.mark.parametrize("whole", [False, True], ids=["document", "dataset"])
    def test_threads_that_put_and_delete_leave_documents_whole_or_gone(
        self, store: Store, whole: bool
    ) -> None:
        kb = serve(store, FakeEmbedder())
        start = threading.Barrier(2)
        with ThreadPoolExecutor(1) as pool:
            for number in range(ROUNDS):
                dataset_id = f"d{number}"
                _put_old(kb, dataset_id)

                def remove(dataset_id: str = dataset_id) -> None:
                    start.wait()
                    if whole:
                        kb.delete_dataset(dataset_id)
                    else:
                        kb.delete_document(dataset_id, "a")

                removed = pool.submit(remove)
                start.wait()
                layered = True
                try:
                    write_layered(kb, dataset_id, "a", f"{NEW} {number}")
                except (NotFoundError, ConflictError):
                    layered = False  # deleted before its layer was stored
                removed.result()
                assert assert_whole_or_gone(store, dataset_id) <= layered

    @pytest.mark.parametrize("whole", [False, True], ids=["document", "dataset"])
    def test_processes_that_put_and_delete_leave_documents_whole_or_gone(
        self, store: Store, worker: Worker, whole: bool
    ) -> None:
        kb = serve(store, FakeEmbedder())
        datasets = [f"d{number}" for number in range(TIMES)]
        worker.send({"do": "write layered", "datasets": datasets, "text": NEW})
        for dataset_id, later in zip(datasets, [*datasets[1:], "end"], strict=True):
            while later not in store.documents.list_datasets():
                if whole:
                    kb.delete_dataset(dataset_id)
                else:
                    kb.delete_document(dataset_id, "a")
        layered = worker.receive()
        worker.close()
        for dataset_id in datasets:
            document = store.documents.get(dataset_id, "a")
            if document is None or document.version == layered[dataset_id]:
                assert_whole_or_gone(store, dataset_id)
            else:
                sig = store.chunks.get_doc_sig(dataset_id, "a")
                assert sig is not None, f"'a' of {dataset_id!r} has no chunks"
                assert sig.source_version == document.version
