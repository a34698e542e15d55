"""Connections of the server: they end where no head comes, or an answer is not read."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Mapping
from typing import Any, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from triptych.errors import ValidationError
from triptych_server.http.limits import BACKLOG, Limits
from triptych_server.http.responses import Problem, encoded

_LEAST_READ = 16 << 10
_AT_ONCE = 2 << 10
_OWN_FILES = 384
"""Files that a process may open beside its connections: those of its store, and those of
connections accepted at once, before any can be cut (`BACKLOG`)."""
_FEWEST = 16
_ASK, _ASK_LATER = 0.1, 4
"""Seconds until a client is asked for, and what multiplies them: Go reads five interim answers."""
_RESETS = "reset_contextvars"
_WITHOUT_CONTEXT: Mapping[str, Any] = (
    {_RESETS: True} if _RESETS in inspect.signature(uvicorn.Config).parameters else {}
)
"""Each request begins without the context of one before it on its connection."""
_INVALID = Problem(status=400, code="INVALID_REQUEST", message="this is not a request of HTTP/1.1")
_TOO_LARGE = Problem(status=431, code="HEADERS_TOO_LARGE", message="the head is too large")


class _Connection(h11.Connection):
    """Sends an answer's head together with its body, where the body is all there: each send wakes
    the client, which costs more than the rest of the protocol."""

    _head = b""

    def send(self, event: Any) -> Any:
        """Return what is to be sent; "" for a head whose body follows at once."""
        sent = super().send(event) or b""
        if type(event) is h11.Response and any(
            name == b"content-length" for name, _ in event.headers
        ):
            self._head = sent
            return b""
        head, self._head = self._head, b""
        return head + sent


class HeadProtocol(H11Protocol):
    """uvicorn's protocol for HTTP/1.1, with limits of time where uvicorn has none.

    A head must come in ``head_seconds``. After an answer, ``body_bytes`` more of its body may come
    in ``body_seconds``: then the connection is closed. A client whose answer waits to be sent must
    read `_LEAST_READ` bytes in every ``read_seconds``: else the connection is cut, for the request
    that waits holds memory and one of the places that `Limits.waiting` counts. Of more connections
    than ``most_connections`` the one is cut that was idle for longest; the new one where none is.
    What is not HTTP is answered as every other failure.
    """

    head_seconds = 10.0
    read_seconds = 20.0
    most_connections = 2000
    body_bytes = 1 << 20
    body_seconds = 20.0
    heard = 0.0
    _unread = b""
    _rest = 0
    _has_ended = False
    _head: asyncio.TimerHandle | None = None
    _read: asyncio.TimerHandle | None = None

    def __init__(self, config: uvicorn.Config, *args: Any, **options: Any) -> None:
        super().__init__(config, *args, **options)
        self.conn = _Connection(h11.SERVER, config.h11_max_incomplete_event_size or 64 << 10)

    @classmethod
    def limit(cls, limits: Limits) -> None:
        """Set the limits of this process."""
        cls.head_seconds = limits.header_seconds
        cls.read_seconds = limits.read_seconds
        cls.most_connections = connections_of(limits)
        cls.body_bytes, cls.body_seconds = limits.body, limits.body_seconds

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self.heard = self.loop.time()
        self._wait()
        if len(self.connections) > self.most_connections:
            others: Any = self.connections - {self}
            idle = (each for each in others if _is_idle(each))
            least: HeadProtocol = min(idle, key=lambda each: each.heard, default=self)
            least.transport.abort()

    def shutdown(self) -> None:
        """Close the connection after its request, which is told that the server stops: a stream
        of changes has no other end."""
        if not _is_idle(self):
            self.scope["state"]["stops"] = True
        super().shutdown()

    def data_received(self, data: bytes) -> None:
        """Read what came; a head that is whole ends the wait."""
        self.heard = self.loop.time()
        self._unread += data
        if len(self._unread) == len(data):
            self._parse()

    def _parse(self) -> None:
        """Parse a part of what came; the rest after others had their turn.

        A body of tiny chunks would hold the loop otherwise.
        """
        size = _AT_ONCE
        if self.conn.their_state is h11.IDLE:
            size = max(size, self._unread.find(b"\r\n\r\n") + 4)  # a whole head is judged as one
        part, self._unread = self._unread[:size], self._unread[size:]
        if not part:
            return  # the connection was lost meanwhile
        was_answered = self._is_answered
        super().data_received(part)
        if self._is_answered:
            self._rest -= len(part)
            if self._rest < 0:
                self._late()
        elif was_answered or self.conn.their_state is not h11.IDLE:
            self._stop()
        elif self._head is None:
            self._wait()
        if self.transport.is_closing():
            self._unread = b""
        elif self._unread:
            self.transport.pause_reading()
            self.loop.call_soon(self._parse)
        elif not self.flow.read_paused:
            self.transport.resume_reading()

    @property
    def _is_answered(self) -> bool:
        """Whether the rest of a body comes whose request has been answered."""
        return self.conn.their_state is h11.SEND_BODY and _is_idle(self)

    @property
    def _is_whole(self) -> bool:
        """Whether a request is under way that came whole."""
        return not _is_idle(self) and self.conn.their_state in (h11.DONE, h11.MUST_CLOSE)

    def eof_received(self) -> bool:  # type: ignore[override]  # uvicorn always closes
        """Answer what came whole before the client ended its side; close otherwise.

        A client that goes away ends its side alike: only what is written shows which it is.
        """
        if not self._has_ended and self._is_whole and not self.cycle.response_started:
            self._has_ended = True
            self.loop.call_later(_ASK, self._ask, _ASK)
        return self._has_ended

    def _ask(self, after: float) -> None:
        """Write an interim answer: one who is gone refuses it, and the next write fails."""
        if self.transport.is_closing() or self.cycle.response_started:
            return
        if self.scope["http_version"] == "1.1":
            interim = h11.InformationalResponse(status_code=102, headers=[], reason=b"Processing")
            self.transport.write(self.conn.send(interim) or b"")
        self.loop.call_later(after * _ASK_LATER, self._ask, after * _ASK_LATER)

    def on_response_complete(self) -> None:
        """Limit what is still to come of the request's body."""
        super().on_response_complete()
        if self._has_ended and not self._is_whole:
            self.transport.close()
        if self._is_answered:
            self._rest = self.body_bytes
            self._wait(self.body_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the waits."""
        self._unread = b""
        self._stop()
        self._stop_reading()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        """End the wait: the client has read."""
        self._stop_reading()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP; h11's error, which is being handled, says of what kind it is."""
        kind = getattr(sys.exception(), "error_status_hint", 400)
        problem = _TOO_LARGE if kind == 431 else _INVALID
        body = encoded(problem.json())
        headers: Any = [
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            for event in (
                h11.Response(status_code=problem.status, headers=headers),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _wait(self, seconds: float | None = None) -> None:
        self._head = self.loop.call_later(seconds or self.head_seconds, self._late)

    def _stop(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _wait_for_reader(self) -> None:
        waiting = self.transport.get_write_buffer_size()
        self._read = self.loop.call_later(self.read_seconds, self._check_reader, waiting)

    def _check_reader(self, before: int) -> None:
        if before - self.transport.get_write_buffer_size() < _LEAST_READ:
            self._read = None
            # Not closed: that would wait for what is not read.
            self.transport.abort()
        else:
            self._wait_for_reader()

    def _stop_reading(self) -> None:
        if self._read is not None:
            self._read.cancel()
            self._read = None

    def _late(self) -> None:
        self._head = None
        if not self.transport.is_closing():
            self.transport.close()


def limited_config(app: Any, limits: Limits, **more: Any) -> uvicorn.Config:
    """How uvicorn serves ``app`` under ``limits``; the process calls `HeadProtocol.limit`, too."""
    return uvicorn.Config(
        app,
        http=cast("Any", HeadProtocol),
        ws="none",
        backlog=BACKLOG,
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        # A client whose connection was idle may send just as it is closed: seldom, then.
        timeout_keep_alive=75,
        proxy_headers=False,
        h11_max_incomplete_event_size=limits.header_bytes,
        **_WITHOUT_CONTEXT,
        **more,
    )


def connections_of(limits: Limits) -> int:
    """How many connections a process holds, so that files are left for its store.

    Where no file can be opened any more, asyncio does little else than try to accept.

    Raises:
        ValidationError: the process may open too few files.
    """
    try:
        import resource
    except ModuleNotFoundError:  # on Windows, which has no such limit
        return limits.connections
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return limits.connections
    if files < _OWN_FILES + _FEWEST:
        raise ValidationError(
            f"this process may open only {files} files, too few to serve: allow 1024, such as by "
            "`ulimit -n 1024`"
        )
    return min(limits.connections, files - _OWN_FILES)


def _is_idle(connection: Any) -> bool:
    """Whether no request is under way on it."""
    return connection.cycle is None or connection.cycle.response_complete
