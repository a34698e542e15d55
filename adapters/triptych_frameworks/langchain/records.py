"""LangChain's LLM cache and record manager over a dataset."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from langchain_core.caches import BaseCache
from langchain_core.indexing import RecordManager
from langchain_core.load import dumps, loads
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import (
    ChatGeneration,
    ChatGenerationChunk,
    Generation,
    GenerationChunk,
)

from triptych.errors import NotFoundError
from triptych.records import NewDocument
from triptych.service import KnowledgeBase
from triptych_frameworks.in_threads import in_thread

_KEPT: Final[list[Any]] = [
    AIMessage,
    AIMessageChunk,
    ChatGeneration,
    ChatGenerationChunk,
    Generation,
    GenerationChunk,
]
"""The only classes that are deserialized from the store."""


class TriptychCache(BaseCache):
    """Caches a model's responses to identical prompts.

    Use a separate knowledge base without an embedder: searches of all datasets would find the
    cached responses.

    Args:
        kb: an open knowledge base; it is not closed.
        dataset_id: the dataset of the responses; `clear` deletes it.
        expires_after: how long a response is valid; None for ever.
    """

    def __init__(
        self,
        kb: KnowledgeBase,
        dataset_id: str = "langchain-cache",
        *,
        expires_after: timedelta | None = None,
    ) -> None:
        self.kb = kb
        self.dataset_id = dataset_id
        self.expires_after = expires_after

    def lookup(self, prompt: str, llm_string: str) -> Sequence[Generation] | None:
        """Return the cached response; None if there is none or it has expired."""
        try:
            stored = self.kb.get_document(self.dataset_id, _key(prompt, llm_string))
        except NotFoundError:
            return None
        found = loads(stored.content, allowed_objects=_KEPT)
        return found if isinstance(found, list) else None

    def update(self, prompt: str, llm_string: str, return_val: Sequence[Generation]) -> None:
        """Cache a response, replacing an earlier one."""
        expires_at = None if self.expires_after is None else datetime.now(UTC) + self.expires_after
        self.kb.put_document(
            self.dataset_id,
            _key(prompt, llm_string),
            dumps(list(return_val)),
            expires_at=expires_at,
            embed="later",
        )

    def clear(self, **kwargs: Any) -> None:
        """Delete all cached responses."""
        self.kb.delete_dataset(self.dataset_id)


def _key(prompt: str, llm_string: str) -> str:
    return hashlib.sha256(json.dumps([prompt, llm_string]).encode()).hexdigest()


# What was indexed when

_AT_ONCE: Final = 500
"""Names that one condition lists."""


class TriptychRecordManager(RecordManager):
    """Keeps the records of `langchain_core.indexing.index` in a knowledge base.

    Each key is a document in the dataset ``namespace``, so that records outlive the process, and
    several processes share them.
    """

    def __init__(self, kb: KnowledgeBase, namespace: str = "langchain-records") -> None:
        """Keep the records in the dataset ``namespace`` of ``kb``, which is not closed."""
        super().__init__(namespace)
        self.kb = kb

    def create_schema(self) -> None:
        """Create the dataset."""
        self.kb.create_dataset(self.namespace)

    acreate_schema = in_thread(create_schema)

    def get_time(self) -> float:
        """Seconds since 1970."""
        return time.time()

    async def aget_time(self) -> float:
        """Seconds since 1970."""
        return self.get_time()

    def update(
        self,
        keys: Sequence[str],
        *,
        group_ids: Sequence[str | None] | None = None,
        time_at_least: float | None = None,
    ) -> None:
        """Record that keys were indexed now.

        Raises:
            ValueError: the numbers of groups and keys differ, or the clock is behind
                ``time_at_least``.
        """
        groups = [None] * len(keys) if group_ids is None else group_ids
        if len(groups) != len(keys):
            raise ValueError(f"there are {len(keys)} keys and {len(groups)} group_ids")
        now = self.get_time()
        if time_at_least is not None and now < time_at_least:
            raise ValueError(f"the clock says {now}, which is before {time_at_least}")
        records = [
            NewDocument(
                name=_name(key),
                content=key,
                metadata={"updated": now, **({} if group is None else {"group": group})},
            )
            for key, group in zip(keys, groups, strict=True)
        ]
        if records:
            report = self.kb.put_documents(self.namespace, records, embed="later")
            report.raise_for_failures()

    aupdate = in_thread(update)

    def exists(self, keys: Sequence[str]) -> list[bool]:
        """Whether each key was indexed."""
        if not keys or self.namespace not in self.kb.list_datasets():
            return [False] * len(keys)
        names = [_name(key) for key in keys]
        found: set[str] = set()
        for at in range(0, len(names), _AT_ONCE):
            where = {"$name": {"$in": names[at : at + _AT_ONCE]}}
            infos = self.kb.list_documents(self.namespace, where=where)
            found.update(info.name for info in infos)
        return [name in found for name in names]

    aexists = in_thread(exists)

    def list_keys(
        self,
        *,
        before: float | None = None,
        after: float | None = None,
        group_ids: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> list[str]:
        """List the keys of these groups that were indexed between these times."""
        if self.namespace not in self.kb.list_datasets():
            return []
        updated: dict[str, Any] = {}
        if before is not None:
            updated["$lt"] = before
        if after is not None:
            updated["$gt"] = after
        where: dict[str, Any] = {"updated": updated} if updated else {}
        if group_ids is not None:
            where["group"] = {"$in": list(group_ids)}
        found = self.kb.list_documents(self.namespace, where=where or None, limit=limit)
        return [self.kb.get_document(self.namespace, info.name).content for info in found]

    alist_keys = in_thread(list_keys)

    def delete_keys(self, keys: Sequence[str]) -> None:
        """Delete keys."""
        for key in keys:
            self.kb.delete_document(self.namespace, _name(key))

    adelete_keys = in_thread(delete_keys)


def _name(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
