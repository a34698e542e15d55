"""A program that type checkers pass. Not run: `test_typing.py` gives it to mypy and pyright."""

from __future__ import annotations

from pathlib import Path

import triptych
from triptych.aio import AsyncService, ProgressStream


def asked(kb: triptych.KnowledgeBase) -> list[str]:
    docs = kb.dataset("d")
    result = docs.search("start", top_k=3, where={"lang": "en"}, mode="bm25", layer="L2")
    names: list[str] = [hit.doc_name for hit in result]
    first: triptych.Hit = result[0]
    lines: tuple[int, int] = (first.start_line, first.end_line)
    version: int = first.version
    everywhere = kb.search("start", scope="all", threshold=0.1, fresh_only=True)
    many: list[triptych.Result] = kb.search_many(["a", "b"], dataset_id="d", top_k=2)
    pack = docs.context("start", 2000, format="xml", layers=["L2"], where=None)
    answer: triptych.Answer = docs.ask("start", max_tokens=100, abstain_if_weak=True, top_k=3)
    pieces = kb.pipeline("p").ask_stream("start", token_budget=None, counter=len, mode="bm25")
    print(answer.text, *pieces)
    kb.put_documents("d", {"a": "b"}).raise_for_failures()
    print(lines, version, len(everywhere), many[0].warnings, pack.tokens)
    return names


def opened(path: Path) -> triptych.KnowledgeBase:
    options: triptych.OpenOptions = {"read_only": True, "ranker": triptych.RRFRanker()}
    with triptych.open("kb.db", embedder=None, chunk_size=400, history=3) as kb:
        print(kb.lanes)
    return triptych.open(path, llm="openai:gpt-4o-mini", create=False, **options)


async def awaited() -> int:
    async with await AsyncService.open("kb.db", embedder="hash", read_only=False) as kb:
        docs = kb.dataset("d")
        document: triptych.SourceDocument = await docs.put("a", "b", {"k": "v"}, if_version=0)
        result: triptych.Result = await docs.search("b", top_k=1, where={"k": ["v"]})
        stream = ProgressStream(lambda each: kb.put_documents("d", {"a": "c"}, progress=each))
        async for progress in stream:
            print(progress.done)
        return document.version + len(result) + stream.result.added
