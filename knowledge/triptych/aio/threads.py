"""Calls of the core in worker threads, with the caller's deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

from triptych.deadlines import deadline

__all__ = ["next_item", "run"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


async def run(method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call ``method`` in a worker thread.

    When the task is cancelled, the call ends at its next check of the deadline, and only then
    does the cancellation go on: nothing of it runs any more, and what it committed is whole. A
    second cancellation does not wait.
    """
    with deadline() as scope:
        call = asyncio.ensure_future(asyncio.to_thread(method, *args, **kwargs))
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            scope.cancel()
            # The caller gets the cancellation, even where another one ends the wait below.
            call.add_done_callback(_seen)
            await asyncio.wait({call})
            raise


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
