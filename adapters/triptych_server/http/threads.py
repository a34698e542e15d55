"""Threads that make the calls of requests, so that a call which lasts keeps no other waiting.

While a search computes, each turn of the event loop takes the interpreter's lock from it, and gives
it back at once: twenty times a request where several are under way, which costs a third of the
processor's time (docs/explanation/performance.md). Therefore the loop waits itself for a short
call. It does nothing meanwhile, but nor could it: the call has the lock. What was short before and
can be called again it calls itself: to wake a thread, and to have it work in another core's cache,
costs a quarter of a millisecond.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, TypeVar

import anyio

from triptych.records import Mode
from triptych.runtime import SEARCHES, WouldWaitError
from triptych.service import KnowledgeBase

T = TypeVar("T")

_SHORT: Final = 0.03
"""Seconds for which the loop waits itself for a call."""
_FEWEST, _MOST = 8, 4096
"""Calls for which it does not, after one that should not have been waited for."""
_MOST_KNOWN: Final = 1024


class Threads:
    """At most ``count`` threads; calls beyond them queue. For one event loop.

    One of them makes every call that comes while it has none: what it works on stays in one core's
    cache. With ``short`` the loop waits for that call itself. It leaves that for a while after a
    call that lasted, or that has no name and waited more than it computed, as for a model or a
    database server; for longer, the more of them there are. Between two calls that it waits for, it
    looks at all others.

    While neither these threads nor those ``beside`` them work, the loop makes a call itself that
    has a name by which the last one was short.
    """

    def __init__(
        self, count: int, name: str, *, short: bool = False, beside: Sequence[Threads] = ()
    ) -> None:
        self._first = ThreadPoolExecutor(1, name)
        self._others = ThreadPoolExecutor(count - 1, name) if count > 1 else self._first
        self._under_way: list[Future[Any]] = []
        self._newest: Future[Any] | None = None
        self._short = short and getattr(sys, "_is_gil_enabled", lambda: True)()
        self._unawaited, self._penalty = 0, _FEWEST
        self._has_waited = False
        self._turns: deque[asyncio.Future[None]] = deque()
        self._all = (self, *beside)
        self._brief: set[Hashable] = set()

    async def call(
        self,
        function: Callable[[], T],
        *,
        lasts: Callable[[], object] = lambda: None,
        abandoned: Callable[[], object] | None = None,
        name: Hashable = None,
    ) -> T:
        """What ``function`` returns in one of the threads, in the context of this task.

        ``lasts`` is called when it has not ended at once. When the task is cancelled, ``abandoned``
        is called, and the call awaited: what is closed next, such as a model's answer, must not be
        in use by it. Only what reads, and waits for nothing but in turns of `SEARCHES`, may have a
        ``name``: the loop makes it itself, and ends it and has a thread make it again where it
        would wait or lasts.
        """
        if self._short and not self._unawaited:
            if self._has_waited:
                lasts()
                await self._turn()
            else:
                self._has_waited = True
                asyncio.get_running_loop().call_soon(self._next)
        if name in self._brief and not self._unawaited and not any(t._works() for t in self._all):
            began = time.monotonic()
            with suppress(WouldWaitError), SEARCHES.hurried(_SHORT):
                returned = contextvars.copy_context().run(function)
                if time.monotonic() - began > _SHORT:
                    self._brief.discard(name)
                return returned
            self._brief.discard(name)
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
            # What has a name waits for nothing but the processor, of a busy machine.
            may_wait = is_alone and name is None
            if not made.done() or (may_wait and not made.exception() and made.result()[1]):
                self._unawaited, self._penalty = self._penalty, min(2 * self._penalty, _MOST)
            elif is_alone:
                self._penalty = max(self._penalty - 1, _FEWEST)
                if name is not None and len(self._brief) < _MOST_KNOWN:
                    self._brief.add(name)
        if not made.done():
            lasts()
            ended = asyncio.wrap_future(made)
            ended.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            try:
                await asyncio.wait({ended})
            except asyncio.CancelledError:
                if abandoned is not None:
                    abandoned()
                    with anyio.CancelScope(shield=True):  # one of anyio would end this wait, too
                        await asyncio.wait({ended})
                raise
        return made.result()[0]

    def _works(self) -> bool:
        return not all(each.done() for each in self._under_way)

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


_PLAIN: Final = frozenset({"query", "dataset_id", "scope", "mode", "layer", "top_k", "threshold"})
_MOST_READ: Final = (256, 100)
"""Code points of a query, and hits, that are found at once."""


def short_name(
    operation: str, service: KnowledgeBase, arguments: Mapping[str, Any]
) -> Hashable | None:
    """The name of a search for `Threads.call`, None where it may wait, or take long by itself.

    It is one by keyword, plain and short, in a store of this process.
    """
    here = getattr(service.capabilities.document_search, "in_process", False)
    by_keyword = arguments.get("mode") == Mode.BM25 or service.options.embedder is None
    if operation != "search" or not here or not by_keyword:
        return None
    given = {name for name, value in arguments.items() if value}
    length, hits = len(arguments["query"]), arguments.get("top_k", 10)
    if not given <= _PLAIN or length > _MOST_READ[0] or hits > _MOST_READ[1]:
        return None
    return tuple(map(arguments.get, ("dataset_id", "scope", "layer")))


def _measured(function: Callable[[], T]) -> tuple[T, bool]:
    """What ``function`` returns, and whether it has waited more than it computed."""
    began, computed = time.perf_counter(), time.thread_time()
    returned = function()
    computed = time.thread_time() - computed
    return returned, time.perf_counter() - began > 2 * computed
