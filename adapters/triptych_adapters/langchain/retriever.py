"""Passages of a knowledge base, as LangChain's retriever."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field

from triptych.service import Service
from triptych_adapters.langchain.documents import passage_of


class TriptychRetriever(BaseRetriever):
    """Finds passages: ``retriever.invoke("…")`` returns a `Document` for each hit, best first.

    Their ``metadata`` is the document's, with ``source``, its name, and ``triptych``: where the
    passage is, of which version, its score, and why it is stale, if it is.

    Attributes:
        kb: an open knowledge base, which stays open. One on a server will do.
        dataset_id: the dataset to search; "" for all.
        k: how many passages; ``invoke(query, k=…)`` overrides it.
        options: further options of `Service.search`, such as ``{"mode": "bm25", "where": {…}}``.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    kb: Service
    dataset_id: str = ""
    k: int = 4
    options: dict[str, Any] = Field(default_factory=dict)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **given: Any
    ) -> list[Document]:
        options = {**self.options, **given}
        top_k = options.pop("k", self.k)
        if "scope" not in options and "dataset_ids" not in options:
            options |= {"dataset_id": self.dataset_id} if self.dataset_id else {"scope": "all"}
        return [passage_of(hit) for hit in self.kb.search(query, top_k=top_k, **options).hits]
