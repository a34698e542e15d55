"""LangChain's own tests of retrievers, vector stores, caches and document indexes: `make doors`.

They run in an environment of their own (``.venv/frameworks``).
"""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = [
    pytest.mark.doors,
    pytest.mark.slow,
    # LangChain's own reading of what it has written.
    pytest.mark.filterwarnings("ignore:The function `loads` is in beta"),
]
pytest.importorskip("langchain_tests", reason="langchain-tests is not installed: make doors")

from langchain_core.documents import Document
from langchain_core.indexing import index
from langchain_core.load import dumpd, dumps
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, Generation
from langchain_tests.integration_tests import (
    AsyncCacheTestSuite,
    RetrieversIntegrationTests,
    SyncCacheTestSuite,
    VectorStoreIntegrationTests,
)
from langchain_tests.integration_tests.indexer import (
    AsyncDocumentIndexTestSuite,
    DocumentIndexerTestSuite,
)

import triptych
from triptych.service import Service
from triptych_frameworks.langchain import (
    LangChainEmbedder,
    TriptychCache,
    TriptychDocumentIndex,
    TriptychRecordManager,
    TriptychRetriever,
    TriptychVectorStore,
)
from triptych_providers import OpenAIEmbedder


@pytest.fixture(params=["memory", "sqlite"])
def kb(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    url = "memory://" if request.param == "memory" else str(tmp_path / "kb.db")
    with triptych.open(url, embedder="hash") as service:
        yield service


class TestRetriever(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _filled(self, kb: Service) -> None:
        kb.put_documents("docs", {f"{n}.md": f"# Tea {n}\n\nPour water {n}.\n" for n in range(5)})
        self.kb = kb

    @property
    def retriever_constructor(self) -> type[TriptychRetriever]:
        return TriptychRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"kb": self.kb, "dataset_id": "docs"}

    @property
    def retriever_query_example(self) -> str:
        return "how do I pour tea"


class TestVectorStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path: Path) -> Iterator[TriptychVectorStore]:
        store = TriptychVectorStore.from_texts(
            [], self.get_embeddings(), url=str(tmp_path / "kb.db")
        )
        with store.kb:
            yield store


class TestCache(SyncCacheTestSuite):
    @pytest.fixture
    def cache(self, kb: Service) -> TriptychCache:
        return TriptychCache(kb)


class TestAsyncCache(AsyncCacheTestSuite):
    @pytest.fixture
    async def cache(self, kb: Service) -> TriptychCache:
        return TriptychCache(kb)


class TestDocumentIndex(DocumentIndexerTestSuite):
    @pytest.fixture
    def index(self, kb: Service) -> TriptychDocumentIndex:
        return TriptychDocumentIndex(kb=kb)


class TestAsyncDocumentIndex(AsyncDocumentIndexTestSuite):
    @pytest.fixture
    async def index(self, kb: Service) -> TriptychDocumentIndex:
        return TriptychDocumentIndex(kb=kb)


def test_a_passage_says_where_it_is_from(kb: Service) -> None:
    kb.put_document("docs", "tea.md", "# Tea\n\nPour water.\n", {"lang": "en"})
    kb.put_document("other", "b.md", "# Tea\n\nSell it.\n", {"lang": "de"})
    retriever = TriptychRetriever(kb=kb, options={"where": {"lang": "en"}})
    (found,) = retriever.invoke("tea")
    assert found.metadata["source"] == "tea.md"
    assert found.metadata["lang"] == "en"
    where = found.metadata["triptych"]
    text = kb.get_document("docs", "tea.md").content
    assert text[where["start"] : where["end"]] == found.page_content
    assert (where["dataset_id"], where["version"], where["stale"]) == ("docs", 1, None)


def texts_of(documents: list[Document]) -> list[str]:
    return [each.page_content for each in documents]


async def test_each_search_type_works(kb: Service) -> None:
    store = TriptychVectorStore(kb)
    store.add_texts(["red fish", "red fish again", "a blue bird"])

    async def found(kind: str, **options: Any) -> list[str]:
        retriever = store.as_retriever(search_type=kind, search_kwargs=options)
        texts = texts_of(retriever.invoke("red fish"))
        assert texts_of(await retriever.ainvoke("red fish")) == texts
        return texts

    assert await found("similarity", k=2) == ["red fish", "red fish again"]
    assert await found("mmr", k=2, lambda_mult=1.0) == ["red fish", "red fish again"]
    assert await found("mmr", k=2, lambda_mult=0.1) == ["red fish", "a blue bird"]
    assert await found("mmr", k=2, filter={"$name": "none"}) == []
    kind = "similarity_score_threshold"
    assert await found(kind, score_threshold=0.99) == ["red fish"]
    assert await found(kind, score_threshold=0.5) == ["red fish", "red fish again"]
    scored = store.similarity_search_with_relevance_scores("red fish", k=3)
    assert [0 <= score <= 1 for _, score in scored] == [True] * 3
    with pytest.raises(ValueError, match="compares cosines"):
        await found(kind, score_threshold=0.5, mode="hybrid")


def test_search_types_that_need_vectors_say_so() -> None:
    with triptych.open("memory://", embedder=None) as kb:
        store = TriptychVectorStore(kb)
        store.add_texts(["red fish", "red fish again"])
        for kind in ("mmr", "similarity_score_threshold"):
            options = {"score_threshold": 0.1} if kind != "mmr" else {}
            with pytest.raises(triptych.NotAvailableError, match=r"vector|embed"):
                store.as_retriever(search_type=kind, search_kwargs=options).invoke("red fish")


def test_no_written_form_holds_a_secret() -> None:
    embedder = OpenAIEmbedder("m", api_key="hunter2", dimension=8)
    remote = triptych.open("http://127.0.0.1:9", api_key="hunter2")
    for kb in (triptych.open("memory://", embedder=embedder), remote):
        with kb:
            for made in (
                TriptychRetriever(kb=kb),
                TriptychDocumentIndex(kb=kb),
                TriptychVectorStore(kb),
                TriptychCache(kb),
                TriptychRecordManager(kb),
            ):
                written = [dumps(made), str(dumpd(made)), repr(made), str(made), str(vars(made))]
                assert "hunter2" not in "".join(written), type(made)
                with pytest.raises(TypeError, match="pickle"):
                    pickle.dumps(made)


def test_what_is_put_comes_back_whole(kb: Service) -> None:
    store = TriptychVectorStore(kb)
    long = "\n\n".join(f"# Part {n}\n\n" + "words and words " * 80 for n in range(10))
    metadata = {"n": 1, "nested": {"a": [1, {"b": None}]}, "none": None, "tags": ["x", "y"]}
    (name,) = store.add_documents([Document(page_content=long, metadata=metadata)])
    (found,) = store.similarity_search("words", k=3)
    assert found == Document(id=name, page_content=long, metadata=metadata)
    assert store.similarity_search("words", filter={"tags": "z"}) == []
    with pytest.raises(ValueError, match="2 texts and 1 ids"):
        store.add_texts(["a", "b"], ids=["1"])
    with pytest.raises(triptych.ValidationError, match="'odd'"):
        store.add_texts(["a"], [{"odd": object()}])


def test_the_index_call_skips_what_it_has_recorded(kb: Service) -> None:
    store, records = TriptychVectorStore(kb), TriptychRecordManager(kb)
    records.create_schema()
    every = [Document(page_content=f"text {n}", metadata={"source": f"{n}.md"}) for n in range(5)]
    options: dict[str, Any] = {
        "cleanup": "full",
        "source_id_key": "source",
        "key_encoder": "sha256",
    }
    assert index(every, records, store, **options)["num_added"] == 5
    assert index(every, records, store, **options)["num_skipped"] == 5
    done = index(
        [*every[1:], Document(page_content="new", metadata={"source": "n.md"})],
        records,
        store,
        **options,
    )
    assert (done["num_added"], done["num_deleted"], done["num_skipped"]) == (1, 1, 4)
    assert kb.count_documents("langchain") == 5


async def test_records_are_kept_without_blocking_the_loop(kb: Service) -> None:
    records = TriptychRecordManager(kb)
    await records.acreate_schema()
    turned = threading.Event()
    put = kb.put_documents

    def waiting(*given: Any, **named: Any) -> Any:
        assert turned.wait(60), "the event loop does not turn"
        return put(*given, **named)

    kb.put_documents = waiting  # type: ignore[method-assign]
    asyncio.get_running_loop().call_soon(turned.set)
    await records.aupdate(["a", "b"])
    assert await records.aexists(["a", "x", "b"]) == [True, False, True]
    assert await records.alist_keys(limit=5) == records.list_keys(limit=5)
    await records.adelete_keys(["a", "b"])
    assert not any(await records.aexists([f"{n}" for n in range(20_000)]))


def test_an_answer_that_has_expired_is_not_served(kb: Service) -> None:
    chat = [ChatGeneration(message=AIMessage(content="hello", id="1"))]
    cache = TriptychCache(kb, expires_after=timedelta(hours=1))
    cache.update("p", "m", chat)
    assert cache.lookup("p", "m") == chat
    assert cache.lookup("pm", "") is None
    old = TriptychCache(kb, expires_after=timedelta(hours=-1))
    old.update("p", "m", [Generation(text="old")])
    assert cache.lookup("p", "m") is None


def test_the_embedder_names_its_model() -> None:
    class Fake:
        model = "m-1"

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [[3.0, 4.0]] * len(texts)

        def embed_query(self, text: str) -> list[float]:
            return [0.0, 0.0]

    embedder = LangChainEmbedder(Fake())  # type: ignore[arg-type]
    assert embedder.signature == "langchain/Fake/m-1"
    vectors = embedder.embed(["a", "b"], kind="document")
    assert vectors.dtype == np.float32
    assert np.allclose(vectors, [[0.6, 0.8]] * 2)
    assert embedder.embed(["q"], kind="query").tolist() == [[0.0, 0.0]]
    assert len(embedder.embed([], kind="document")) == 0
