"""`AsyncService`: the methods of `Service` as coroutines.

The core is synchronous and thread-safe. Each call runs in a worker thread with the caller's
deadline, so that it does not block the event loop.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Any, Final, Generic, ParamSpec, TypeVar, Unpack

import numpy as np
from numpy.typing import NDArray

from triptych import deadlines
from triptych._internal.progress import Progress, ProgressCallback
from triptych._open import open as open_service
from triptych.access.view import Access
from triptych.aio.methods import AsyncDatasetMethods, AsyncServiceMethods
from triptych.aio.threads import next_item, run
from triptych.contracts import LLM, AsyncEmbedder, AsyncLLM, Embedder
from triptych.contracts.change_pages import check_poll, next_wait
from triptych.contracts.models import check_call
from triptych.errors import NotAvailableError, ValidationError
from triptych.records import ChangePage, EmbedKind, Generation, Message
from triptych.service import KnowledgeBase
from triptych.service.knowledge_base import Dataset
from triptych.service.options import OpenOptions

_LOOK: Final = 0.05
"""Seconds between checks of the deadline while waiting for a model."""
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class AsyncDataset(AsyncDatasetMethods):
    """Every method of `Dataset` as a coroutine: ``await docs.search("…")``."""

    def __init__(self, view: Dataset) -> None:
        self._inner: Dataset = view

    def __repr__(self) -> str:
        return f"<AsyncDataset {self.dataset_id!r} of {self._inner.service!r}>"

    @property
    def view(self) -> Dataset:
        """The dataset's synchronous view."""
        return self._inner

    @property
    def dataset_id(self) -> str:
        """The dataset's id."""
        return self._inner.dataset_id

    def follow(
        self, since: str | None = None, *, limit: int = 1000, poll: float = 0.5
    ) -> AsyncIterator[ChangePage]:
        """`Dataset.follow` with ``async for``; it holds no thread between checks."""
        changes = functools.partial(self.changes, limit=limit)
        return _follow(changes, since, check_poll(poll))


class AsyncService(AsyncServiceMethods):
    """Every method of `Service` as a coroutine: ``await kb.search("…")``. Use it in ``async with``.

    Arguments and errors are the same. Cancelling the task ends the call at its next check of the
    deadline; committed work remains.
    """

    def __init__(self, service: KnowledgeBase) -> None:
        self._inner: KnowledgeBase = service

    def __repr__(self) -> str:
        return f"<AsyncService of {self._inner!r}>"

    @classmethod
    async def open(
        cls,
        url: str | os.PathLike[str] | None = None,
        *,
        embedder: Embedder | AsyncEmbedder | str | None = "auto",
        llm: LLM | AsyncLLM | str | None = "auto",
        create: bool = True,
        **options: Unpack[OpenOptions],
    ) -> AsyncService:
        """`triptych.open` without blocking; an embedder or LLM may have only async methods.

        Raises:
            TriptychError: as `triptych.open`.
        """
        loop = asyncio.get_running_loop()
        model: Any = BlockingEmbedder(embedder, loop) if _is_async(embedder, "embed") else embedder
        writer: Any = BlockingLLM(llm, loop) if _is_async(llm, "generate") else llm
        service = await asyncio.to_thread(
            open_service, url, embedder=model, llm=writer, create=create, **options
        )
        return cls(service)

    @property
    def service(self) -> KnowledgeBase:
        """The wrapped synchronous Service."""
        return self._inner

    def dataset(self, dataset_id: str) -> AsyncDataset:
        """Return a view of one dataset: the same methods with the dataset id filled in."""
        return AsyncDataset(self._inner.dataset(dataset_id))

    def follow(
        self,
        since: str | None = None,
        *,
        dataset_id: str | None = None,
        limit: int = 1000,
        poll: float = 0.5,
    ) -> AsyncIterator[ChangePage]:
        """`Service.follow` with ``async for``; it holds no thread between checks."""
        changes = functools.partial(self.changes, dataset_id=dataset_id, limit=limit)
        return _follow(changes, since, check_poll(poll))

    def pipeline(self, name: str) -> AsyncService:
        """Return a Service that searches and answers with the named pipeline."""
        return AsyncService(self._inner.pipeline(name))

    def restricted(self, access: Access) -> AsyncService:
        """Return a Service restricted to ``access``: see `Service.restricted`."""
        return AsyncService(self._inner.restricted(access))

    async def close(self) -> None:
        """Close the Service."""
        await asyncio.to_thread(self._inner.close)

    async def __aenter__(self) -> AsyncService:
        """The facade itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the Service."""
        await self.close()


# Streams


async def _follow(
    changes: Callable[[str | None], Awaitable[ChangePage]], since: str | None, poll: float
) -> AsyncIterator[ChangePage]:
    while True:
        page = await changes(since)
        since = page.cursor
        if page.changes or page.reset:
            yield page
        if not page.more:
            await asyncio.sleep(next_wait(poll))
        deadlines.check("following the changes")


class ProgressStream(Generic[R]):
    """The progress of a long call as an async iterator::

        stream = ProgressStream(lambda each: kb.put_documents("d", documents, progress=each))
        async for progress in stream:
            print(progress.done, progress.total)
        print(stream.result.added)

    It can be iterated once. Leaving the loop early cancels the call.
    """

    def __init__(self, start: Callable[[ProgressCallback], Awaitable[R]]) -> None:
        self._start = start
        self._done: list[R] = []

    @property
    def result(self) -> R:
        """The result of the call.

        Raises:
            NotAvailableError: the stream has not been read to its end.
        """
        if not self._done:
            raise NotAvailableError("the call has no result yet: read its progress to the end")
        return self._done[0]

    async def __aiter__(self) -> AsyncIterator[Progress]:
        """Each progress; raises what the call raises."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[Progress | None] = asyncio.Queue()

        def told(progress: Progress) -> None:
            loop.call_soon_threadsafe(queue.put_nowait, progress)

        call = asyncio.ensure_future(self._start(told))
        call.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (progress := await queue.get()) is not None:
                yield progress
            self._done.append(await call)
        finally:
            if not call.done():
                call.cancel()
                await asyncio.wait({call})


async def iterate(make: Callable[[], Iterator[T]]) -> AsyncIterator[T]:
    """Iterate asynchronously over an iterator that runs in worker threads.

    Use it for `LLM.stream`: ``async for piece in iterate(lambda: llm.stream(messages,
    max_tokens=500))``.
    """
    iterator = await run(make)
    try:
        while items := await run(next_item, iterator):
            yield items[0]
    finally:
        close = getattr(iterator, "close", None)
        if callable(close):
            await asyncio.to_thread(close)


# Models with async methods


class BlockingEmbedder:
    """Wraps an `AsyncEmbedder` as an `Embedder`: its coroutines run on ``loop``.

    Call it from other threads than the loop's, such as those of an `AsyncService`.
    """

    def __init__(self, embedder: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._embedder: AsyncEmbedder = embedder
        self._loop = loop
        check_call(embedder, "aembed", "texts", kind="'document'")

    @property
    def signature(self) -> str:
        """See `Embedder.signature`."""
        return self._embedder.signature

    @property
    def dimension(self) -> int | None:
        """See `Embedder.dimension`."""
        return self._embedder.dimension

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        """See `Embedder.embed`.

        Raises:
            NotAvailableError: it is called in the loop's thread, which it would block.
        """
        return _wait(self._loop, lambda: self._embedder.aembed(texts, kind=kind))


class BlockingLLM:
    """Wraps an `AsyncLLM` as an `LLM`, as `BlockingEmbedder` does."""

    def __init__(self, llm: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._llm: AsyncLLM = llm
        self._loop = loop
        check_call(llm, "agenerate", "messages", max_tokens="n")

    @property
    def signature(self) -> str:
        """See `LLM.signature`."""
        return self._llm.signature

    def generate(self, messages: Sequence[Message], *, max_tokens: int) -> Generation:
        """See `LLM.generate`."""
        return _wait(self._loop, lambda: self._llm.agenerate(messages, max_tokens=max_tokens))

    def stream(self, messages: Sequence[Message], *, max_tokens: int) -> Iterator[str]:
        """See `LLM.stream`."""
        pieces = self._llm.astream(messages, max_tokens=max_tokens)

        async def following() -> tuple[str, ...]:
            async for piece in pieces:
                return (piece,)
            return ()

        while found := _wait(self._loop, following):
            yield found[0]


def _wait(loop: asyncio.AbstractEventLoop, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine on ``loop``, from another thread."""
    try:
        here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
    except RuntimeError:
        here = None
    if here is loop:
        raise NotAvailableError(
            "a model with async methods was called in the thread of its event loop, which would "
            "block itself: use an AsyncService"
        )
    asked = asyncio.run_coroutine_threadsafe(call(), loop)
    try:
        while not asked.done():
            deadlines.check("waiting for a model")
            if loop.is_closed():
                raise NotAvailableError("the event loop of the model with async methods is closed")
            concurrent.futures.wait([asked], timeout=_LOOK)
    except BaseException:
        asked.cancel()
        raise
    return asked.result()


def _is_async(model: object, method: str) -> bool:
    """Whether a model has the async form of ``method`` in place of ``method`` itself.

    Raises:
        ValidationError: ``method`` is a coroutine, which nothing would wait for.
    """
    blocking = inspect.getattr_static(model, method, None)
    if inspect.iscoroutinefunction(blocking):
        raise ValidationError(
            f"{method} of the {type(model).__name__} is a coroutine: name it a{method}"
        )
    return blocking is None and inspect.getattr_static(model, f"a{method}", None) is not None
