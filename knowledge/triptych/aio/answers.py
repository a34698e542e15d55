"""An answer in pieces, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from types import TracebackType

from triptych.aio.threads import next_item, run
from triptych.answers.answerer import AnswerStream
from triptych.answers.pack import ContextPack
from triptych.answers.records import Answer
from triptych.errors import NotAvailableError


class AsyncAnswerStream(AsyncIterator[str]):
    """The pieces of an answer; joined, they are ``answer.text``::

        stream = kb.ask_stream("…", dataset_id="docs")
        async for piece in stream:
            print(piece, end="")
        print(stream.answer.citations)

    Nothing is searched before it is read. Call `aclose`, or use it in ``async with``, where it is
    not read to its end.
    """

    def __init__(self, start: Callable[[], AnswerStream]) -> None:
        self._start = start
        self._stream: AnswerStream | None = None
        self._closed = False

    @property
    def answer(self) -> Answer:
        """The whole answer.

        Raises:
            NotAvailableError: the stream has not been read to its end.
        """
        if self._stream is None:
            raise NotAvailableError("the answer is not whole yet: read the stream to its end")
        return self._stream.answer

    @property
    def pack(self) -> ContextPack:
        """What the model is shown.

        Raises:
            NotAvailableError: nothing of the stream has been read.
        """
        if self._stream is None:
            raise NotAvailableError("nothing has been searched yet: read the stream")
        return self._stream.pack

    async def __anext__(self) -> str:
        if self._closed:
            raise StopAsyncIteration
        if self._stream is None:
            self._stream = await run(self._start)
        for piece in await run(next_item, self._stream):
            return piece
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Let go of the model; it stops writing. Idempotent."""
        self._closed = True
        if self._stream is not None:
            await asyncio.to_thread(self._stream.close)

    async def __aenter__(self) -> AsyncAnswerStream:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()
