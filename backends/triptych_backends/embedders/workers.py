"""One text a call, one thread a text: how the local models use several cores.

A model that splits one text's arithmetic over threads pays for waking them at every
layer, and one that pads texts into a batch may round differently with each batch. Running
each text alone on one thread makes a vector depend on its text and nothing else, and keeps
every core busy with a text of its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from triptych import deadlines
from triptych.errors import ValidationError
from triptych_backends.embedders.lazy import Lazy

T = TypeVar("T")
OneText = Callable[[str], NDArray[np.float32]]


class TextWorkers:
    """Applies a function to texts on up to ``threads`` threads, the caller's among them.

    ``threads`` None means the number of cores. ``asked`` is what was given: a copy of the model
    in a process on another machine counts the cores there.
    """

    def __init__(self, threads: int | None = None) -> None:
        if threads is not None and threads < 1:
            raise ValidationError(f"threads is a number from 1 up, not {threads}")
        self.asked: int | None = threads
        self._threads = threads or os.cpu_count() or 1
        self._pool = Lazy(self._make_pool, ThreadPoolExecutor.shutdown)

    def _make_pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._threads - 1, thread_name_prefix="triptych-embed")

    def rows(self, function: OneText, texts: Sequence[str], dimension: int) -> NDArray[np.float32]:
        """Row ``i`` is ``function(texts[i])``; shape (len(texts), dimension).

        The deadline around the call is asked between texts. The first error is raised once
        no thread works for this call any more.
        """
        rows = np.empty((len(texts), dimension), dtype=np.float32)

        def fill(position: int) -> None:
            rows[position] = function(texts[position])

        # Long texts first, so that no thread is left alone with one at the end.
        self.run(fill, sorted(range(len(texts)), key=lambda i: (-len(texts[i]), i)), "embedding")
        return rows

    def run(self, function: Callable[[T], None], items: Sequence[T], doing: str) -> None:
        """Call ``function`` for each of ``items``, begun in their order; errors as in `rows`.

        ``doing`` names the work where the deadline passes.
        """
        order = iter(items)
        taking = threading.Lock()
        stop = threading.Event()
        nothing = object()

        def take() -> Any:
            with taking:
                return nothing if stop.is_set() else next(order, nothing)

        def work(check: Callable[[], None]) -> None:
            try:
                while (item := take()) is not nothing:
                    check()
                    function(item)
            except BaseException:
                stop.set()
                raise

        helpers: list[Future[None]] = []
        helping = min(self._threads, len(items)) - 1
        try:
            if helping > 0:
                pool = self._pool.get()
                # Closed by another thread just now: the caller's own thread is enough.
                with suppress(RuntimeError):
                    for _ in range(helping):
                        helpers.append(pool.submit(work, _no_check))  # noqa: PERF401 - keep those begun
            # The deadline lives in this thread's context; when it passes, the helpers stop too.
            work(lambda: deadlines.check(doing))
        finally:
            # A helper that has not started by now has nothing left to take.
            running = [helper for helper in helpers if not helper.cancel()]
            errors = [helper.exception() for helper in running]
        for error in errors:
            if error is not None:
                raise error

    def close(self) -> None:
        """End the threads; a later call starts new ones. Idempotent."""
        self._pool.close()


def _no_check() -> None:
    """A helper's check: none of its own."""
