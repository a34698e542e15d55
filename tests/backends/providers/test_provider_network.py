"""TLS over the connections of the providers, directly and through a proxy that speaks TLS too."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from support import provider_server
from support.http_library import httpx
from triptych import Message
from triptych.errors import ProviderTimeoutError
from triptych_providers import Connection, OpenAILLM, Timeouts

# A key of no worth, for servers on this machine alone.
PEM = Path(provider_server.__file__).with_name("loopback.pem")
TEXT = "fine" * 50_000
BODY = json.dumps({"choices": [{"message": {"content": TEXT}}]}).encode()
ASK = [Message(role="user", content="?" * 300_000)]
CONNECTIONS: dict[int, int] = {}


def trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def secured() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    return context


def head(peer: socket.socket) -> bytes:
    got = b""
    while b"\r\n\r\n" not in got and (more := peer.recv(65536)):
        got += more
    return got


@contextmanager
def serving(act: Callable[[socket.socket], None]) -> Iterator[int]:
    """The port of a server that speaks TLS and does ``act``."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    CONNECTIONS[port] = 0
    context = secured()
    living: list[socket.socket] = []

    def serve(peer: socket.socket) -> None:
        with suppress(OSError), context.wrap_socket(peer, server_side=True) as wrapped:
            living.append(wrapped)
            act(wrapped)

    def accept() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            CONNECTIONS[port] += 1
            threading.Thread(target=serve, args=(peer,), daemon=True).start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield port
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join(5)
        for each in living:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def answers(peer: socket.socket) -> None:
    """Answers what it is asked, any number of times on one connection."""
    while asked := head(peer):
        length = int(asked.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        rest = length - len(asked.split(b"\r\n\r\n", 1)[1])
        while rest:
            rest -= len(peer.recv(min(rest, 65536)))
        peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(BODY), BODY))


def drips(peer: socket.socket) -> None:
    head(peer)
    peer.sendall(b"HTTP/1.1 200 OK\r\nx: ")
    while True:
        peer.sendall(b"a")
        time.sleep(0.02)


def tunnels(peer: socket.socket) -> None:
    """What a proxy does."""
    target = head(peer).split(b" ")[1].decode().rpartition(":")
    with socket.create_connection((target[0], int(target[2]))) as onward:
        peer.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
        back = threading.Thread(target=pump, args=(onward, peer), daemon=True)
        back.start()
        pump(peer, onward)
        back.join(5)


def pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)


def model(port: int, proxy: int | None, seconds: float) -> OpenAILLM:
    def transport() -> httpx.AsyncHTTPTransport:
        if proxy is None:
            return httpx.AsyncHTTPTransport(verify=trusting())
        through = httpx.Proxy(f"https://127.0.0.1:{proxy}", ssl_context=trusting())
        return httpx.AsyncHTTPTransport(verify=trusting(), proxy=through)

    return OpenAILLM(
        "m",
        base_url=f"https://127.0.0.1:{port}",
        connection=Connection(transport=transport, timeouts=Timeouts(call=seconds)),
    )


@pytest.mark.parametrize("through", [0, 1], ids=["directly", "through a proxy"])
def test_what_is_sent_and_answered_is_whole(through: int) -> None:
    with serving(answers) as port, serving(tunnels) as proxy:
        llm = model(port, proxy if through else None, 30)
        for _ in range(3):
            assert llm.generate(ASK, max_tokens=5).text == TEXT
        llm.close()
        assert CONNECTIONS[port] == 1


@pytest.mark.parametrize("through", [0, 1], ids=["directly", "through a proxy"])
def test_a_call_ends_in_time(through: int) -> None:
    with serving(drips) as port, serving(tunnels) as proxy:
        llm = model(port, proxy if through else None, 0.5)
        started = time.monotonic()
        with pytest.raises(ProviderTimeoutError, match=r"within 0.5 seconds"):
            llm.generate(ASK, max_tokens=5)
        assert time.monotonic() - started < 3
        llm.close()
