"""Models by their calls for an event loop, as models whose calls block: for one set of tests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextvars import copy_context
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from triptych.records import EmbedKind, Generation, Message
from triptych_providers import (
    AnthropicLLM,
    OllamaEmbedder,
    OllamaLLM,
    OpenAIEmbedder,
    OpenAILLM,
    VoyageEmbedder,
)

T = TypeVar("T")
RemoteLLM = AnthropicLLM | OllamaLLM | OpenAILLM
RemoteEmbedder = OllamaEmbedder | OpenAIEmbedder | VoyageEmbedder


def awaited(model: Any, call: Callable[[], Awaitable[T]]) -> T:
    """What ``call`` comes to in an event loop of its own, whose connections end with it."""

    async def run() -> T:
        try:
            return await call()
        finally:
            await model._client.disconnect()

    return asyncio.run(run())


class AwaitedLLM:
    """``agenerate`` and ``astream``, waited for."""

    def __init__(self, llm: RemoteLLM) -> None:
        self._llm = llm

    def __getattr__(self, name: str) -> Any:
        return getattr(self._llm, name)

    def __repr__(self) -> str:
        return repr(self._llm)

    def generate(self, messages: Sequence[Message], *, max_tokens: int) -> Generation:
        return awaited(self._llm, lambda: self._llm.agenerate(messages, max_tokens=max_tokens))

    def stream(self, messages: Sequence[Message], *, max_tokens: int) -> AwaitedStream:
        return AwaitedStream(self._llm, messages, max_tokens)


class AwaitedStream(Iterator[str]):
    """A stream that is read piece by piece in an event loop of its own."""

    def __init__(self, llm: RemoteLLM, messages: Sequence[Message], max_tokens: int) -> None:
        self._runner: asyncio.Runner | None = None
        self._llm = llm
        self._stream = llm.astream(messages, max_tokens=max_tokens)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __next__(self) -> str:
        if self._runner is None:
            self._runner = asyncio.Runner()

        async def piece() -> str | None:
            return await anext(self._stream, None)

        try:
            text = self._runner.run(piece(), context=copy_context())
        except BaseException:
            self.close()
            raise
        if text is None:
            self.close()
            raise StopIteration
        return text

    def close(self) -> None:
        async def close() -> None:
            await self._stream.aclose()
            await self._llm._client.disconnect()

        runner, self._runner = self._runner or asyncio.Runner(), None
        runner.run(close())
        runner.close()

    def __del__(self) -> None:
        if self._runner is not None:
            self.close()


class AwaitedEmbedder:
    """``aembed``, waited for."""

    def __init__(self, embedder: RemoteEmbedder) -> None:
        self._embedder = embedder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)

    def __repr__(self) -> str:
        return repr(self._embedder)

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        return awaited(self._embedder, lambda: self._embedder.aembed(texts, kind=kind))
