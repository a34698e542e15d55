"""What a client says of servers that are none, that misbehave, or that refuse it."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import triptych
from support.cli_run import ran
from support.rows import each_row
from support.servers import served, started
from triptych.errors import (
    AccessDeniedError,
    AuthenticationError,
    CancelledError,
    RateLimitedError,
    StoreAwayError,
    StoreError,
    TooManyRequestsError,
)
from triptych_server.client import requests
from triptych_server.keys import KeyStore, authenticator

Answer = Callable[[socket.socket], None]


@contextmanager
def server(*replies: bytes | Answer) -> Iterator[tuple[str, list[bytes]]]:
    """Its address and what it was asked; it answers in turn, with the last again and again."""
    listener = socket.create_server(("127.0.0.1", 0))
    asked: list[bytes] = []

    def talk(connection: socket.socket, reply: bytes | Answer) -> None:
        with connection, contextlib.suppress(OSError):
            asked.append(connection.recv(1 << 16))
            reply(connection) if callable(reply) else connection.sendall(reply)

    def run() -> None:
        number = 0
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            reply = replies[min(number, len(replies) - 1)]
            number += 1
            threading.Thread(target=talk, args=(connection, reply), daemon=True).start()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


def http(status: str, body: bytes = b"", **headers: str) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{lines}\r\n"
    return head.encode() + body


def problem(code: str, message: str) -> bytes:
    return json.dumps({"error": {"code": code, "message": message}}).encode()


PROXY = (
    b"<html><head><title>502 Bad Gateway</title><style>b {}</style></head>"
    b"<body>Try <b>later</b></body></html>"
)


@each_row(
    ("reply", "words", "times"),
    [
        (b"\x00\xff\xfe\r\n\r\n", "illegal status line", 4),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n[1", "broke off", 4),
        (b"", "broke off", 4),
        (http("502 Bad Gateway", PROXY), "status 502, .*: 502 Bad Gateway Try later$", 4),
        (http("503 Unavailable", b"starting"), "status 503, .*: starting$", 4),
        (http("404 Not Found", b"x" * 9999), "status 404, .*x{200}…$", 1),
        (http("200 OK", b"<html>Log in</html>"), "cannot be read", 1),
        (http("200 OK", b"[" * 100_000), "cannot be read", 1),
        (http("200 OK", b'[{"a": 1}]'), "of this version", 1),
        (http("301 Moved", Location="https://kb.example/"), "example/', which is not", 1),
        (http("200 OK", gzip.compress(b"[]"), Content_Encoding="gzip"), "compressed", 1),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_answer_is_named(reply: bytes, words: str, times: int) -> None:
    with server(reply) as (url, asked), triptych.open(url) as kb:
        with pytest.raises(StoreError, match=words) as caught:
            kb.list_datasets()
        assert len(str(caught.value)) < 500
        assert len(asked) == times
        assert b"accept-encoding: identity" in asked[0].lower()


def test_an_answer_without_an_end_is_not_read_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MOST", 1 << 20)
    monkeypatch.setattr(requests, "_MOST_OF_A_LINE", 1 << 18)
    stopped = threading.Event()

    def endless(head: bytes) -> Answer:
        def send(connection: socket.socket) -> None:
            try:
                connection.sendall(head)
                while True:
                    connection.sendall(b"data: " + b"x" * 50_000)
            except OSError:
                stopped.set()

        return send

    for head in (b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 500 Oh\r\n\r\n"):
        with server(endless(head)) as (url, asked), triptych.open(url) as kb:
            for call in (kb.list_datasets, lambda kb=kb: kb.ask_stream("tea", dataset_id="d")):
                stopped.clear()
                with pytest.raises(StoreError, match=r"is longer than|status 500"):
                    call()
                assert stopped.wait(20)
            assert len(asked) == 2


def test_a_stream_of_anything_else_is_named() -> None:
    kind = {"Content_Type": "text/event-stream"}
    for body, words in (
        (b"event: context\ndata: {nothing\n\n", "event that cannot be read"),
        (b"event: tea\ndata: {}\n\n", "none of an answer"),
    ):
        with (
            server(http("200 OK", body, **kind)) as (url, _),
            triptych.open(url) as kb,
            pytest.raises(StoreError, match=words),
        ):
            kb.ask_stream("tea", dataset_id="d")


def test_who_asks_too_often_waits_if_it_is_not_long() -> None:
    often = problem("RATE_LIMITED", "this key may ask less often")
    with server(
        http("429 Too Many Requests", often, Retry_After="0"), http("200 OK", b'["d"]')
    ) as (url, asked), triptych.open(url) as kb:  # fmt: skip
        assert (list(kb.list_datasets()), len(asked)) == (["d"], 2)
    with (
        server(http("429 Too Many Requests", often, Retry_After="3600")) as (url, asked),
        triptych.open(url) as kb,
    ):
        with pytest.raises(TooManyRequestsError) as caught:
            kb.list_datasets()
        assert (caught.value.retry_after, len(asked)) == (3600, 1)


def test_a_write_that_is_still_under_way_is_waited_for() -> None:
    # The first try broke off, and the server goes on with it.
    under_way = problem("IDEMPOTENCY_IN_PROGRESS", "a request with this key is still running")
    waits = http("409 Conflict", under_way, Retry_After="0")
    with (
        server(*[waits] * 4, http("200 OK", b"true")) as (url, asked),
        triptych.open(url) as kb,
    ):
        assert kb.delete_document("d", "tea.md")
    assert len(asked) == 5
    keys = {line for each in asked for line in each.split(b"\r\n") if b"idempotency-key" in line}
    assert len(keys) == 1


def test_a_store_that_is_away_is_waited_for_where_nothing_may_be_done_twice() -> None:
    away = problem("STORE_AWAY_ERROR", "the store does not answer, and may have committed a write")
    locked = problem("STORE_LOCKED_ERROR", "busy: try again later")
    replies = [http("503 Service Unavailable", each, Retry_After="0") for each in (away, locked)]
    with server(*replies, http("200 OK", b"[]")) as (url, asked), triptych.open(url) as kb:
        assert kb.list_datasets() == []
    assert len(asked) == 3
    # Nothing was written where it is locked; where it is away, nobody knows.
    with (
        server(*reversed(replies), http("200 OK", b"true")) as (url, asked),
        triptych.open(url) as kb,
        pytest.raises(StoreAwayError, match="may have committed"),
    ):
        kb.delete_document("d", "tea.md")
    assert len(asked) == 2


def test_how_long_a_provider_asks_to_wait_is_kept() -> None:
    limited = problem("RATE_LIMITED_ERROR", "busy: try again later")
    with (
        server(http("503 Service Unavailable", limited, Retry_After="7")) as (url, _),
        triptych.open(url) as kb,
        pytest.raises(RateLimitedError) as caught,
    ):
        kb.list_datasets()
    assert caught.value.retry_after == 7


def test_a_server_that_drips_is_left_at_the_deadline() -> None:
    ended = threading.Event()

    def drip(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while not ended.wait(0.02):
            connection.sendall(b" ")

    with server(drip) as (url, _), triptych.open(url) as kb:
        with triptych.deadline(0.3), pytest.raises(CancelledError):
            kb.list_datasets()
        ended.set()


# Keys


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, KeyStore]]:
    with triptych.open(tmp_path_factory.mktemp("keys") / "kb.db", embedder="hash") as kb:
        kb.put_document("default", "tea.md", "A pot of tea.")
        keys = KeyStore.of(kb)
        keys.add("first")
        with served(kb, write=True, authenticate=authenticator(kb)) as url:
            yield url, keys


def test_a_key_with_a_filter_puts_many(guarded: tuple[str, KeyStore]) -> None:
    url, keys = guarded
    red: dict[str, Any] = {"team": "red"}
    key = keys.add("red", can_write=True, where=red).token
    with triptych.open(url, api_key=key) as kb:
        many = [
            triptych.NewDocument(name=f"r{n}", content=f"{n}", metadata=red) for n in range(300)
        ]
        report = kb.put_documents("red", many)
        assert (report.added, report.pending, report.failed) == (300, 0, ())
        assert kb.search("7", dataset_id="red", mode="vector", top_k=1).hits
        with pytest.raises(AccessDeniedError, match="at once"):
            kb.put_documents("red", many, embed="later")
        (failed,) = kb.put_documents("red", {"blue": "Text."}).failed
        assert "does not allow writing" in str(failed.error)


def test_a_key_that_is_revoked_ends_the_session(guarded: tuple[str, KeyStore]) -> None:
    url, keys = guarded
    made = keys.add("short")
    with triptych.open(url, api_key=made.token) as kb:
        assert list(kb.list_documents("default"))
        keys.revoke(made.key.id)
        with pytest.raises(AuthenticationError, match=url) as caught:
            kb.list_documents("default")
        assert "TRIPTYCH_API_KEY" in caught.value.hint
        assert made.token not in f"{caught.value} {caught.value.hint}"


def test_commands_say_what_a_server_refuses(
    guarded: tuple[str, KeyStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, keys = guarded
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.md").write_text("Text.\n")
    result = ran(["search", "tea", "--store", url])
    assert (result.code, "set TRIPTYCH_API_KEY" in result.err, url in result.err) == (1, True, True)
    monkeypatch.setenv("TRIPTYCH_API_KEY", keys.add("reader").token)
    assert ran(["search", "tea", "--store", url]).code == 0
    result = ran(["put", "a.md", "--store", url])
    assert (result.code, "may only read" in result.err) == (1, True)
    for command in (
        ["admin", "keys", "list"],
        ["admin", "keys", "add", "me"],
        ["serve", "--port", "0"],
    ):
        result = ran([*command, "--store", url])
        assert (result.code, "on a server" in result.err) == (7, True), result.err
    nowhere = "http://127.0.0.1:9"
    for command in (["search", "tea"], ["status"], ["put", "a.md"]):
        result = ran([*command, "--store", nowhere])
        assert (result.code, "cannot be reached" in result.err) == (5, True)
        assert "is `triptych serve` running there" in result.err


# A server that goes and comes back


def test_a_bulk_put_goes_on_where_a_killed_server_comes_back(tmp_path: Path) -> None:
    many = [triptych.NewDocument(name=f"{n}", content=f"Page {n}.") for n in range(2000)]
    comes_back = contextlib.ExitStack()
    with comes_back, started(tmp_path, "--write") as first, triptych.open(first.url) as kb:
        killed = []

        def kill(progress: object) -> None:
            if not killed:
                killed.append(first.stop(9))
                port = str(first.address[1])
                comes_back.enter_context(started(tmp_path, "--write", "--port", port))

        report = kb.put_documents("d", many, progress=kill)
        assert killed == [-9]
        assert (report.added, report.failed) == (2000, ())
        assert kb.count_documents("d") == 2000
        assert kb.stats("d")[0].stale == 0
