"""What is refused before any page is asked: a page for a browser, JSON for programs."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from typing import Any

import pytest

pytest.importorskip("starlette")

import triptych
from support.asgi import Client
from support.console import TOKEN, read
from support.servers import listening
from triptych.service import Service
from triptych_server.http import Limits, create_app

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
LIMITS = Limits(body=1_000, header_bytes=2_000, waiting=1, body_seconds=0.3)
FORM = {"Content-Type": "application/x-www-form-urlencoded", **TOKEN}


@pytest.fixture(scope="module")
def kb() -> Iterator[Service]:
    with triptych.open("memory://", embedder="hash") as opened:
        yield opened


async def in_parts() -> AsyncIterator[bytes]:
    for _ in range(20):
        yield b"x" * 100


REFUSED: dict[str, tuple[int, str, dict[str, Any]]] = {
    "a body that is too large": (413, "/console/put", {"content": b"x" * 1_001, "headers": FORM}),
    "a Host that is not the server's": (421, "/", {"headers": {"Host": "elsewhere.example"}}),
    "a head that is too large": (431, "/", {"headers": {"X-Long": "x" * 2_001}}),
    "an Origin of another site": (
        403,
        "/console/put",
        {"headers": {"Origin": "https://e.example"}},
    ),
    "a compressed body": (415, "/console/put", {"headers": {**FORM, "Content-Encoding": "gzip"}}),
    "a server that is busy": (503, "/console/work", {}),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_browser_is_shown_a_page_and_a_program_json(why: str, kb: Service) -> None:
    status, path, options = REFUSED[why]
    app = create_app(kb, write=True, console=True, limits=LIMITS)
    plain = create_app(kb, write=True, limits=LIMITS)

    def ask(app: Any, path: str, accept: dict[str, str]) -> Any:
        busy = app.state.triptych.calls.counted() if status == 503 else nullcontext()
        headers = {**options.get("headers", {}), **accept}
        method = "GET" if path == "/" else "POST"
        with busy:
            return Client(app)(method, path, **{**options, "headers": headers})

    shown = ask(app, path, BROWSER)
    assert (shown.status_code, shown.headers["content-type"]) == (
        status,
        "text/html; charset=utf-8",
    )
    assert read(shown.text).open == []
    told = ask(app, path, {"Accept": "application/json"})
    assert told.status_code == status
    assert told.json()["error"]["message"] in shown.text.replace("&#39;", "'")
    assert "unsafe" not in shown.headers["content-security-policy"]
    for name in ("connection", "retry-after", "accept-encoding"):
        assert shown.headers.get(name) == told.headers.get(name)
    assert shown.headers["x-request-id"]
    for other in (ask(app, "/v1/datasets", BROWSER), ask(plain, path, BROWSER)):
        assert other.status_code == status
        assert other.json()["error"] == told.json()["error"]


def test_a_body_that_is_too_large_or_too_slow_while_it_comes_is_refused_as_a_page(
    kb: Service,
) -> None:
    app = create_app(kb, write=True, console=True, limits=LIMITS)
    answer = Client(app)("POST", "/console/put", content=in_parts(), headers={**FORM, **BROWSER})
    assert answer.status_code == 413
    assert "the body is larger than 1000 bytes" in answer.text
    assert answer.headers["connection"] == "close"
    head = "".join(f"{name}: {value}\r\n" for name, value in {**FORM, **BROWSER}.items())
    with listening(app) as url:
        host, _, port = url.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            request = (
                f"POST /console/put HTTP/1.1\r\nHost: localhost\r\n{head}Content-Length: 9\r\n\r\n"
            )
            connection.sendall(request.encode())
            said = b""
            while part := connection.recv(1 << 16):
                said += part
    assert said.startswith(b"HTTP/1.1 408")
    assert b"<h1>408: the body took longer than 0.3 seconds</h1>" in said


def test_the_links_of_a_refusal_stay_below_where_the_app_is_mounted(kb: Service) -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    app = Starlette(routes=[Mount("/kb", create_app(kb, write=True, console=True, limits=LIMITS))])
    for method, path, more in (
        ("GET", "/kb/", {"X-Long": "x" * 2_001}),
        ("GET", "/kb/?q=a&k=none", {}),
        ("POST", "/kb/console/put", {"Content-Type": "text/plain"}),
    ):
        text = Client(app)(method, path, headers={**BROWSER, **more}).text
        assert '<a href="/kb/">Back to the search</a>' in text
