"""Haystack's own tests of document stores, and a pipeline: `make doors`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.doors, pytest.mark.slow]
pytest.importorskip("haystack", reason="haystack-ai is not installed: make doors")

from haystack import Document, Pipeline
from haystack.dataclasses import ByteStream
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.testing.document_store import DocumentStoreBaseExtendedTests
from haystack.testing.document_store_async import (
    CountDocumentsAsyncTest,
    DeleteAllAsyncTest,
    DeleteByFilterAsyncTest,
    DeleteDocumentsAsyncTest,
    FilterDocumentsAsyncTest,
    UpdateByFilterAsyncTest,
    WriteDocumentsAsyncTest,
)
from haystack.utils import Secret

import triptych
from triptych_frameworks.haystack import TriptychDocumentStore, TriptychRetriever


@pytest.fixture(params=["memory", "sqlite"])
def document_store(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[TriptychDocumentStore]:
    url = "memory://" if request.param == "memory" else str(tmp_path / "kb.db")
    store = TriptychDocumentStore(url, embedder="hash")
    yield store
    store.close()


def by_id(documents: list[Document]) -> list[Document]:
    return sorted(documents, key=lambda each: each.id)


class TestDocumentStore(DocumentStoreBaseExtendedTests):
    @pytest.fixture
    def document_store(self, document_store: TriptychDocumentStore) -> TriptychDocumentStore:
        return document_store

    @staticmethod
    def assert_documents_are_equal(received: list[Document], expected: list[Document]) -> None:
        """Documents come ordered by their ids."""
        assert received == by_id(expected)

    def test_write_documents(self, document_store: TriptychDocumentStore) -> None:
        document = Document(content="test doc")
        assert document_store.write_documents([document]) == 1
        with pytest.raises(DuplicateDocumentError):
            document_store.write_documents([document])
        self.assert_documents_are_equal(document_store.filter_documents(), [document])


class TestAsyncDocumentStore(
    CountDocumentsAsyncTest,
    DeleteAllAsyncTest,
    DeleteByFilterAsyncTest,
    DeleteDocumentsAsyncTest,
    FilterDocumentsAsyncTest,
    UpdateByFilterAsyncTest,
    WriteDocumentsAsyncTest,
):
    @pytest.fixture
    def document_store(self, document_store: TriptychDocumentStore) -> TriptychDocumentStore:
        return document_store

    @staticmethod
    def assert_documents_are_equal(received: list[Document], expected: list[Document]) -> None:
        assert received == by_id(expected)

    async def test_write_documents_async(self, document_store: TriptychDocumentStore) -> None:
        document = Document(content="test doc")
        assert await document_store.write_documents_async([document]) == 1
        with pytest.raises(DuplicateDocumentError):
            await document_store.write_documents_async([document])


def test_a_document_comes_back_as_it_was_written(document_store: TriptychDocumentStore) -> None:
    documents = [
        Document(content="text", meta={"a": {"b": [None, 1]}, "n": 1.5, "tags": ["x"], "no": None}),
        Document(blob=ByteStream(b"\0\1", mime_type="image/png"), embedding=[0.1, 0.2]),
        Document(content="", score=0.25),
    ]
    assert document_store.write_documents(documents) == 3
    assert document_store.filter_documents() == by_id(documents)
    with pytest.raises(triptych.ValidationError, match="neither text"):
        document_store.write_documents([Document(content="x", meta={"odd": object()})])


def test_a_pipeline_retrieves_passages(document_store: TriptychDocumentStore) -> None:
    text = "# Kettle\n\nThe lid whistles.\n\n# Tea\n\nPour boiling water.\n"
    document_store.write_documents(
        [
            Document(id="a.md", content=text, meta={"lang": "en"}),
            Document(id="b.md", content="# Wasser\n\nTea und Wasser.\n", meta={"lang": "de"}),
        ],
        DuplicatePolicy.OVERWRITE,
    )
    pipeline = Pipeline()
    pipeline.add_component("retriever", TriptychRetriever(document_store, mode="bm25"))
    english = {"field": "meta.lang", "operator": "==", "value": "en"}
    found = pipeline.run({"retriever": {"query": "tea", "filters": english}})["retriever"]
    (passage,) = found["documents"]
    where = passage.meta["triptych"]
    assert (where["doc_name"], passage.meta["lang"], passage.score) == ("a.md", "en", passage.score)
    assert text[where["start"] : where["end"]] == passage.content
    none = {"field": "meta.lang", "operator": "==", "value": "fr"}
    assert pipeline.run({"retriever": {"query": "tea", "filters": none}}) == {
        "retriever": {"documents": []}
    }


def test_filters_on_meta_read_no_texts(
    document_store: TriptychDocumentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    document_store.write_documents(
        [
            Document(id=f"{n}.md", content="Tea.", meta={"n": n, "x": {"of": [n, None]}})
            for n in range(9)
        ]
    )
    few = {"field": "meta.n", "operator": "<", "value": 5}
    nested = {"field": "meta.x", "operator": "==", "value": {"of": [3, None]}}
    text = {"field": "content", "operator": "==", "value": "Tea."}
    for filters in (few, nested, text, {"operator": "AND", "conditions": [few, text]}):
        expected = [each.id for each in document_store.filter_documents(filters)]
        assert document_store.matching_names(filters) == expected
    monkeypatch.setattr("triptych_frameworks.haystack.retriever._AT_ONCE", 2)
    monkeypatch.setattr(type(document_store.kb), "get_document", None)
    retriever = TriptychRetriever(document_store, mode="bm25", top_k=20)
    found = retriever.run("tea", {"operator": "AND", "conditions": [few]})["documents"]
    assert sorted(each.meta["n"] for each in found) == [0, 1, 2, 3, 4]


async def test_a_pipeline_is_written_and_read_again(tmp_path: Path) -> None:
    store = TriptychDocumentStore(str(tmp_path / "kb.db"), "docs", embedder=None)
    store.write_documents([Document(content="Pour boiling water.")])
    pipeline = Pipeline()
    pipeline.add_component("retriever", TriptychRetriever(store, top_k=3))
    allowed = ["triptych_frameworks.haystack.*"]
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=allowed)
    store.close()
    retriever = again.get_component("retriever")
    assert (retriever.top_k, retriever.document_store.dataset_id) == (3, "docs")
    found = await retriever.run_async("water")
    assert [each.content for each in found["documents"]] == ["Pour boiling water."]
    retriever.document_store.close()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://reader:hunter2@db.example/kb",
        "postgresql://db.example/kb?password=hunter2",
        "qdrant://db.example:6333?truth=kb.db&api_key=hunter2",
        "https://u:hunt/er2@kb.example",
    ],
)
def test_a_secret_stands_in_no_file_of_a_pipeline(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for store in (
        TriptychDocumentStore(url),
        TriptychDocumentStore(embedder=url.replace("https", "tei:https")),
        TriptychDocumentStore(Secret.from_token(url)),
    ):
        for made in (store, TriptychRetriever(store)):
            with pytest.raises(ValueError, match=r"Secret|token") as raised:
                made.to_dict()
            assert "hunt" not in f"{raised.value}{made!r}"
    monkeypatch.setenv("KB_URL", "memory://")
    store = TriptychDocumentStore(Secret.from_env_var("KB_URL"), embedder="hash")
    again = TriptychRetriever.from_dict(TriptychRetriever(store).to_dict()).document_store
    assert again.count_documents() == 0
    assert again.to_dict() == store.to_dict()
    again.close()


def test_an_address_without_a_secret_is_written(tmp_path: Path) -> None:
    for url in (
        "postgresql://reader@db.example/kb",
        "qdrant://db.example:6333?truth=kb.db",
        "https://kb.example:8000",
        str(tmp_path / "a@b.db"),
    ):
        written = TriptychDocumentStore(url).to_dict()
        assert TriptychDocumentStore.from_dict(written).url == url
