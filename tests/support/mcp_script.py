"""A server over stdin and stdout whose searches print, as any library may."""

from __future__ import annotations

import os
import sys
from typing import Any

from triptych.service import Service
from triptych_backends.memory import MemoryStore
from triptych_server.mcp.server import ServerOptions, make_server, serve_stdio


class Loud(Service):
    """Prints what it searches for, to stdout, in three ways."""

    def search(self, query: Any, **options: Any) -> Any:
        print("looking", flush=True)
        os.write(1, b"for it\n")
        sys.__stdout__.write("everywhere\n")
        return super().search(query, **options)


if __name__ == "__main__":
    with Loud(MemoryStore()) as service:
        service.put_document("docs", "a.md", "kettle")
        serve_stdio(make_server(service, ServerOptions()), service.close)
