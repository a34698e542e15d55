"""A retriever component for Haystack pipelines."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from haystack import component, default_from_dict, default_to_dict
from haystack.dataclasses import Document

from triptych_frameworks.haystack.document_store import TriptychDocumentStore, passage_of

_AT_ONCE: Final = 10_000
"""Names that one condition lists."""


@component
class TriptychRetriever:
    """Finds passages of the documents of a `TriptychDocumentStore`, best first.

    Each is a `Document` with the passage, its score and the document's meta; ``meta["triptych"]``
    has position, version and staleness of the passage.

    Args:
        document_store: the store to search.
        top_k: the maximum number of passages.
        mode: "hybrid", "bm25", "vector" or another lane; None is hybrid if possible.
        filters: Haystack's filters, the default for runs without filters.
    """

    def __init__(
        self,
        document_store: TriptychDocumentStore,
        *,
        top_k: int = 10,
        mode: str | None = None,
        filters: dict[str, Any] | None = None,
    ) -> None:
        if not isinstance(document_store, TriptychDocumentStore):
            raise ValueError("document_store is a TriptychDocumentStore")
        self.document_store = document_store
        self.top_k = top_k
        self.mode = mode
        self.filters = filters

    def to_dict(self) -> dict[str, Any]:
        """Return the arguments, for a pipeline's file."""
        made: dict[str, Any] = default_to_dict(
            self,
            document_store=self.document_store.to_dict(),
            top_k=self.top_k,
            mode=self.mode,
            filters=self.filters,
        )
        return made

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> TriptychRetriever:
        """Create the retriever from `to_dict`."""
        parameters = data["init_parameters"]
        store = parameters["document_store"]
        if isinstance(store, dict):
            parameters["document_store"] = TriptychDocumentStore.from_dict(store)
        retriever: TriptychRetriever = default_from_dict(cls, data)
        return retriever

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Search; ``filters`` and ``top_k`` override those of the component."""
        store, wanted = self.document_store, filters if filters is not None else self.filters
        if store.dataset_id not in store.kb.list_datasets():
            return {"documents": []}
        where = None
        if wanted:
            names = store.matching_names(wanted)
            if not names:
                return {"documents": []}
            parts = (names[at : at + _AT_ONCE] for at in range(0, len(names), _AT_ONCE))
            where = {"$or": [{"$name": {"$in": part}} for part in parts]}
        result = store.kb.search(
            query,
            dataset_id=store.dataset_id,
            top_k=self.top_k if top_k is None else top_k,
            mode=self.mode,
            where=where or {},
        )
        return {"documents": [passage_of(hit) for hit in result.hits]}

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """`run` as a coroutine."""
        return await asyncio.to_thread(self.run, query, filters, top_k)
