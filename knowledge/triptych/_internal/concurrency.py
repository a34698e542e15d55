"""Bounded parallelism: results in the order of the work, or as they are completed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from itertools import islice
from typing import TypeVar

from triptych import deadlines

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


def map_unordered(work: Callable[[T], R], items: Iterable[T], workers: int) -> Generator[R]:
    """``work`` of each item, up to ``workers`` at a time; no more are taken ahead.

    The caller's context, and so its deadline, holds in every worker. When one raises, no further
    item is begun, those that run are waited for, and the first error is raised. When the caller
    goes away or is interrupted, those that run are cancelled at their next check.
    """
    items = iter(items)
    pool = ThreadPoolExecutor(workers, thread_name_prefix="triptych-work")
    running: set[Future[R]] = set()
    with deadlines.deadline(None) as scope:
        context = copy_context()
    try:
        while True:
            for item in islice(items, workers - len(running)):
                running.add(pool.submit(context.copy().run, work, item))
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
    except BaseException as error:
        if not isinstance(error, Exception):
            scope.cancel()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
