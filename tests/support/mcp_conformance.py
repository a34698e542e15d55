"""The server that the protocol's own tests ask: a knowledge base, and tools by the tests' names."""

from __future__ import annotations

import sys
import time
from typing import Any

import triptych
from triptych.errors import ValidationError
from triptych_adapters.tools import Tool
from triptych_server.http import listen
from triptych_server.mcp.http import make_app, serve_http
from triptych_server.mcp.server import ServerOptions, make_server

NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}


def fail(arguments: dict[str, Any]) -> dict[str, Any]:
    raise ValidationError("This tool intentionally returns an error for testing")


def wait(arguments: dict[str, Any]) -> dict[str, Any]:
    time.sleep(2.5)
    return {"text": "done"}


TOOLS = [
    Tool(
        name=name,
        description="For the protocol's own tests.",
        parameters=NOTHING,
        run=run,
        read_only=True,
        render=lambda answer: str(answer.get("text", answer)),
    )
    for name, run in (
        (
            "test_simple_text",
            lambda _: {"text": "This is a simple text response for testing."},
        ),
        ("test_error_handling", fail),
        ("test_tool_with_progress", wait),
    )
]

if __name__ == "__main__":
    with triptych.open("memory://", embedder=None) as service:
        service.put_document("docs", "a.md", "# Kettle\n\nIt boils.")
        app = make_app(make_server(service, ServerOptions(write=True), TOOLS))
        sock = listen("127.0.0.1", int(sys.argv[1]))
        serve_http(app, sock, lambda url: print(url, flush=True))
