"""Methods that block as methods that are awaited, for frameworks that ask for both."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")


def in_thread(
    method: Callable[Concatenate[S, P], R],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """The method of this name, run in a worker thread; a subclass may replace it."""

    @functools.wraps(method)
    async def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        return await asyncio.to_thread(getattr(self, method.__name__), *args, **kwargs)

    return call
