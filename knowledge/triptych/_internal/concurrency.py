"""Bounded parallelism whose results come in the order of the work."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from itertools import islice
from typing import TypeVar

__all__ = ["map_ordered"]

T = TypeVar("T")
R = TypeVar("R")


def map_ordered(work: Callable[[T], R], items: Iterable[T], workers: int) -> Iterator[R]:
    """``work`` of each item, in their order, up to ``workers`` at a time.

    At most ``workers`` items are taken ahead of the results that were asked for. The caller's
    context, and so its deadline, holds in every worker. When one raises, no further item is
    begun, those that run are waited for, and the error is raised in its turn.
    """
    items = iter(items)
    first = list(islice(items, 2))
    if workers == 1 or len(first) < 2:
        yield from map(work, first)
        yield from map(work, items)
        return
    pool = ThreadPoolExecutor(workers, thread_name_prefix="triptych-work")
    running: deque[Future[R]] = deque()
    try:
        for item in first:
            running.append(pool.submit(copy_context().run, work, item))
        while running:
            for item in islice(items, workers - len(running)):
                running.append(pool.submit(copy_context().run, work, item))
            yield running.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
