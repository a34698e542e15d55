"""Calls of the core in worker threads, with the caller's deadline."""

from __future__ import annotations

import asyncio
import contextvars
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, ParamSpec, TypeVar

from triptych import deadlines
from triptych.deadlines import deadline

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

THREADS: Final = min(32, (os.cpu_count() or 1) + 6)
"""So many calls run at a time in a process; others wait for their turn. With many more threads than
processors, the threads get in each other's way."""


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
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.renew)


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
