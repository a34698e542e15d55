"""Running calls of the core in worker threads with the caller's deadline."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from triptych import deadlines
from triptych._internal.forks import in_child
from triptych.answers.pack import ContextPack
from triptych.answers.records import Answer, AnswerStream
from triptych.deadlines import deadline
from triptych.errors import NotAvailableError

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

THREADS: Final = min(32, (os.cpu_count() or 1) + 6)
"""The maximum number of concurrent calls in a process; others wait. Many more threads than
processors would slow each other down."""


class _Threads:
    """The threads of a process.

    They are not those of `asyncio.to_thread`: a model with async methods may need one of those
    (to look up a host, say) while each of these waits for the model.
    """

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Begin with new threads: a forked child has none of its parent's."""
        self.pool = ThreadPoolExecutor(THREADS, "triptych-aio")


_threads = _Threads()
in_child(_threads.renew)


async def run(method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call ``method`` in a worker thread.

    A call that waits for a thread ends at once when the task is cancelled or its deadline passes.
    One that runs ends at its next check of the deadline, and only then does the cancellation go
    on: nothing of it runs any more, and what it committed is whole. A second cancellation does not
    wait.

    Raises:
        CancelledError: the deadline passed before there was a thread.
    """
    with deadline() as scope:
        context = contextvars.copy_context()
        work: list[Callable[[], R]] = [lambda: method(*args, **kwargs)]
        call = _threads.pool.submit(lambda: context.run(work.pop()))
        ended = asyncio.wrap_future(call)
        try:
            await asyncio.wait({ended}, timeout=deadlines.remaining())
            if not ended.done():
                if call.cancel():
                    work.clear()
                    deadlines.check("waiting for a thread")
                await asyncio.wait({ended})
        except asyncio.CancelledError:
            scope.cancel()
            if call.cancel():
                # It stays in the queue until a thread comes to it: without what it was given.
                work.clear()
                raise
            # The caller gets the cancellation, even where another one ends the wait below.
            ended.add_done_callback(_seen)
            await asyncio.wait({ended})
            raise
        return ended.result()


def _seen(call: asyncio.Future[Any]) -> None:
    """Look at what the call raised, which asyncio would report as never retrieved."""
    if not call.cancelled():
        call.exception()


def next_item(iterator: Iterator[T]) -> tuple[T, ...]:
    """The next item, or nothing at the end."""
    # No StopIteration may leave a coroutine.
    for item in iterator:
        return (item,)
    return ()


class AsyncAnswerStream(AsyncIterator[str]):
    """The text of an answer in pieces; joined they equal ``answer.text``::

        stream = kb.ask_stream("…", dataset_id="docs")
        async for piece in stream:
            print(piece, end="")
        print(stream.answer.citations)

    The search runs when it is read first. If you do not read it to the end, call `aclose` or use it
    in ``async with``.
    """

    def __init__(self, start: Callable[[], AnswerStream]) -> None:
        self._start = start
        self._stream: AnswerStream | None = None
        self._closed = False

    @property
    def answer(self) -> Answer:
        """The complete answer.

        Raises:
            NotAvailableError: the stream has not been read to its end.
        """
        if self._stream is None:
            raise NotAvailableError("the answer is not complete yet: read the stream to its end")
        return self._stream.answer

    @property
    def pack(self) -> ContextPack:
        """The context that the model gets.

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
        """Stop the model and release it. Idempotent."""
        self._closed = True
        if self._stream is not None:
            await asyncio.to_thread(self._stream.close)

    async def __aenter__(self) -> AsyncAnswerStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Awaited:
    """What has the methods of ``_inner``, awaited."""

    _inner: Any


def awaited(
    method: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """The method of this name of an `Awaited`'s inner object, run in a worker thread."""

    @functools.wraps(method)
    async def call(self: Awaited, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        return await run(getattr(self._inner, method.__name__), *args, **kwargs)

    call.__qualname__ = f"Async.{method.__name__}"  # in a warning that it was never awaited
    return call


def streamed(
    method: Callable[Concatenate[Any, P], AnswerStream],
) -> Callable[Concatenate[Any, P], AsyncAnswerStream]:
    """As `awaited`, for an answer read piece by piece: its pieces are awaited, it is not."""

    @functools.wraps(method)
    def call(self: Awaited, /, *args: P.args, **kwargs: P.kwargs) -> AsyncAnswerStream:
        begin = getattr(self._inner, method.__name__)
        return AsyncAnswerStream(lambda: begin(*args, **kwargs))

    return call
