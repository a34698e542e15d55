"""A call ends at its deadline, whatever the server does: servers that misbehave in each phase."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

import triptych
from support.awaited import awaited
from triptych import Message
from triptych.errors import CancelledError, ProviderError, ProviderTimeoutError
from triptych_providers import (
    Connection,
    LlamaCppReranker,
    OllamaLLM,
    OpenAIEmbedder,
    OpenAILLM,
    Retries,
    TEIReranker,
    Timeouts,
    VoyageReranker,
)

ASK = [Message(role="user", content="?")]
LIMIT = 0.2
"""Seconds that a call may take."""
LATE = 2.5
"""Seconds behind its limit at which a call is late, on a busy machine too: servers go on for 20."""
HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n"

Act = Callable[[socket.socket], None]
Call = Callable[[str, Connection], object]


def drip(first: bytes, again: bytes, pause: float = 0.02) -> Act:
    """Sends ``first``, and ``again`` without end."""

    def act(peer: socket.socket) -> None:
        peer.sendall(first)
        until = time.monotonic() + 20
        while time.monotonic() < until:
            peer.sendall(again)
            time.sleep(pause)

    return act


def after_the_request(act: Act) -> Act:
    def wait(peer: socket.socket) -> None:
        got = b""
        while b"\r\n\r\n" not in got:
            got += peer.recv(65536)
        act(peer)

    return wait


def silent(peer: socket.socket) -> None:
    """Never reads, never writes."""
    time.sleep(20)


def sips(peer: socket.socket) -> None:
    """Reads a byte now and then."""
    for _ in range(1000):
        peer.recv(1)
        time.sleep(0.02)


@contextmanager
def acting(act: Act) -> Iterator[str]:
    """The address of a server that does ``act`` with each connection."""
    listener = socket.create_server(("127.0.0.1", 0))
    peers: list[socket.socket] = []

    def serve(peer: socket.socket) -> None:
        with suppress(OSError):
            act(peer)

    def accept() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            peers.append(peer)
            threading.Thread(target=serve, args=(peer,), daemon=True).start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join(5)
        for peer in peers:
            with suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
            peer.close()


def chat(base: str, connection: Connection) -> object:
    llm = OpenAILLM("m", base_url=base, connection=connection)
    try:
        return llm.generate(ASK, max_tokens=5)
    finally:
        llm.close()


def stream(base: str, connection: Connection) -> object:
    llm = OpenAILLM("m", base_url=base, connection=connection)
    try:
        return list(llm.stream(ASK, max_tokens=5))
    finally:
        llm.close()


def awaited_chat(base: str, connection: Connection) -> object:
    llm = OpenAILLM("m", base_url=base, connection=connection)
    return awaited(llm, lambda: llm.agenerate(ASK, max_tokens=5))


def awaited_stream(base: str, connection: Connection) -> object:
    llm = OpenAILLM("m", base_url=base, connection=connection)

    async def pieces() -> list[str]:
        async with llm.astream(ASK, max_tokens=5) as stream:
            return [piece async for piece in stream]

    return awaited(llm, pieces)


def awaited_embed(base: str, connection: Connection) -> object:
    embedder = OpenAIEmbedder("m", base_url=base, dimension=3, connection=connection)
    return awaited(embedder, lambda: embedder.aembed(["word " * 400_000], kind="document"))


def lines(base: str, connection: Connection) -> object:
    llm = OllamaLLM("m", base_url=base, connection=connection)
    try:
        return list(llm.stream(ASK, max_tokens=5))
    finally:
        llm.close()


def embed(base: str, connection: Connection) -> object:
    embedder = OpenAIEmbedder("m", base_url=base, dimension=3, connection=connection)
    try:
        return embedder.embed(["word " * 400_000], kind="document")
    finally:
        embedder.close()


def rerank(base: str, connection: Connection) -> object:
    reranker = VoyageReranker("m", api_key="k", base_url=base, connection=connection)
    try:
        return reranker.scores("q", ["a"])
    finally:
        reranker.close()


def plain_rerank(base: str, connection: Connection) -> object:
    reranker = TEIReranker(base, connection=connection)
    try:
        return reranker.scores("q", ["a"])
    finally:
        reranker.close()


def awaited_rerank(base: str, connection: Connection) -> object:
    reranker = LlamaCppReranker(base, connection=connection)
    return awaited(reranker, lambda: reranker.ascores("q", ["a"]))


def outlives(call: Call, base: str, *, own: bool, proxy: str | None = None) -> None:
    """Fails unless ``call`` ends at its limit: its own, or the deadline around it."""
    long = Timeouts(connect=30, read=30, call=LIMIT if own else 60)
    connection = Connection(timeouts=long, retries=Retries(attempts=2), proxy=proxy)
    started = time.monotonic()
    if own:
        with pytest.raises(ProviderTimeoutError, match=f"within {LIMIT:g} seconds"):
            call(base, connection)
    else:
        with triptych.deadline(LIMIT), pytest.raises(CancelledError, match="deadline passed"):
            call(base, connection)
    took = time.monotonic() - started
    assert LIMIT * 0.9 <= took < LIMIT + LATE


EMPTY = b"\x00\x00\x00\xff\xff"  # a block of deflate that holds nothing
PACKED = CHUNKED + b"content-encoding: gzip\r\n\r\na\r\n" + gzip.compress(b"")[:10] + b"\r\n"
EVENTS = CHUNKED + b"content-type: text/event-stream\r\n\r\n"
PING = b": ping\n\n"
PHASES: dict[str, Act] = {
    "a first line that drips": drip(b"HTTP/1.1 200 ", b"O"),
    "headers that drip": drip(HEAD + b"x: ", b"a"),
    "more and more headers": drip(HEAD, b"x: a\r\n"),
    "103 without end": drip(b"", b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"),
    "a flood of 103": drip(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 500, 0),
    "a body that drips": drip(HEAD + b"content-length: 99999\r\n\r\n", b" "),
    "chunks that drip": drip(CHUNKED + b"\r\n", b"1\r\n \r\n"),
    "the size of a chunk that drips": drip(CHUNKED + b"\r\n", b"0", 0.3),
    "gzip that holds nothing": drip(PACKED, b"5\r\n" + EMPTY + b"\r\n"),
    "a flood of gzip that holds nothing": drip(PACKED, (b"5\r\n" + EMPTY + b"\r\n") * 500, 0),
    "trailers that drip": drip(CHUNKED + b"\r\n2\r\n{}\r\n0\r\nx: ", b"a"),
    "a refusal that drips": drip(b"HTTP/1.1 400 No\r\ncontent-length: 9999\r\n\r\n", b" "),
    "keep-alives without end": drip(EVENTS, b"%x\r\n%s\r\n" % (len(PING), PING)),
    "blank lines without end": drip(EVENTS, b"1\r\n\n\r\n"),
}


@pytest.mark.parametrize(
    ("call", "own"),
    [
        *((chat, False), (stream, True), (lines, False), (embed, True), (rerank, True)),
        *((awaited_chat, True), (awaited_stream, False), (awaited_embed, True)),
        *((plain_rerank, False), (awaited_rerank, False)),
    ],
)
@pytest.mark.parametrize("phase", PHASES)
def test_a_call_ends_at_its_limit(phase: str, call: Call, own: bool) -> None:
    if call is lines and phase == "keep-alives without end":
        pytest.skip("these are events, which Ollama does not send")
    with acting(after_the_request(PHASES[phase])) as address:
        outlives(call, f"http://{address}", own=own)


@pytest.mark.parametrize("call", [embed, awaited_embed])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("act", [silent, sips])
def test_so_does_one_whose_request_is_not_read(act: Act, own: bool, call: Call) -> None:
    with acting(act) as address:
        outlives(call, f"http://{address}", own=own)


# The beginning of a record of TLS, long enough for 16,384 bytes.
RECORD = b"\x16\x03\x03\x40\x00"


@pytest.mark.parametrize("call", [chat, stream, embed, awaited_chat, awaited_stream])
@pytest.mark.parametrize("act", [silent, drip(RECORD, b"\x02")])
def test_so_does_one_whose_handshake_is_not_answered(act: Act, call: Call) -> None:
    with acting(act) as address:
        outlives(call, f"https://{address}", own=False)


@pytest.mark.parametrize("act", [silent, drip(b"HTTP/1.1 200 ", b"O"), drip(HEAD + b"x: ", b"a")])
@pytest.mark.parametrize("call", [chat, awaited_chat])
def test_so_does_one_through_a_proxy_that_does_not_connect(act: Act, call: Call) -> None:
    with acting(act) as address:
        outlives(call, "https://llm.example/v1", own=False, proxy=f"http://{address}")
        outlives(call, "http://llm.example/v1", own=True, proxy=f"http://{address}")


@pytest.mark.parametrize("call", [chat, awaited_chat])
@pytest.mark.parametrize("own", [False, True])
def test_so_does_one_that_is_not_let_in(own: bool, call: Call) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(full.getsockname())
        try:
            outlives(call, f"http://127.0.0.1:{full.getsockname()[1]}", own=own)
        finally:
            for each in waiting:
                each.close()


@pytest.mark.parametrize("own", [False, True])
def test_so_does_one_whose_name_is_not_found(own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()

    def look_up(*asked: object) -> list[object]:
        answered.wait(20)
        raise socket.gaierror("nobody")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    try:
        outlives(chat, "http://llm.example/v1", own=own)
    finally:
        answered.set()


def test_an_invalid_name_is_named() -> None:
    with pytest.raises(ProviderError, match="reached nothing at http://no-such"):
        chat("http://no-such-host.invalid/v1", Connection(retries=Retries(attempts=1)))


def test_an_address_that_refuses_gives_way_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    body = b'{"choices": [{"message": {"content": "fine"}}]}'
    said = HEAD + b"content-length: %d\r\n\r\n%s" % (len(body), body)

    def act(peer: socket.socket) -> None:
        peer.sendall(said)

    with acting(after_the_request(act)) as address, socket.socket() as nobody:
        found, port = socket.getaddrinfo, int(address.rpartition(":")[2])
        nobody.bind(("127.0.0.2", port))

        def look_up(host: str | bytes, *asked: int) -> list[object]:
            each = ("127.0.0.2", "127.0.0.1") if "example" in str(host) else (host,)
            return [answer for name in each for answer in found(name, *asked)]

        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        connection = Connection(retries=Retries(attempts=1))
        assert chat(f"http://llm.example:{port}/v1", connection) is not None
