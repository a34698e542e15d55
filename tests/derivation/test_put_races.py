"""A put whose dataset is deleted, or configured otherwise, between its check and its write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from triptych import Service, ServiceOptions
from triptych.contracts.defaults import Repositories
from triptych.errors import ConflictError, DerivationError, ModelMismatchError
from triptych.records import NewDocument
from triptych_backends.memory import MemoryStore
from triptych_backends.sqlite import SqliteStore
from triptych_testing.fakes import Failing, FakeEmbedder


class Before(Failing):
    """Calls ``rival`` before each call of the methods that are named."""

    def __init__(self, inner: Any, names: tuple[str, ...], rival: Callable[[], object]) -> None:
        super().__init__(inner)
        for name in names:
            setattr(self, name, self._after(rival, getattr(self, name)))

    @staticmethod
    def _after(rival: Callable[[], object], method: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            rival()
            return method(*given, **named)

        return call


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    kind = request.param
    with MemoryStore() if kind == "memory" else SqliteStore.open(tmp_path / "kb.db") as opened:
        yield opened


def serve(store: Any, chunks: Any = None, embedder: Any = None, documents: Any = None) -> Service:
    over = Repositories.over(
        store, documents=documents or store.documents, chunks=chunks or store.chunks
    )
    return Service(over, options=ServiceOptions(embedder=embedder or FakeEmbedder()))


def test_a_dataset_deleted_again_and_again_ends_in_an_error_with_the_document(store: Any) -> None:
    chunks = Before(
        store.chunks, ("replace", "replace_many"), lambda: store.chunks.delete_by_dataset("d")
    )
    kb = serve(store, chunks)
    with pytest.raises(DerivationError, match="deleted repeatedly") as caught:
        kb.put_document("d", "a", "fish")
    assert caught.value.document == kb.get_document("d", "a")
    assert isinstance(caught.value.__cause__, ConflictError)
    assert chunks.counts["replace"] < 20
    with pytest.raises(DerivationError, match="deleted repeatedly") as caught:
        kb.put_documents("d", {"a": "bird", "b": "bird"})
    report = caught.value.report
    assert (report.updated, report.added, report.chunks) == (0, 0, 0)
    assert [each.name for each in report.failed] == ["a", "b"]
    assert all(isinstance(each.error, DerivationError) for each in report.failed)
    repaired = serve(store)
    assert repaired.rebuild().rebuilt == 2
    assert len(repaired.search("bird", dataset_id="d").hits) == 2


def test_documents_and_chunks_of_two_stores_are_named_as_the_cause(store: Any) -> None:
    with MemoryStore() as other:
        kb = serve(store, other.chunks)
        with pytest.raises(DerivationError, match="in two stores: they must share one"):
            kb.put_document("d", "a", "fish")


@pytest.mark.parametrize("bulk", [False, True])
def test_a_dataset_that_another_begins_again_meanwhile_keeps_that_ones_configuration(
    store: Any, bulk: bool
) -> None:
    other = serve(store, embedder=FakeEmbedder(signature="other/1"))

    def begin_again() -> None:
        other.delete_dataset("d")
        other.put_document("d", "theirs", "fish")

    serve(store).put_document("d", "a", "old fish")
    names = ("put_many",) if bulk and hasattr(store.documents, "put_many") else ("put",)
    kb = serve(store, documents=Before(store.documents, names, begin_again))
    put = partial(kb.put_documents, "d", {"a": "new fish"})
    with pytest.raises(DerivationError) as caught:
        put() if bulk else kb.put_document("d", "a", "new fish")
    error = caught.value
    assert isinstance(error.__cause__, ModelMismatchError)
    assert "nothing was written" not in str(error)
    assert error.document == other.get_document("d", "a")
    assert other.stats("d")[0].config.embed_sig == "other/1"  # type: ignore[union-attr]  # it has one
    assert other.rebuild().rebuilt == 1
    assert len(other.search("fish", dataset_id="d").hits) == 2


@pytest.mark.parametrize("named", [False, True])
def test_a_rebuild_configures_a_dataset_that_another_begins_again_beneath_it(
    store: Any, named: bool
) -> None:
    begun = []

    def begin_again() -> None:
        if not begun:
            begun.append(store.documents.delete_dataset("d"))
            # As a process leaves it that is killed between storing a document and deriving it.
            store.documents.put("d", NewDocument(name="a", content="new fish"))

    serve(store).put_document("d", "a", "old fish")
    method = "get" if named else "list"
    if named:
        store.documents.put("d", NewDocument(name="a", content="stale fish"))
    kb = serve(store, documents=Before(store.documents, (method,), begin_again))
    report = kb.rebuild(dataset_id="d", doc_name="a" if named else "")
    assert (report.rebuilt, report.failed) == (1, ())
    assert [hit.content for hit in kb.search("fish", dataset_id="d").hits] == ["new fish"]
    assert kb.stats("d")[0].stale == 0
