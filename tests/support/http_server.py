"""``triptych serve`` in a process of its own, on loopback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx

__all__ = ["Served", "served"]


@attrs.define
class Served:
    """A server that runs."""

    process: subprocess.Popen[str]
    url: str
    log: Path

    @property
    def address(self) -> tuple[str, int]:
        url = httpx.URL(self.url)
        assert url.port is not None
        return url.host, url.port

    def raw(self, request: bytes, *, seconds: float = 20, ends: bool = False) -> bytes:
        """Send these bytes as they are; what comes back until the connection is closed.

        ``ends`` sends nothing more after them.
        """
        with socket.create_connection(self.address, timeout=seconds) as connection:
            connection.sendall(request)
            if ends:
                connection.shutdown(socket.SHUT_WR)
            parts = []
            while part := connection.recv(1 << 16):
                parts.append(part)
        return b"".join(parts)

    def lines(self) -> list[dict[str, Any]]:
        """What was logged."""
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)


@contextmanager
def served(folder: Path, *options: str, store: str = "kb.db") -> Iterator[Served]:
    """A server over a store of this folder, in a process group of its own."""
    log = folder / "server.log"
    command = [sys.executable, "-m", "triptych_adapters.cli", "serve", "--port", "0"]
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [*command, "--store", store, "--embedder", "hash", *options],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http://"), log.read_text(encoding="utf-8")
        yield Served(process, url, log)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)
        if process.stdout is not None:
            process.stdout.close()
