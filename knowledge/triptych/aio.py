"""An asynchronous facade: the Service's methods, each in a worker thread."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any

from triptych.service import Service

__all__ = ["AsyncService"]


class AsyncService:
    """Every method of `Service`, awaited: ``await kb.search("…")``.

    The core is synchronous and thread-safe; this runs each call in a worker thread, with the
    caller's deadline. Cancelling the task gives up waiting: the call itself ends at its next
    check of the deadline, or by itself. Methods, arguments and errors are the Service's.
    """

    def __init__(self, service: Service) -> None:
        self.service = service

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]: ...

    else:

        def __getattr__(self, name):
            method = getattr(self.service, name)
            if name.startswith("_") or not inspect.ismethod(method) or name == "dataset":
                raise AttributeError(f"AsyncService has no method {name!r}")

            @functools.wraps(method)
            async def call(*args, **kwargs):
                return await asyncio.to_thread(method, *args, **kwargs)

            return call

    async def __aenter__(self) -> AsyncService:
        """The facade itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the Service."""
        await asyncio.to_thread(self.service.close)
