"""`Service.recreate` empties a dataset and takes the Service's configuration on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import triptych
from triptych import NotFoundError, Service, StoreError
from triptych.chunking import ChunkerSet, FixedWindowChunker
from triptych.records import DatasetConfig
from triptych_backends.memory import MemoryStore
from triptych_testing.fakes import FakeEmbedder, failing_store, kept_open

OTHER = ChunkerSet(default=FixedWindowChunker())


@pytest.fixture(params=["memory", "sqlite"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Service]:
    store = MemoryStore()

    def open_(**options: object) -> Service:
        if request.param == "sqlite":
            return triptych.open(tmp_path / "kb.db", **{"embedder": None, **options})  # type: ignore[arg-type]  # a test passes any option on
        chosen = triptych.ServiceOptions(**options)  # type: ignore[arg-type]  # as above
        return Service(kept_open(store), options=chosen)

    return open_


def test_everything_goes_but_the_language_and_the_versions(
    opened: Callable[..., Service],
) -> None:
    with opened() as kb:
        docs = kb.dataset("d")
        kb.configure_dataset("d", language="german")
        docs.put("a.md", "Häuser")
        docs.put_layer("a.md", "L0", "Etwas über Häuser.")
        docs.put_dataset_layer("L0", "Alles.")
        kb.put_document("other", "a.md", "stays")
        assert docs.recreate() is True
        assert list(kb.list_datasets()) == ["other"]
        assert docs.search("Häuser").hits == ()
        assert docs.search("Häuser", layer="L0").hits == ()
        stored = docs.put("a.md", "Häuser")
        assert stored.version == 2
        assert docs.stats().config == DatasetConfig(
            chunker_sig=kb.options.chunkers.signature, language="german"
        )
        assert [hit.doc_name for hit in docs.search("Haus").hits] == ["a.md"]
        assert kb.get_document("other", "a.md").content == "stays"


def test_the_configuration_becomes_this_services(opened: Callable[..., Service]) -> None:
    with opened() as kb:
        kb.put_document("d", "a.md", "text")
    with opened(chunkers=OTHER, embedder=FakeEmbedder()) as kb:
        with pytest.raises(triptych.TriptychError):
            kb.put_document("d", "b.md", "text")
        kb.recreate("d")
        kb.put_document("d", "b.md", "text")
        config = kb.stats("d")[0].config
        assert config is not None
        assert (config.chunker_sig, config.embed_sig) == (OTHER.signature, FakeEmbedder().signature)
        assert kb.stats("d")[0].stale == 0


def test_there_may_be_no_such_dataset(opened: Callable[..., Service]) -> None:
    with opened(language="german") as kb:
        assert kb.recreate("none") is False
        assert list(kb.list_datasets()) == []
        with pytest.raises(NotFoundError):
            kb.search("x", dataset_id="none")
        kb.put_document("none", "a.md", "text")
        assert kb.stats("none")[0].config is not None


def test_a_failure_is_raised_and_calling_again_repairs_it() -> None:
    store = MemoryStore()
    with Service(store) as kb:
        kb.put_document("d", "a.md", "text")
        broken = failing_store(store, chunks_configure=StoreError("disk"))
        with pytest.raises(StoreError, match="disk"):
            Service(broken).recreate("d")
        assert list(kb.list_datasets()) == []
        assert kb.recreate("d") is False
        assert kb.put_document("d", "a.md", "text").version == 2
