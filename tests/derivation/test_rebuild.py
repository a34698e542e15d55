"""Rebuilds: bounded parallel embedding, going on after a cut, and what has lost its source."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from support.rows import each_row
from triptych import Progress, RebuildScope, Service, ServiceOptions, deadline
from triptych.contracts.defaults import Repositories
from triptych.errors import (
    CancelledError,
    ModelMismatchError,
    NotFoundError,
    ProviderError,
    ValidationError,
)
from triptych.records import DerivedLayer, EmbedKind, Layer, NewDocument
from triptych_backends.memory import MemoryStore
from triptych_testing.fakes import FakeEmbedder


class Gathering(FakeEmbedder):
    """Waits in each call until ``together`` calls are inside, or nobody else can come."""

    def __init__(self, together: int, calls: int, **rest: Any) -> None:
        super().__init__(**rest)
        self.most = 0
        self._together, self._left = together, calls
        self._inside = 0
        self._changed = threading.Condition()

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        with self._changed:
            self._inside += 1
            self._left -= 1
            self.most = max(self.most, self._inside)
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self.most >= self._together or self._left <= 0, timeout=30
            )
            self._inside -= 1
        return super().embed(texts, kind=kind)


class Held(FakeEmbedder):
    """All calls but the first ``free`` wait for ``go``.

    Without it, calls that are in flight when their caller cancels may answer all that is left.
    """

    def __init__(self, free: int) -> None:
        super().__init__()
        self.go = threading.Event()
        self._free = threading.Semaphore(free)

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        if not self._free.acquire(blocking=False):
            assert self.go.wait(timeout=60)
        return super().embed(texts, kind=kind)


def lose(store: MemoryStore, name: str, dataset_id: str = "d") -> None:
    """Take a document, and nothing that was made of it: what a damaged store is like."""
    with store._truth as truth:
        dataset = truth.write(dataset_id)
        stored = dataset.documents.pop(name)
        dataset.floor = max(dataset.floor, stored.document.version)
        del truth.places[stored.key]


def serve(store: Any, embedder: Any = None, *, chunks: Any = None, **options: Any) -> Service:
    over = Repositories.over(store, chunks=chunks or store.chunks)
    return Service(over, options=ServiceOptions(embedder=embedder, **options))


def text_of(number: int) -> str:
    return f"text number {number} of many"


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    with MemoryStore() as store:
        yield store


@pytest.fixture
def stale(store: MemoryStore) -> int:
    """600 documents that have chunks and no vectors; how many."""
    with serve(store) as kb:
        kb.put_documents("d", {f"n{number:04}": text_of(number) for number in range(600)})
    return 600


@pytest.mark.parametrize("bound", [1, 3])
def test_embedding_runs_in_parallel_up_to_its_bound(
    store: MemoryStore, stale: int, bound: int
) -> None:
    embedder = Gathering(together=bound, calls=11)
    with serve(store, embedder, embed_concurrency=bound) as kb:
        report = kb.rebuild()
    assert (report.rebuilt, report.embedded) == (stale, stale)
    assert embedder.most == bound
    assert sorted(embedder.texts) == sorted(set(embedder.texts))


def test_vectors_do_not_depend_on_how_many_run_at_a_time(store: MemoryStore, stale: int) -> None:
    with MemoryStore() as other, serve(other) as kb:
        kb.put_documents("d", {f"n{number:04}": text_of(number) for number in range(600)})
        for each, bound in ((store, 8), (other, 1)):
            with serve(each, FakeEmbedder(), embed_concurrency=bound) as kb:
                kb.rebuild()
        pairs = zip(
            store.chunks.iter_chunks("d", vectors=True),
            other.chunks.iter_chunks("d", vectors=True),
            strict=True,
        )
        for mine, theirs in pairs:
            assert mine == theirs
            assert mine.vector is not None


@each_row("bound", [0, 65, -1, 2.5, True, "4"])
def test_an_invalid_bound_is_refused(bound: Any) -> None:
    with pytest.raises(ValidationError, match="embed_concurrency"):
        ServiceOptions(embed_concurrency=bound)


def test_a_rebuild_that_was_cut_off_goes_on_where_it_stopped(
    store: MemoryStore, stale: int
) -> None:
    embedder = Held(free=4)
    with serve(store, embedder, embed_concurrency=4) as kb:

        def cut(progress: Progress) -> None:
            if progress.phase == "embedding":
                scope.cancel()
                embedder.go.set()

        with pytest.raises(CancelledError), deadline() as scope:
            kb.rebuild(progress=cut)
        done = len(embedder.texts)
        assert 0 < done < stale
        report = kb.rebuild()
        assert (report.fresh, report.rebuilt, report.embedded) == (done, stale - done, stale - done)
        assert sorted(embedder.texts) == sorted(text_of(number) for number in range(stale))


def test_one_document_that_cannot_be_embedded_holds_up_no_other(store: MemoryStore) -> None:
    class Choosy(FakeEmbedder):
        def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
            if any("number 77 " in text for text in texts):
                raise ProviderError("no")
            return super().embed(texts, kind=kind)

    with serve(store) as kb:
        kb.put_documents("d", {f"n{number:04}": text_of(number) for number in range(600)})
    with serve(store, Choosy()) as kb:
        report = kb.rebuild()
        assert [failure.name for failure in report.failed] == ["n0077"]
        assert (report.checked, report.rebuilt, report.embedded) == (600, 599, 599)


def test_a_layer_that_cannot_be_embedded_is_in_the_report(store: MemoryStore) -> None:
    with serve(store) as kb:
        kb.put_documents("d", {"a": "one", "b": "two"})
        kb.put_document_layer("d", "a", "L0", "fails")
        kb.put_document_layer("d", "b", "L0", "fine")

    class Choosy(FakeEmbedder):
        def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
            if "fails" in texts:
                raise ProviderError("no")
            return super().embed(texts, kind=kind)

    with serve(store, Choosy()) as kb:
        report = kb.rebuild()
        assert [failure.name for failure in report.failed] == ["a"]
        assert (report.rebuilt, report.embedded) == (2, 3)


def test_a_layer_that_failed_can_be_rebuilt_by_its_name_alone(store: MemoryStore) -> None:
    embedder = FakeEmbedder()
    with serve(store) as kb:
        kb.put_documents("d", {"c/a": "one"})
        kb.put_document_layer("d", "c/a", "L0", "of the document")
        sig = kb.layers("d")[0].sig
    for name in ("c/", "gone/"):
        layer = DerivedLayer(
            dataset_id="d", doc_name=name, layer=Layer.ABSTRACT, content="of a folder", sig=sig
        )
        store.layers.put(layer)
    embedder.failures = {2: ProviderError("no"), 3: ProviderError("no")}
    with serve(store, embedder) as kb:
        assert [failure.name for failure in kb.rebuild().failed] == ["c/", "c/a"]
        assert kb.rebuild(dataset_id="d", doc_name="c/a").embedded == 1
        assert kb.rebuild(dataset_id="d", doc_name="c/").embedded == 1
        assert kb.rebuild().embedded == 0
        assert [layer.doc_name for layer in store.layers.list("d")] == ["c/", "c/a"]


def test_what_has_lost_its_source_is_removed(store: MemoryStore) -> None:
    with serve(store, FakeEmbedder()) as kb:
        kb.put_documents("d", {"a": "kept", "b": "orphaned", "c/d": "orphaned too", "e": ""})
        kb.put_document_layer("d", "b", "L0", "abstract")
        store.layers.put(
            DerivedLayer(
                dataset_id="d",
                doc_name="c/",
                layer=Layer.ABSTRACT,
                content="of a folder",
                sig=kb.layers("d")[0].sig,
            )
        )
        kb.put_dataset_layer("d", "L0", "of the dataset")
        for name in ("b", "c/d", "e"):
            lose(store, name)
        report = kb.rebuild(dataset_id="d")
        assert (report.checked, report.fresh, report.removed) == (1, 1, 4)
        assert list(store.chunks.doc_names("d")) == ["a"]
        assert [layer.doc_name for layer in store.layers.list("d")] == [""]
        assert kb.rebuild().removed == 0


def test_what_is_left_of_a_dataset_that_is_gone_is_removed_when_it_is_named(
    store: MemoryStore,
) -> None:
    with serve(store) as kb:
        kb.put_document("d", "a", "orphaned")
        lose(store, "a")
        store._truth.write("d").exists = False
        assert kb.rebuild(RebuildScope(dataset_id="d")).removed == 1
        with pytest.raises(NotFoundError):
            kb.rebuild(RebuildScope(dataset_id="d"))


def test_several_documents_are_rebuilt_by_name_and_no_others(store: MemoryStore) -> None:
    with serve(store) as old:
        old.put_documents("d", {name: f"text of {name}" for name in ("a", "b", "c", "gone", "f/x")})
    for name in ("a", "b", "c"):
        text = f"new text of {name}"
        store.documents.put("d", NewDocument(name=name, content=text))
    lose(store, "gone")
    with serve(store) as kb:
        scope = RebuildScope(dataset_id="d", doc_names=["a", "b", "f/x", "f/", "gone", "none"])
        report = kb.rebuild(scope)
        assert (report.checked, report.rebuilt, report.fresh, report.removed) == (3, 2, 1, 1)
        assert kb.rebuild(scope).fresh == 3
        assert kb.rebuild(dataset_id="d").rebuilt == 1


def test_documents_that_are_named_are_not_rebuilt_under_another_configuration(
    store: MemoryStore,
) -> None:
    with serve(store, FakeEmbedder()) as kb:
        kb.put_documents("d", {"a": "text", "b": "text"})
    with serve(store, FakeEmbedder("other")) as kb:
        with pytest.raises(ModelMismatchError):
            kb.rebuild(RebuildScope(dataset_id="d", doc_names=["a", "b"]))
        assert kb.rebuild(dataset_id="d").rebuilt == 2
