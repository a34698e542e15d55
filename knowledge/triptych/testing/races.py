"""A second writer between any two steps of a Service's call: what it put is whole, or gone."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from triptych.contracts import Capabilities, Store
from triptych.contracts.defaults import Repositories
from triptych.errors import ConflictError, NotFoundError
from triptych.records import Layer, RebuildScope
from triptych.service import Service
from triptych.testing.builders import layer_of
from triptych.testing.guarantees import guarantee
from triptych.testing.harness import Harness, HarnessTests
from triptych.testing.processes import Worker
from triptych.testing.work import service_over, write_layered

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
        self.documents: Any = _Stepped(store.documents, self._step)
        self.chunks: Any = _Stepped(store.chunks, self._step)
        self.layers: Any = _Stepped(store.layers, self._step)
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


class _Stepped:
    """An object that tells of each call before it is made. It has the methods of the other."""

    def __init__(self, inner: Any, step: Callable[[], None]) -> None:
        self._inner = inner
        self._step = step

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name.startswith("_") or not callable(method):
            return method

        @functools.wraps(method)
        def call(*given: Any, **named: Any) -> Any:
            self._step()
            return method(*given, **named)

        return call


def at_every_step(
    store: Store,
    prepare: Callable[[Service, str], object],
    act: Callable[[Service, str], object],
    rival: Callable[[Service, str], object],
) -> Iterator[str]:
    """Let ``rival`` in before each repository call of ``act``, each time in a new dataset.

    The dataset's id, when ``act`` has ended. The last one is that of a rival who came after it.
    """
    other = service_over(store)
    for at in range(100):
        dataset_id = f"d{at}"
        prepare(other, dataset_id)
        stepped = SteppedStore(store, at, functools.partial(rival, other, dataset_id))
        act(service_over(stepped), dataset_id)
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
                service_over(store).search("fish", dataset_id=dataset_id, top_k=9).hits
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
        kb = service_over(store)
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
        self, store: Store, harness: Harness, whole: bool
    ) -> None:
        if not harness.shared or harness.child is None:
            pytest.skip("no other process can open this store")
        kb = service_over(store)
        datasets = [f"d{number}" for number in range(TIMES)]
        with Worker() as worker:
            worker.open(harness.child)
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
