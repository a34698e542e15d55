"""The server over stdin and stdout, which hold the protocol's messages and nothing else."""

from __future__ import annotations

from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

__all__ = ["serve_stdio"]


def serve_stdio(server: Server[Any]) -> None:
    """Serve until stdin ends. Meanwhile what is printed to stdout goes to stderr."""
    anyio.run(_serve, server)


async def _serve(server: Server[Any]) -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())
