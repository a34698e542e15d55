"""Bounded parallelism whose results come as they are done."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from itertools import islice
from typing import TypeVar

from triptych import deadlines

__all__ = ["map_unordered"]

T = TypeVar("T")
R = TypeVar("R")


def map_unordered(work: Callable[[T], R], items: Iterable[T], workers: int) -> Generator[R]:
    """``work`` of each item, up to ``workers`` at a time; no more are taken ahead.

    The caller's context, and so its deadline, holds in every worker. When one raises, no further
    item is begun, those that run are waited for, and the first error is raised. When the caller
    goes away or is interrupted, those that run are cancelled at their next check.
    """
    items = iter(items)
    pool = ThreadPoolExecutor(workers, thread_name_prefix="triptych-layers")
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
