"""A hit of a window chunker carries the text of its window, from the state the hit is of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import pytest

import triptych
from triptych import NewDocument, Service, ServiceOptions, ValidationError
from triptych.chunking import ChunkerSet, FixedWindowChunker, SentenceWindowChunker
from triptych.contracts.defaults import Repositories
from triptych_backends.memory import MemoryStore
from triptych_testing.fakes import Failing, FakeEmbedder

CHUNKERS = ChunkerSet(
    by_kind={"markdown": SentenceWindowChunker(window=1, markdown=True)},
    default=FixedWindowChunker(),
)
TEXT = "# Kettle\r\n\r\nFill it. Boil 水 the teapot. Pour it 😀 out. Drink.\r\n"
WINDOW = "# Kettle\r\n\r\nFill it. Boil 水 the teapot. Pour it 😀 out."


@pytest.fixture(params=["memory://", "kb.db"])
def kb(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    url = request.param if request.param == "memory://" else tmp_path / request.param
    with triptych.open(url, embedder="hash", chunkers=CHUNKERS) as service:
        yield service


@pytest.mark.parametrize("mode", ["bm25", "vector", "hybrid"])
def test_a_hit_has_the_text_around_its_sentence(kb: Service, mode: str) -> None:
    kb.put_document("d", "a.md", TEXT)
    hit = kb.search("the teapot", dataset_id="d", mode=mode).hits[0]
    assert hit.content == "Boil 水 the teapot."
    assert hit.window == WINDOW
    assert TEXT[hit.window_start : hit.window_end] == WINDOW


def test_chunks_without_a_window_and_layers_have_none(kb: Service) -> None:
    kb.put_document("d", "a.txt", "Boil the teapot. Pour it out.")
    kb.put_document_layer("d", "a.txt", "L0", "About a teapot.")
    assert [hit.window for hit in kb.search("teapot", dataset_id="d").hits] == [None]
    assert [hit.window for hit in kb.search("teapot", dataset_id="d", layer="L0").hits] == [None]
    assert [hit.window for hit in kb.search_documents("teapot", dataset_id="d").hits] == [None]


def test_a_change_of_metadata_leaves_the_window(kb: Service) -> None:
    kb.put_document("d", "a.md", TEXT)
    kb.put_document("d", "a.md", TEXT, {"lang": "en"})
    assert kb.search("teapot", dataset_id="d").hits[0].window == WINDOW


def test_a_stale_hit_has_no_window_of_another_text(tmp_path: Path) -> None:
    with triptych.open(tmp_path / "kb.db", embedder=FakeEmbedder(), chunkers=CHUNKERS) as kb:
        kb.put_document("d", "a.md", TEXT)
    with triptych.open(tmp_path / "kb.db", embedder=FakeEmbedder(), chunkers=CHUNKERS) as kb:
        # As a process leaves it that is killed before it has cut the new text.
        kb.documents.put("d", NewDocument(name="a.md", content="Something else. " * 9))
        hit = kb.search("teapot", dataset_id="d", mode="bm25").hits[0]
    assert (hit.stale, hit.content, hit.window) == ("source", "Boil 水 the teapot.", None)


def test_a_hit_under_another_chunker_keeps_its_window(tmp_path: Path) -> None:
    with triptych.open(tmp_path / "kb.db", embedder=None, chunkers=CHUNKERS) as kb:
        kb.put_document("d", "a.md", TEXT)
    with triptych.open(tmp_path / "kb.db", embedder=None) as kb:
        hit = kb.search("teapot", dataset_id="d").hits[0]
    assert (hit.stale, hit.window) == ("chunker", WINDOW)


@attrs.define
class Meddled:
    """Real documents, but the first that are read change just before."""

    documents: Any
    meddle: Callable[[], object]
    times: int

    def __getattr__(self, name: str) -> Any:
        return getattr(self.documents, name)

    def get(self, dataset_id: str, name: str) -> Any:
        if self.times:
            self.times -= 1
            with ThreadPoolExecutor(1) as somebody_else:
                somebody_else.submit(self.meddle).result()
        return self.documents.get(dataset_id, name)


def over(documents: Any, store: MemoryStore) -> Repositories:
    """A store with other documents."""
    return Repositories.over(store, documents=documents)


def meddled(times: int, meddle: Callable[[Service, int], object]) -> triptych.Result:
    """What a search finds when the document is written to ``times`` times while it hydrates."""
    store = MemoryStore()
    options = ServiceOptions(chunkers=CHUNKERS)
    other = Service(store, options=options)
    other.put_document("d", "a.md", TEXT)
    other.put_document("d", "b.md", "A lid has nothing at all to do with it, not even by name.")
    counts = iter(range(times))
    documents = Meddled(store.documents, lambda: meddle(other, next(counts)), times)
    with Service(over(documents, store), options=options) as kb:
        return kb.search("the teapot lid", dataset_id="d", top_k=1)


@pytest.mark.parametrize(
    "meddle",
    [
        lambda kb, _: kb.put_document("d", "a.md", "Now. The new teapot. Then."),
        lambda kb, _: kb.delete_document("d", "a.md"),
        lambda kb, _: kb.delete_dataset("d"),
    ],
)
def test_what_others_write_meanwhile_changes_no_window(
    meddle: Callable[[Service, int], object],
) -> None:
    (hit,) = meddled(1, meddle).hits
    assert (hit.content, hit.window) == ("Boil 水 the teapot.", WINDOW)
    assert (hit.stale, hit.sig.source_version) == (None, 1)


def test_documents_are_read_once_and_only_for_windows() -> None:
    store = MemoryStore()
    documents = Failing(store.documents)
    options = ServiceOptions(chunkers=CHUNKERS)
    with Service(over(documents, store), options=options) as kb:
        kb.put_document("d", "a.md", TEXT)
        kb.put_document("d", "b.txt", "A teapot.")
        before = documents.counts["get"]
        assert len(kb.search("teapot pour fill drink", dataset_id="d").hits) == 5
        assert documents.counts["get"] - before == 1


def test_chunkers_and_sizes_do_not_go_together(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValidationError, match="their own sizes"):
        triptych.open("memory://", embedder=None, chunkers=CHUNKERS, chunk_size=100)
    monkeypatch.setenv("TRIPTYCH_CHUNK_SIZE", "100")
    with triptych.open("memory://", embedder=None, chunkers=CHUNKERS) as kb:
        assert kb.options.chunkers == CHUNKERS
