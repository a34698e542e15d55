"""The threads that call the models of a Service."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

_MOST_CALLS = 1024
"""Calls of all runs at a time; a further one waits for its turn."""


class Workers:
    """Threads that call models, for one run after another: as many as call at the same time."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> ThreadPoolExecutor:
        self._pool = ThreadPoolExecutor(_MOST_CALLS, thread_name_prefix="triptych-embed")
        self._process = os.getpid()
        self._running: set[Future[Any]] = set()
        return self._pool

    def submit(self, call: Callable[..., T], *arguments: Any) -> Future[T]:
        """Run ``call`` in one of them."""
        # Threads do not survive a fork: a child makes its own.
        pool = self._pool if self._process == os.getpid() else self._begin()
        try:
            future = pool.submit(call, *arguments)
        except RuntimeError:  # closed
            future = self._begin().submit(call, *arguments)
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        return future

    def close(self) -> None:
        """End them, those that call a model once it has answered; they start again when needed."""
        if self._process == os.getpid():
            self._pool.shutdown(wait=all(each.done() for each in list(self._running)))
