"""Connections to a server of several processes, each to a worker that is known."""

from __future__ import annotations

import http.client
import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import attrs

from support import worker_server
from support.servers import Served, serving
from support.sync_folder import until


@attrs.frozen
class Worker:
    """A connection that is kept, and the process at its other end."""

    connection: http.client.HTTPConnection
    pid: int

    def ask(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> http.client.HTTPResponse:
        """Send a request; its answer, whose body is still to be read."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        text = None if body is None else json.dumps(body)
        kind = {} if body is None else {"Content-Type": "application/json"}
        self.connection.request(method, path, text, {**kind, **names})
        return self.connection.getresponse()

    def json(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """The status and the JSON of an answer."""
        answer = self.ask(method, path, body, **headers)
        return answer.status, json.loads(answer.read())


def workers_of(pid: int) -> list[int]:
    """The processes of a supervisor that serve, or begin to."""
    found = []
    for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with suppress(OSError):
            if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes():
                found.append(int(each))
    return found


@contextmanager
def two_workers(server: Served) -> Iterator[tuple[Worker, Worker]]:
    """A connection to each of the server's two workers."""
    with ExitStack() as stack:
        found: dict[int, Worker] = {}

        def both() -> bool:
            connection = http.client.HTTPConnection(*server.address, timeout=60)
            stack.callback(connection.close)
            worker = Worker(connection, 0)
            worker.ask("GET", "/v1/live").read()
            pid = owner(server.process.pid, connection.sock.getsockname()[1])
            found[pid] = attrs.evolve(worker, pid=pid)
            return len(found) == 2

        until(both, seconds=60)
        one, other = found.values()
        yield one, other


def owner(supervisor: int, port: int) -> int:
    """The worker that has the connection whose client is at ``port``; 0 until one has."""
    for row in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        columns = row.split()
        if int(columns[2].rpartition(":")[2], 16) == port:
            socket = f"socket:[{columns[9]}]"
            for pid in workers_of(supervisor):
                for file in Path(f"/proc/{pid}/fd").iterdir():
                    with suppress(OSError):
                        if os.readlink(file) == socket:
                            return pid
    return 0


@contextmanager
def started_workers(folder: Path, llm: str = "http://127.0.0.1:9/v1") -> Iterator[Served]:
    """`worker_server` over the store ``kb.db`` of the folder."""
    command = [sys.executable, worker_server.__file__, str(folder / "kb.db"), llm]
    with serving(folder, command) as served:
        yield served
