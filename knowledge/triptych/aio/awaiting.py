"""The methods of a class, awaited."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final

from triptych.aio.answers import AsyncAnswerStream
from triptych.aio.threads import run

NOT_AWAITED: Final = frozenset({"close", "dataset", "follow", "pipeline", "restricted"})
"""Methods that `AsyncService` and its views have in a form of their own."""


def awaited(kind: type, inner: str) -> type:
    """A class with each public method of ``kind`` as a coroutine, which runs in a worker thread.

    ``inner`` is the attribute that holds the object itself. An answer that is read piece by piece
    is not awaited: its pieces are.
    """
    name = f"Async{kind.__name__}Methods"
    methods = {
        each: _coroutine(method, inner) if each != "ask_stream" else _stream(method, inner)
        for each, method in inspect.getmembers(kind, inspect.isfunction)
        if not each.startswith("_") and each not in NOT_AWAITED
    }
    for each, method in methods.items():
        method.__qualname__ = f"{name}.{each}"
    return type(name, (), {"__doc__": f"Every method of `{kind.__name__}`, awaited.", **methods})


def _coroutine(method: Callable[..., Any], inner: str) -> Callable[..., Any]:
    @functools.wraps(method)
    async def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return await run(getattr(getattr(self, inner), method.__name__), *args, **kwargs)

    return call


def _stream(method: Callable[..., Any], inner: str) -> Callable[..., AsyncAnswerStream]:
    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> AsyncAnswerStream:
        begin = getattr(getattr(self, inner), method.__name__)
        return AsyncAnswerStream(lambda: begin(*args, **kwargs))

    return call
