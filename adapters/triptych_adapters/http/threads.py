"""Threads that make the calls of requests, so that a call which lasts keeps no other waiting.

While a search computes, each turn of the event loop takes the interpreter's lock from it, and gives
it back at once: twenty times a request where several are under way, which costs a third of the
processor's time (docs/explanation/performance.md). Therefore the loop waits itself for a short
call. It does nothing meanwhile, but nor could it: the call has the lock.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

_SHORT: Final = 0.03
"""Seconds for which the loop waits itself for a call."""
_FEWEST, _MOST = 8, 4096
"""Calls for which it does not, after one that should not have been waited for."""


class Threads:
    """At most ``count`` threads; calls beyond them queue. For one event loop.

    One of them makes every call that comes while it has none: what it works on stays in one core's
    cache. With ``short`` the loop waits for that call itself. It leaves that for a while after a
    call that lasted, or that waited more than it computed, as for a model or a database server; for
    longer, the more of them there are. Between two calls that it waits for, it looks at all others.
    """

    def __init__(self, count: int, name: str, *, short: bool = False) -> None:
        self._first = ThreadPoolExecutor(1, name)
        self._others = ThreadPoolExecutor(count - 1, name) if count > 1 else self._first
        self._under_way: set[_Call[Any]] = set()
        self._newest: _Call[Any] | None = None
        self._short = short
        self._unawaited, self._penalty = 0, _FEWEST
        self._has_waited = False
        self._turns: deque[asyncio.Future[None]] = deque()

    async def call(
        self,
        function: Callable[[], T],
        *,
        lasts: Callable[[], object] = lambda: None,
        abandoned: Callable[[], object] | None = None,
    ) -> T:
        """What ``function`` returns in one of the threads, in the context of this task.

        ``lasts`` is called when it has not ended at once. When the task is cancelled, ``abandoned``
        is called, and the call awaited: what is closed next, such as a model's answer, must not be
        in use by it.
        """
        if self._short and not self._unawaited:
            if self._has_waited:
                lasts()
                await self._turn()
            else:
                self._has_waited = True
                asyncio.get_running_loop().call_soon(self._next)
        call = _Call(function, self._under_way)
        is_alone = not self._under_way
        is_first = self._newest not in self._under_way
        self._under_way.add(call)
        if is_first:
            self._newest = call
        (self._first if is_first else self._others).submit(call.run)
        if self._unawaited:
            self._unawaited -= 1
        elif self._short and is_first:
            ended = call.ended.acquire(timeout=_SHORT)
            if not ended or (is_alone and call.waited > call.computed):
                self._unawaited, self._penalty = self._penalty, min(2 * self._penalty, _MOST)
            elif is_alone:
                self._penalty = max(self._penalty - 1, _FEWEST)
            if ended:
                return call.answer()
        lasts()
        try:
            await call.end()
        except asyncio.CancelledError:
            if abandoned is not None:
                abandoned()
                await call.end()
            raise
        return call.answer()

    def _turn(self) -> asyncio.Future[None]:
        turn = asyncio.get_running_loop().create_future()
        self._turns.append(turn)
        return turn

    def _next(self) -> None:
        """Let one of those go on that wait for the loop to have looked at all others."""
        while self._turns:
            if not (turn := self._turns.popleft()).done():
                turn.set_result(None)
                turn.get_loop().call_soon(self._next)
                return
        self._has_waited = False

    def close(self) -> None:
        """End the threads, once their calls have ended."""
        self._first.shutdown(wait=False)
        self._others.shutdown(wait=False)


class _Call(Generic[T]):
    """A call, and what came of it."""

    waited = computed = 0.0

    def __init__(self, function: Callable[[], T], under_way: set[_Call[Any]]) -> None:
        self._context = contextvars.copy_context()
        self._function = function
        self._under_way = under_way
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._error: BaseException | None = None
        self._answer: Any = None
        self.ended = threading.Lock()
        self.ended.acquire()

    def run(self) -> None:
        """Make the call, in this thread."""
        began, computed = time.perf_counter(), time.thread_time()
        try:
            self._answer = self._context.run(self._function)
        except BaseException as error:  # noqa: BLE001  # it is raised by `answer`
            self._error = error
        self.computed = time.thread_time() - computed
        self.waited = time.perf_counter() - began - self.computed
        self._under_way.discard(self)
        self.ended.release()
        if self._waiter is not None:  # looked at after the release, and `end` the other way round
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def end(self) -> None:
        """Wait for its end."""
        self._waiter = self._loop.create_future()
        if not self.ended.acquire(blocking=False):
            await self._waiter

    def answer(self) -> T:
        """What the function returned; what it raised is raised."""
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # it holds this call by its traceback
        found: T = self._answer
        return found
