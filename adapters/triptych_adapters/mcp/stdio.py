"""The server over stdin and stdout, which hold the protocol's messages and nothing else."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any, Final, NoReturn

import anyio
import anyio.to_thread
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

_GRACE: Final = 1.0
"""Seconds from a signal to the end."""


def serve_stdio(server: Server[Any], close: Callable[[], None]) -> None:
    """Serve until stdin ends. Meanwhile what is printed to stdout goes to stderr.

    SIGINT and SIGTERM end the process, after ``close`` if that is soon done: nothing interrupts
    the thread that reads stdin.
    """
    anyio.run(_serve, server, close)


async def _serve(server: Server[Any], close: Callable[[], None]) -> None:
    async with anyio.create_task_group() as group:
        if sys.platform != "win32":
            group.start_soon(_end_at_signal, close)
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
        group.cancel_scope.cancel()


async def _end_at_signal(close: Callable[[], None]) -> NoReturn:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            with anyio.move_on_after(_GRACE):
                await anyio.to_thread.run_sync(close, abandon_on_cancel=True)
            # Nothing of the store is half written: each change of it is one transaction.
            os._exit(0)
    raise AssertionError("signals end")
