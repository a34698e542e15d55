"""Calls that type checkers must refuse: each line that is marked ``# bad``, and no other."""

from __future__ import annotations

import triptych
from triptych.aio import AsyncService


def opened() -> None:
    triptych.open("kb.db", embeder="hash")  # bad
    triptych.open("kb.db", chunk_size="many")  # bad
    triptych.open("kb.db", executor="threads")  # bad


def asked(kb: triptych.KnowledgeBase) -> None:
    docs = kb.dataset("d")
    kb.search("x", dataset_id="d", limit=3)  # bad
    kb.search("x", dataset_id="d", top_k="3")  # bad
    docs.search("x", k=3)  # bad
    docs.search("x", dataset_id="d")  # bad
    docs.search_documents("x", filter={})  # bad
    kb.search_many(["x"], where=["lang"])  # bad
    docs.context("x", 100, budget=3)  # bad
    kb.context("x", 100, fence="yes")  # bad
    kb.ask("x", max_tokens="many", dataset_id="d")  # bad
    docs.ask("x", dataset_id="d")  # bad
    docs.ask_stream("x", budget=3)  # bad
    kb.pipeline("p").ask("x", prompt="Say yes.")  # bad
    kb.serch("x")  # bad
    kb.put_documents("d", [{"name": "a"}])  # bad


async def awaited(kb: AsyncService) -> None:
    await AsyncService.open("kb.db", historie=3)  # bad
    await kb.search("x", limit=3)  # bad
    await kb.serch("x")  # bad
    await kb.dataset("d").search("x", k=3)  # bad
    await kb.dataset("d").ask("x", llm=3)  # bad
    await kb.put_document("d", "a", 3)  # bad
    number: int = await kb.search("x", dataset_id="d")  # bad
    print(number)
