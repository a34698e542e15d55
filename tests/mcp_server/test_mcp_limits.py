"""The limits of the server over HTTP: connections, sessions, threads, keys that are revoked."""

from __future__ import annotations

import itertools
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest

import triptych
from support.mcp_clients import served
from support.sync_folder import until
from triptych import Service, deadlines
from triptych.records import Query, QueryVariant
from triptych_server.http import Limits, server as http_server
from triptych_server.keys import KeyStore, authenticator
from triptych_server.mcp.http import make_app
from triptych_server.mcp.server import ServerOptions, make_server

pytest.importorskip("mcp")
ACCEPT = {"accept": "application/json, text/event-stream"}
BEGIN = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


_IDS = itertools.count(2)


@attrs.define
class Slow:
    """Rewrites the query "slow" when it may go on."""

    began: threading.Semaphore = attrs.field(factory=lambda: threading.Semaphore(0))
    go_on: threading.Event = attrs.field(factory=threading.Event)

    def rewrite(self, query: Query) -> Sequence[QueryVariant]:
        if query.text == "slow":
            self.began.release()
            self.go_on.wait(60)
        return [QueryVariant(text=query.text)]


@pytest.fixture
def slow() -> Slow:
    return Slow()


@pytest.fixture
def kb(slow: Slow) -> Iterator[Service]:
    with triptych.open("memory://", embedder="none", rewriter=slow) as opened:
        opened.put_document("d", "a.md", "# Tea\n\nTea is hot.")
        yield opened


@pytest.fixture
def url(kb: Service) -> Iterator[str]:
    KeyStore.of(kb).add("the first")
    app = make_app(
        make_server(None, ServerOptions()),
        authenticate=authenticator(kb),
        limits=Limits(sessions=4, share=0.5),
    )
    with served(app) as url:
        yield url


def key(kb: Service) -> tuple[str, dict[str, str]]:
    made = KeyStore.of(kb).add()
    return made.key.id, ACCEPT | {"authorization": f"Bearer {made.token}"}


def begun(url: str, headers: dict[str, str]) -> httpx.Response:
    return httpx.post(url, json=BEGIN, headers=headers, timeout=30)


def call(query: str) -> dict[str, Any]:
    params = {"name": "knowledge_search", "arguments": {"query": query}}
    return {"jsonrpc": "2.0", "id": next(_IDS), "method": "tools/call", "params": params}


def test_a_key_is_checked_within_the_time_of_a_call(kb: Service) -> None:
    def waits(header: str | None) -> Service:
        for _ in range(2_000):
            deadlines.check()
            time.sleep(0.01)
        return kb

    limits = Limits(seconds=1)
    app = make_app(make_server(None, ServerOptions()), authenticate=waits, limits=limits)
    with served(app) as url:
        answer = begun(url, ACCEPT)
    assert answer.status_code == 503
    assert answer.json()["error_description"] == "the key could not be checked"


def test_a_key_has_its_share_of_sessions(kb: Service, url: str) -> None:
    (_, one), (_, other) = key(kb), key(kb)
    first, second = begun(url, one), begun(url, one)
    assert (first.status_code, second.status_code) == (200, 200)
    refused = begun(url, one)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "60")
    assert "2 sessions open" in refused.json()["error_description"]
    assert begun(url, other).status_code == 200
    session = one | {"mcp-session-id": first.headers["mcp-session-id"]}
    assert httpx.delete(url, headers=session).status_code == 200
    assert begun(url, one).status_code == 200
    assert begun(url, one).status_code == 429


def test_what_opened_no_session_takes_no_place(kb: Service, url: str) -> None:
    _, headers = key(kb)
    for _ in range(3):
        assert httpx.post(url, json=call("tea"), headers=headers).status_code == 400
        unknown = headers | {"mcp-session-id": "none"}
        assert httpx.post(url, json=call("tea"), headers=unknown).status_code == 404
    assert begun(url, headers).status_code == 200


def test_a_key_leaves_threads_to_others(kb: Service, url: str, slow: Slow) -> None:
    (_, one), (_, other) = key(kb), key(kb)
    sessions = [
        headers | {"mcp-session-id": begun(url, headers).headers["mcp-session-id"]}
        for headers in (one, other)
    ]
    with ThreadPoolExecutor(10) as pool:
        try:
            held = [
                pool.submit(httpx.post, url, json=call("slow"), headers=sessions[0], timeout=60)
                for _ in range(9)
            ]
            for _ in range(2):
                assert slow.began.acquire(timeout=30)
            answer = httpx.post(url, json=call("tea"), headers=sessions[1], timeout=30)
            assert "Tea is hot." in answer.text
        finally:
            slow.go_on.set()
        assert [each.result().status_code for each in held] == [200] * 9


def test_a_revoked_key_reads_no_further(
    kb: Service, url: str, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the stream of its session nor the answer to a call."""
    monkeypatch.setattr(http_server, "_LOOK_AGAIN", 0.2)
    key_id, headers = key(kb)
    session = headers | {"mcp-session-id": begun(url, headers).headers["mcp-session-id"]}
    with ExitStack() as stack:
        stack.callback(slow.go_on.set)
        streams = [
            stack.enter_context(httpx.stream(method, url, headers=session, timeout=30, **more))
            for method, more in (("GET", {}), ("POST", {"json": call("slow")}))
        ]
        assert slow.began.acquire(timeout=30)
        KeyStore.of(kb).revoke(key_id)
        for stream in streams:
            assert stream.status_code == 200
            assert '"UNAUTHORIZED"' in stream.read().decode()
    assert begun(url, headers).status_code == 401


@pytest.mark.process
def test_idle_connections_without_a_key_do_not_make_it_deaf(tmp_path: Path) -> None:
    with triptych.open(tmp_path / "kb.db", embedder="none") as kb:
        kb.put_document("d", "a.md", "# Tea\n\nTea is hot.")
        _, headers = key(kb)
    command = [sys.executable, "-m", "triptych_adapters.cli", "mcp", "--http", "--port", "0"]
    environ = {**os.environ, "TRIPTYCH_URL": str(tmp_path / "kb.db"), "TRIPTYCH_EMBEDDER": "none"}
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        if hard < 2048:
            pytest.skip("this machine lets a process open few files")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        log = tmp_path / "log"
        process = subprocess.Popen(
            command,
            env=environ,
            stderr=stack.enter_context(log.open("w")),
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024)),
        )
        stack.callback(process.wait, 30)
        stack.callback(process.terminate)
        until(lambda: "/mcp" in log.read_text())
        url = log.read_text().removeprefix("serving ").strip()
        address = httpx.URL(url)
        for _ in range(1200):
            assert address.port is not None
            made = socket.create_connection((address.host, address.port), timeout=30)
            stack.enter_context(made)
        assert begun(url, headers).status_code == 200


def test_a_page_of_a_named_origin_may_ask(kb: Service) -> None:
    server = make_server(kb, ServerOptions())
    page = {"Origin": "https://app.example"}
    asked = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,mcp-session-id",
    }
    with served(make_app(server, origins=[page["Origin"]])) as url:
        before = httpx.options(url, headers=page | asked)
        assert before.status_code == 200
        assert "mcp-session-id" in before.headers["access-control-allow-headers"]
        answer = begun(url, ACCEPT | page)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == page["Origin"]
        assert answer.headers["access-control-expose-headers"] == "*"
    with served(make_app(make_server(kb, ServerOptions()))) as url:
        answer = httpx.options(url, headers=page | asked)
        assert answer.status_code != 200
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_client_that_goes_away_with_its_body_is_no_failure(
    kb: Service, caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app(make_server(kb, ServerOptions()))
    with caplog.at_level("INFO"), served(app) as url:
        address = httpx.URL(url)
        assert address.port is not None
        with socket.create_connection((address.host, address.port)) as connection:
            connection.sendall(
                b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Accept: application/json, text/event-stream\r\nContent-Length: 100\r\n\r\n{"
            )
        until(lambda: [each for each in caplog.records if each.name == "triptych.http"])
    assert [each for each in caplog.records if each.exc_info or each.levelname == "ERROR"] == []
