"""A real HTTP server on loopback that answers as it is told, and remembers what it was asked.

It speaks HTTP through `http.server`; the wire formats of the providers are the small
functions below it. Faults are answers like any others.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

import attrs


@attrs.frozen(kw_only=True)
class Reply:
    """One answer. ``cut``: the connection ends after that many bytes of the body.

    ``hold``: waits for it before the answer, or, of a cut one, before the connection ends.
    ``drip``: seconds between two bytes.
    """

    body: bytes | Sequence[bytes] = b""
    status: int = 200
    headers: Mapping[str, str] = attrs.field(factory=dict)
    cut: int | None = None
    hold: threading.Event | None = None
    drip: float = 0

    @property
    def whole(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else b"".join(self.body)


@attrs.frozen(kw_only=True)
class Asked:
    """What came in."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]


Answerer = Callable[[Asked], Reply]


class ProviderServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, answer: Answerer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.asked: list[Asked] = []
        self.connections = 0
        self.most_at_once = 0
        self.lock = threading.Lock()
        self.under_way = 0

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # HTTPServer's would look its own name up

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is not a fault of the server."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: ProviderServer

    def do_POST(self) -> None:
        server = self.server
        data = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = Asked(path=self.path, headers=headers, body=json.loads(data))
        with server.lock:
            server.asked.append(asked)
            server.under_way += 1
            server.most_at_once = max(server.most_at_once, server.under_way)
        with ExitStack() as under_way:
            under_way.callback(self._count_out)
            self._answer(server.answer(asked), under_way)

    def _count_out(self) -> None:
        with self.server.lock:
            self.server.under_way -= 1

    def _answer(self, reply: Reply, under_way: ExitStack) -> None:
        if reply.hold is not None and reply.cut is None:
            reply.hold.wait(20)
        if reply.cut is None and not reply.drip:
            # First: a client may read all of it and ask again before this thread goes on.
            under_way.close()
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if isinstance(reply.body, bytes):
            self.send_header("content-length", str(len(reply.body)))
        else:
            self.send_header("connection", "close")
        self.end_headers()
        sent = reply.whole if reply.cut is None else reply.whole[: reply.cut]
        for byte in sent if reply.drip else b"":
            self.wfile.write(bytes((byte,)))
            time.sleep(reply.drip)
        self.wfile.write(b"" if reply.drip else sent)
        self.wfile.flush()
        if reply.hold is not None and reply.cut is not None:
            reply.hold.wait(20)
        if reply.cut is not None or not isinstance(reply.body, bytes):
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""


@contextmanager
def serving(answer: Answerer) -> Iterator[ProviderServer]:
    """A server for the block."""
    server = ProviderServer(answer)
    thread = threading.Thread(target=server.serve_forever, args=(0.005,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def in_turn(*replies: Reply) -> Answerer:
    """The first reply for the first request, and so on; the last for all that follow."""
    left = list(replies)
    lock = threading.Lock()

    def answer(asked: Asked) -> Reply:
        with lock:
            return left.pop(0) if len(left) > 1 else left[0]

    return answer


def as_json(value: Any, status: int = 200, **headers: str) -> Reply:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Reply(
        body=json.dumps(value).encode(),
        status=status,
        headers={"content-type": "application/json", **named},
    )


def events(*values: Any, done: bool = True) -> Reply:
    """Server-sent events, as OpenAI and Anthropic send them."""
    lines = [f"data: {json.dumps(value, ensure_ascii=False)}\n\n".encode() for value in values]
    if done:
        lines.append(b"data: [DONE]\n\n")
    return Reply(body=lines, headers={"content-type": "text/event-stream"})


def json_lines(*values: Any) -> Reply:
    """One object a line, as Ollama sends them."""
    return Reply(
        body=[json.dumps(value, ensure_ascii=False).encode() + b"\n" for value in values],
        headers={"content-type": "application/x-ndjson"},
    )


def vector(text: str, width: int) -> list[float]:
    """Tells texts apart: their length and code points lie in it."""
    row = [0.0] * width
    for place, char in enumerate(text[:200]):
        row[(ord(char) * 31 + place) % width] += 1.0
    row[0] += 0.5
    return row
