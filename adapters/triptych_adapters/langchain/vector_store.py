"""A dataset as LangChain's vector store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

from triptych._open import open as open_service
from triptych.service import Service
from triptych_adapters.langchain import documents as langchain
from triptych_adapters.langchain.embedder import LangChainEmbedder


class TriptychVectorStore(VectorStore):
    """Keeps LangChain's documents in a dataset: an id is a document's name.

    A search returns whole documents, each once, however long: Triptych cuts them into chunks
    itself. It is hybrid where the knowledge base has an embedder; ``mode="vector"`` and ``"bm25"``
    search by one lane. ``filter`` is a ``where``. Nested metadata comes back as it was, but cannot
    be filtered by.
    """

    def __init__(self, kb: Service, dataset_id: str = "langchain") -> None:
        """Use a dataset of ``kb``, which stays open and has the embedder."""
        self.kb = kb
        self.dataset_id = dataset_id

    @property
    def embeddings(self) -> Embeddings | None:
        """LangChain's embeddings, where the knowledge base has those."""
        embedder = self.kb.options.embedder
        return embedder.embeddings if isinstance(embedder, LangChainEmbedder) else None

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        url: str = "memory://",
        dataset_id: str = "langchain",
        **kwargs: Any,
    ) -> TriptychVectorStore:
        """Open the store at ``url`` with these embeddings, and add texts. Close its ``kb``."""
        kb = open_service(url, embedder=LangChainEmbedder(embedding), **kwargs)
        store = cls(kb, dataset_id)
        try:
            store.add_texts(texts, metadatas, ids=ids)
        except BaseException:
            kb.close()
            raise
        return store

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Put texts; what has an id that is there replaces it. The ids.

        Raises:
            ValueError: there are not as many metadatas or ids as texts.
        """
        every = list(texts)
        for what, given in (("metadatas", metadatas), ("ids", ids)):
            if given is not None and len(given) != len(every):
                raise ValueError(f"there are {len(every)} texts and {len(given)} {what}")
        found = metadatas or [{} for _ in every]
        documents = [
            Document(page_content=text, metadata=metadata)
            for text, metadata in zip(every, found, strict=True)
        ]
        return self.add_documents(documents, ids=ids)

    def add_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:
        """Put documents, by ``ids``, their own ids, or random ones. The ids."""
        ids = kwargs.get("ids") or [None] * len(documents)
        return langchain.put(self.kb, self.dataset_id, langchain.new_documents(documents, ids))

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Those that there are."""
        return langchain.get(self.kb, self.dataset_id, ids)

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Delete documents; what is not there is none the less gone.

        Raises:
            ValueError: no ids are given.
        """
        langchain.delete(self.kb, self.dataset_id, ids)
        return True

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """The best documents; ``filter`` and `Service.search`'s options go to the search."""
        return [document for document, _ in self.similarity_search_with_score(query, k, **kwargs)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """The best documents with their scores: the greater, the better."""
        return langchain.search(self.kb, self.dataset_id, query, k, _options(kwargs))

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, **kwargs: Any
    ) -> list[Document]:
        """Not available: a query is a text here, which the knowledge base embeds.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("search by text: the knowledge base embeds it")


def _options(given: dict[str, Any]) -> dict[str, Any]:
    options = dict(given)
    where = options.pop("filter", None)
    return options if where is None else {**options, "where": where}
