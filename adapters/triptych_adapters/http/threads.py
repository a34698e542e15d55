"""Threads that make the calls of requests, so that a call which lasts keeps no other waiting.

While a search computes, each turn of the event loop takes the interpreter's lock from it, and gives
it back at once: twenty times a request where several are under way, which costs a third of the
processor's time (docs/explanation/performance.md). Therefore the loop waits itself for a short
call. It does nothing meanwhile, but nor could it: the call has the lock.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, TypeVar

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
        self._under_way: list[Future[Any]] = []
        self._newest: Future[Any] | None = None
        self._short = short and getattr(sys, "_is_gil_enabled", lambda: True)()
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
        self._under_way = [each for each in self._under_way if not each.done()]
        is_alone, is_first = not self._under_way, self._newest not in self._under_way
        threads = self._first if is_first else self._others
        made = threads.submit(contextvars.copy_context().run, _measured, function)
        self._under_way.append(made)
        if is_first:
            self._newest = made
        if self._unawaited:
            self._unawaited -= 1
        elif self._short and is_first:
            with suppress(TimeoutError):
                made.exception(_SHORT)
            if not made.done() or (is_alone and not made.exception() and made.result()[1]):
                self._unawaited, self._penalty = self._penalty, min(2 * self._penalty, _MOST)
            elif is_alone:
                self._penalty = max(self._penalty - 1, _FEWEST)
        if not made.done():
            lasts()
            ended = asyncio.wrap_future(made)
            ended.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            try:
                await asyncio.wait({ended})
            except asyncio.CancelledError:
                if abandoned is not None:
                    abandoned()
                    await asyncio.wait({ended})
                raise
        return made.result()[0]

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


def _measured(function: Callable[[], T]) -> tuple[T, bool]:
    """What ``function`` returns, and whether it has waited more than it computed."""
    began, computed = time.perf_counter(), time.thread_time()
    returned = function()
    computed = time.thread_time() - computed
    return returned, time.perf_counter() - began > 2 * computed
