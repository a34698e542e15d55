"""A dataset as LangChain's cache of a model's answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from langchain_core.caches import BaseCache
from langchain_core.load import dumps, loads
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import (
    ChatGeneration,
    ChatGenerationChunk,
    Generation,
    GenerationChunk,
)

from triptych.errors import NotFoundError
from triptych.service import Service

_KEPT: Final[list[Any]] = [
    AIMessage,
    AIMessageChunk,
    ChatGeneration,
    ChatGenerationChunk,
    Generation,
    GenerationChunk,
]
"""What is made of what the store holds: nothing else, whoever wrote it."""


class TriptychCache(BaseCache):
    """Keeps what a model answered to a prompt, word for word the same.

    Give it a knowledge base of its own, without an embedder: what is cached is found by a search of
    all datasets.

    Args:
        kb: an open knowledge base, which stays open.
        dataset_id: the dataset that the answers are in; `clear` deletes it.
        expires_after: how long an answer holds; None for ever.
    """

    def __init__(
        self,
        kb: Service,
        dataset_id: str = "langchain-cache",
        *,
        expires_after: timedelta | None = None,
    ) -> None:
        self.kb = kb
        self.dataset_id = dataset_id
        self.expires_after = expires_after

    def lookup(self, prompt: str, llm_string: str) -> Sequence[Generation] | None:
        """What is kept; None where nothing is, or it has expired."""
        try:
            stored = self.kb.get_document(self.dataset_id, _key(prompt, llm_string))
        except NotFoundError:
            return None
        found = loads(stored.content, allowed_objects=_KEPT)
        return found if isinstance(found, list) else None

    def update(self, prompt: str, llm_string: str, return_val: Sequence[Generation]) -> None:
        """Keep an answer in place of what is kept."""
        expires_at = None if self.expires_after is None else datetime.now(UTC) + self.expires_after
        self.kb.put_document(
            self.dataset_id,
            _key(prompt, llm_string),
            dumps(list(return_val)),
            expires_at=expires_at,
            embed="later",
        )

    def clear(self, **kwargs: Any) -> None:
        """Forget all answers."""
        self.kb.delete_dataset(self.dataset_id)


def _key(prompt: str, llm_string: str) -> str:
    return hashlib.sha256(json.dumps([prompt, llm_string]).encode()).hexdigest()
