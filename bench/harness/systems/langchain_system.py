"""LangChain: BM25Retriever and InMemoryVectorStore, fused by its EnsembleRetriever."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.corpus import Document, Edit, Given, Vectors, document_of, key_of
from harness.system import Found, System, plain_terms

_DEPTH = 10


class LangChain(System):
    packages = ("langchain-classic", "langchain-community", "langchain-core", "rank-bm25")
    modules = ("langchain_classic", "langchain_community", "langchain_core", "rank_bm25")
    lanes = ("keyword", "vector", "hybrid")
    most = 10_000
    persists = False
    updates = "vectors in place; the keyword index is built again; all in memory"
    setup = (
        "BM25Retriever over plain words (rank-bm25, k1=1.2) and InMemoryVectorStore, "
        "EnsembleRetriever with equal weights"
    )

    @classmethod
    def load(cls) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            import langchain_core.vectorstores  # noqa: F401 - timed

    def __init__(self, folder: Path, given: Given) -> None:
        super().__init__(folder, given)
        from langchain_core.embeddings import Embeddings
        from langchain_core.vectorstores import InMemoryVectorStore

        class GivenEmbeddings(Embeddings):  # type: ignore[misc]  # the base is untyped here
            def embed_documents(self, texts: list[str]) -> list[list[float]]:
                rows: list[list[float]] = given.embed(texts).tolist()
                return rows

            def embed_query(self, text: str) -> list[float]:
                row: list[float] = given.embed([text], kind="query")[0].tolist()
                return row

        self._vectors: Any = InMemoryVectorStore(GivenEmbeddings())
        self._documents: list[Any] = []
        self._lanes: dict[str, Any] = {}

    def _add(self, document: Document) -> None:
        from langchain_core.documents import Document as LangChainDocument

        keys = (key_of(chunk.text) for chunk in document.chunks)
        self.given.hand_out(keys, (chunk.vector for chunk in document.chunks))
        made = [LangChainDocument(chunk.text, id=chunk.id) for chunk in document.chunks]
        self._documents += made
        self._vectors.add_documents(made)

    def ingest(self, documents: Iterator[Document]) -> None:
        for document in documents:
            self._add(document)
        self._build()

    def _build(self) -> None:
        from langchain_classic.retrievers import EnsembleRetriever
        from langchain_community.retrievers import BM25Retriever

        words: dict[str, Any] = {"preprocess_func": plain_terms} if self.plain else {}
        keyword = BM25Retriever.from_documents(
            self._documents, bm25_params={"k1": 1.2, "b": 0.75}, **words
        )
        keyword.k = _DEPTH
        vector = self._vectors.as_retriever(search_kwargs={"k": _DEPTH})
        hybrid = EnsembleRetriever(retrievers=[keyword, vector], weights=[0.5, 0.5])
        self._lanes = {"keyword": keyword, "vector": vector, "hybrid": hybrid}

    def search(self, lane: str, text: str, vector: Vectors, limit: int) -> Found:
        found = self._lanes[lane].invoke(text)
        return [(hit.id, hit.page_content) for hit in found[:limit]]

    def replace(self, edit: Edit) -> None:
        self._remove(edit.document.name)
        self._add(edit.document)
        self._build()

    def delete(self, name: str) -> None:
        self._remove(name)
        self._build()

    def _remove(self, name: str) -> None:
        gone = [found.id for found in self._documents if document_of(found.id) == name]
        self._documents = [found for found in self._documents if document_of(found.id) != name]
        self._vectors.delete(gone)


SYSTEM = LangChain
