"""An event loop in a separate thread, for blocking callers.

It is made at the first call, made again in a forked child, and stopped when the process ends.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import socket
import threading
import weakref
from collections.abc import AsyncGenerator, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from triptych_models import Lazy

T = TypeVar("T")

_PATIENCE = 2.0
"""Seconds for what the thread is at when the process ends, or forks."""


class _Loop(asyncio.SelectorEventLoop):
    async def getaddrinfo(
        self,
        host: Any,
        port: Any,
        *,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> Any:
        """`socket.getaddrinfo` on a thread of its own.

        It cannot be interrupted. In a pool of threads, a few that hang would hold up all others,
        and the end of the process.
        """
        found: Future[Any] = Future()
        found.set_running_or_notify_cancel()  # from here on, what is found can be set

        def look_up() -> None:
            try:
                found.set_result(socket.getaddrinfo(host, port, family, type, proto, flags))
            except UnicodeError as error:  # a name that cannot be one
                found.set_exception(OSError(str(error)))
            except Exception as error:  # noqa: BLE001 - raised where it is waited for
                found.set_exception(error)

        threading.Thread(target=look_up, name="triptych-lookup", daemon=True).start()
        return await asyncio.wrap_future(found)


class _Background:
    """The loop and its thread."""

    def __init__(self) -> None:
        self.loop = _Loop()
        self._stopped = asyncio.Event()
        self.thread = threading.Thread(target=self._serve, name="triptych-http", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Cancel what is under way, and end the thread."""
        self.loop.call_soon_threadsafe(self._stopped.set)
        self.thread.join(_PATIENCE)

    def wait_for(self, lock: threading.Lock) -> None:
        """Have the thread wait until it gets ``lock``, and come back when it does."""
        waits = threading.Event()

        def wait() -> None:
            waits.set()
            with lock:
                pass

        self.loop.call_soon_threadsafe(wait)
        waits.wait(_PATIENCE)

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(self._until_stopped())

    async def _until_stopped(self) -> None:
        await self._stopped.wait()


_background = Lazy(_Background, _Background.stop)
# At import, so that what others registered later may still ask when the process ends.
atexit.register(_background.close)


_forking = threading.Lock()


def _before_fork() -> None:
    """Have the thread wait: in the midst of a call it may hold locks, which a child inherits."""
    _forking.acquire()
    if _background.made is not None:
        _background.made.wait_for(_forking)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_forking.release, after_in_child=_forking.release
    )


def background_loop() -> asyncio.AbstractEventLoop | None:
    """The loop, if it was made."""
    made = _background.made
    return None if made is None else made.loop


def run(call: Coroutine[Any, Any, T]) -> T:
    """What ``call`` comes to in the background, with the context of the caller, who blocks.

    An exception in the caller, such as `KeyboardInterrupt`, cancels it.
    """
    background = _background.get()
    if threading.current_thread() is background.thread:
        call.close()
        raise RuntimeError("a blocking call would wait for itself: await it here")
    future = asyncio.run_coroutine_threadsafe(call, background.loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


class BlockingIterator(Iterator[T], Generic[T]):
    """The items of an asynchronous generator, one by one, for a caller that blocks.

    A forked child lets its parent's go without a word: their connections are not its own.
    """

    def __init__(self, items: AsyncGenerator[T, None]) -> None:
        self._items = items
        # Python would close this generator, and those that it reads from, all at once.
        self._dropped = weakref.finalize(self, _close, items, _background.get())
        self._dropped.atexit = False

    def __next__(self) -> T:
        try:
            return run(_next(self._items))
        except StopAsyncIteration:
            raise StopIteration from None

    def close(self) -> None:
        """Close the generator. Idempotent."""
        closed = self._dropped()
        # Where the garbage collector closes it, that may be the thread of the loop.
        if closed is not None and threading.current_thread() is not _background.get().thread:
            closed.result()


async def _next(items: AsyncGenerator[T, None]) -> T:
    return await anext(items)


def _close(items: AsyncGenerator[Any, None], background: _Background) -> Future[None] | None:
    async def close() -> None:
        await items.aclose()

    if background is not _background.made:
        return None
    return asyncio.run_coroutine_threadsafe(close(), background.loop)
