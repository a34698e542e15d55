"""Calls of the Service in worker threads: bounded, under a deadline, cancelled with the request."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from typing import Any, TypeVar

from starlette.requests import Request

from triptych.deadlines import CancelScope, deadline
from triptych_adapters.http.limits import Limits
from triptych_adapters.http.problems import ProblemError
from triptych_adapters.http.request_parts import wanted_seconds
from triptych_adapters.http.senders import sender_of

T = TypeVar("T")


class ClientGoneError(Exception):
    """Whoever asked has closed the connection; there is nobody to answer."""


class Calls:
    """The threads of a server.

    What takes long by its nature, because it asks a model or rebuilds, has threads of its own:
    searches do not wait for it. So have checks of keys and of health, which wait for no operation.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._quick = ThreadPoolExecutor(limits.threads, "triptych-http")
        self._long = ThreadPoolExecutor(limits.threads, "triptych-http-long")
        self._apart = ThreadPoolExecutor(limits.threads, "triptych-http-apart")
        self._under_way = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count a request for the block, from before its key is checked and its body is read.

        Raises:
            ProblemError: 503, as too many are under way.
        """
        if self._under_way >= self._limits.waiting:
            raise ProblemError(
                503,
                "OVERLOADED",
                f"{self._under_way} requests are under way",
                headers={"Retry-After": "1"},
            )
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1

    async def apart(self, function: Callable[[], T]) -> T:
        """Call ``function``, which is no operation, in a thread that no operation takes."""
        return await asyncio.get_running_loop().run_in_executor(self._apart, function)

    @asynccontextmanager
    async def caller(self, request: Request, *, long: bool = False) -> AsyncIterator[Caller]:
        """What runs the calls of one request."""
        await request.body()  # what comes after it is that the client goes away
        turn = sender_of(request.scope).turn(long=long)
        with deadline(wanted_seconds(request, self._limits)) as scope:
            caller = Caller(self._long if long else self._quick, request, scope, turn)
            try:
                yield caller
            finally:
                await caller.end()

    def close(self) -> None:
        """End the threads, once their calls have ended."""
        self._quick.shutdown(wait=False)
        self._long.shutdown(wait=False)
        self._apart.shutdown(wait=False)


class Caller:
    """The calls of one request, one after another; ``turn`` is what each of them waits for."""

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        request: Request,
        scope: CancelScope,
        turn: asyncio.Semaphore | None,
    ) -> None:
        self._pool = pool
        self._scope = scope
        self._turn = turn or nullcontext()
        # In a context of its own: a server that goes on reading from the connection here, after
        # the body, does so for all later requests, and they would inherit this one's deadline.
        loop = asyncio.get_running_loop()
        self._gone = loop.create_task(_disconnected(request), context=contextvars.Context())

    async def run(self, function: Callable[[], T]) -> T:
        """Call ``function`` in a thread.

        When the client goes away, or the task is cancelled, the call ends at its next check of
        the deadline; what it committed is whole.

        Raises:
            ClientGoneError: the client went away.
        """
        async with self._turn:
            return await self._run(function)

    async def _run(self, function: Callable[[], T]) -> T:
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        call = loop.run_in_executor(self._pool, context.run, function)
        either: set[asyncio.Future[Any]] = {call, self._gone}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if call.done():
                return call.result()
        except asyncio.CancelledError:
            self._scope.cancel()
            # What is closed next, such as a model's answer, must not be in use by the call.
            await asyncio.wait({call})
            _seen(call)
            raise
        self._scope.cancel()
        await asyncio.wait({call})
        _seen(call)
        raise ClientGoneError

    @property
    def remaining(self) -> float:
        """Seconds that the request has left."""
        return self._scope.remaining

    async def pause(self, seconds: float) -> None:
        """Wait.

        Raises:
            ClientGoneError: the client went away.
        """
        done, _ = await asyncio.wait({self._gone}, timeout=seconds)
        if done:
            raise ClientGoneError

    async def apart(self, function: Callable[[], T]) -> T:
        """Call ``function`` in a thread, whether the client is there or not."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, function)

    async def end(self) -> None:
        """Stop waiting for the client to go away."""
        self._gone.cancel()
        with suppress(asyncio.CancelledError):
            await self._gone


def _seen(call: asyncio.Future[T]) -> None:
    if not call.cancelled():
        call.exception()


async def _disconnected(request: Request) -> None:
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            return
