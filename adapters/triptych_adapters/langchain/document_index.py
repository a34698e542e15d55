"""A dataset as LangChain's document index: upsert, get, delete, and retrieve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.indexing import UpsertResponse
from langchain_core.indexing.base import DeleteResponse, DocumentIndex
from pydantic import ConfigDict, Field

from triptych.service import Service
from triptych_adapters.langchain import documents as langchain


class TriptychDocumentIndex(DocumentIndex):
    """Keeps LangChain's documents in a dataset, and retrieves whole documents.

    Attributes:
        kb: an open knowledge base, which stays open.
        dataset_id: the dataset.
        k: how many documents are retrieved.
        options: further options of `Service.search`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    kb: Service
    dataset_id: str = "langchain"
    k: int = 4
    options: dict[str, Any] = Field(default_factory=dict)

    def upsert(self, items: Sequence[Document], /, **kwargs: Any) -> UpsertResponse:
        """Put documents; which were stored, and which were not."""
        new = langchain.new_documents(items, [None] * len(items))
        if not new:
            return UpsertResponse(succeeded=[], failed=[])
        failed = [each.name for each in self.kb.put_documents(self.dataset_id, new).failed]
        names = list(dict.fromkeys(document.name for document in new))
        return UpsertResponse(
            succeeded=[name for name in names if name not in failed], failed=failed
        )

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> DeleteResponse:
        """Delete documents; which there were.

        Raises:
            ValueError: no ids are given.
        """
        gone = langchain.delete(self.kb, self.dataset_id, ids)
        return DeleteResponse(succeeded=gone, num_deleted=len(gone), num_failed=0, failed=[])

    def get(self, ids: Sequence[str], /, **kwargs: Any) -> list[Document]:
        """Those that there are."""
        return langchain.get(self.kb, self.dataset_id, ids)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        found = langchain.search(self.kb, self.dataset_id, query, self.k, self.options)
        return [document for document, _ in found]
