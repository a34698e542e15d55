"""Blocking calls of a Service for an asynchronous server: bounded, cancellable, with progress."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import anyio
import anyio.to_thread
import attrs

from triptych.deadlines import CancelScope, deadline

_T = TypeVar("_T")
_TICK: Final = 1.0
_log = logging.getLogger("triptych.mcp")

Progress = Callable[[float], Awaitable[None]]
"""What is awaited about once a second, with the seconds that the call has taken so far."""


@attrs.frozen(kw_only=True)
class Calls:
    """Runs calls in worker threads.

    Attributes:
        seconds: the limit of a call; None for none.
        limiter: how many calls run at a time; the others wait.
    """

    seconds: float | None
    limiter: anyio.CapacityLimiter

    async def run(self, call: Callable[[], _T], progress: Progress | None = None) -> _T:
        """The answer of ``call``, which runs in a thread.

        Cancelled, it cancels the call, waits until that has stopped at its next check, and only
        then ends: nothing of it goes on unseen.

        Raises:
            CancelledError: the call took longer than ``seconds``.
        """
        answer: list[_T] = []
        failure: Exception | None = None
        with deadline(self.seconds) as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(_watch, scope)
                if progress is not None:
                    group.start_soon(_tick, progress)
                try:
                    # The thread has a copy of the context, and in it the deadline.
                    answer.append(await anyio.to_thread.run_sync(call, limiter=self.limiter))
                except Exception as error:  # noqa: BLE001 - raised below, out of the group
                    failure = error
                group.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return answer[0]


async def _watch(scope: CancelScope) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        # Also when the call has ended, where it does nothing.
        scope.cancel()


async def _tick(progress: Progress) -> None:
    began = anyio.current_time()
    while True:
        try:
            await progress(anyio.current_time() - began)
        except Exception as error:  # noqa: BLE001 - a call is not worth failing for it
            _log.debug("no more progress is reported: %s", error)
            return
        await anyio.sleep(_TICK)
