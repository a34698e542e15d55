"""Keys while answers last: a revoked one is cut off, and none takes all of a server."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import httpx
import pytest

import triptych
from support.asgi import Client
from support.servers import served
from triptych import Service, ValidationError, deadlines
from triptych.errors import CancelledError
from triptych.records import Message, Query, QueryVariant
from triptych.search import Pipeline
from triptych_server.http import Limits, create_app, server as http_server
from triptych_server.keys import KeyStore, authenticator

pytest.importorskip("uvicorn")
EVENTS = {"Accept": "text/event-stream"}


@attrs.define
class Endless:
    """A language model that goes on until it is stopped, or for 30 seconds."""

    began: threading.Event = attrs.field(factory=threading.Event)
    stopped: threading.Event = attrs.field(factory=threading.Event)
    signature = "endless"

    def generate(self, messages: Sequence[Message], *, max_tokens: int) -> Any:
        for _ in self.stream(messages, max_tokens=max_tokens):
            pass
        raise AssertionError("it was not stopped")

    def stream(self, messages: Sequence[Message], *, max_tokens: int) -> Iterator[str]:
        self.began.set()
        try:
            for _ in range(600):
                deadlines.check("writing")
                yield "tea "
                time.sleep(0.05)
        except (GeneratorExit, CancelledError):
            self.stopped.set()
            raise


@pytest.fixture
def llm() -> Endless:
    return Endless()


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
def kb(llm: Endless, slow: Slow, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    assert http_server._LOOK_AGAIN <= 5
    monkeypatch.setattr(http_server, "_LOOK_AGAIN", 0.2)
    options: dict[str, Any] = {"embedder": "none", "llm": llm, "rewriter": slow}
    with triptych.open("memory://", pipelines=[Pipeline(name="p")], **options) as opened:
        opened.put_document("d", "a.md", "# Tea\n\nTea is hot.")
        yield opened


def key(kb: Service, **options: Any) -> tuple[str, dict[str, str]]:
    """A key's id, and its header."""
    made = KeyStore.of(kb).add(can_write=True, **options)
    return made.key.id, {"Authorization": f"Bearer {made.token}"}


def test_a_key_is_checked_within_the_time_of_the_request(kb: Service) -> None:
    def waits(header: str | None) -> Service:
        for _ in range(2_000):
            deadlines.check()
            time.sleep(0.01)
        return kb

    client = Client(create_app(kb, authenticate=waits))
    answer = client("GET", "/v1/datasets", headers={"Prefer": "wait=1"})
    assert answer.status_code == 503


def test_a_revoked_key_reads_no_further_changes(kb: Service) -> None:
    key_id, headers = key(kb)
    limits = Limits(seconds=30)
    with (
        served(kb, authenticate=authenticator(kb), limits=limits) as url,
        httpx.stream("GET", f"{url}/v1/changes", headers=headers | EVENTS, timeout=60) as answer,
    ):
        lines = answer.iter_lines()
        assert any("a.md" in line for line in lines)
        KeyStore.of(kb).revoke(key_id)
        rest = list(lines)  # the stream ends
        assert "event: error" in rest
        assert any('"UNAUTHORIZED"' in line for line in rest)
        again = httpx.get(f"{url}/v1/changes", headers=headers | EVENTS)
        assert again.status_code == 401


@pytest.mark.parametrize("path", ["/v1/ask", "/v1/pipelines/p", "/search"])
def test_a_revoked_key_reads_no_further_answer(kb: Service, llm: Endless, path: str) -> None:
    """Server-sent events end with an error; a plain text is cut off, as its end would be wrong."""
    key_id, headers = key(kb)
    bodies = {
        "/v1/ask": {"question": "tea?", "dataset_id": "d"},
        "/v1/pipelines/p": {"query": "tea?", "stream": True},
        "/search": {"query": "tea?", "generate": True},
    }
    options: dict[str, Any] = {"json": bodies[path], "headers": headers | EVENTS, "timeout": 60}
    with (
        served(kb, authenticate=authenticator(kb), dataset="d") as url,
        httpx.stream("POST", f"{url}{path}", **options) as answer,
    ):
        parts = answer.iter_text()
        assert next(parts)
        KeyStore.of(kb).revoke(key_id)
        if path == "/search":
            with pytest.raises(httpx.RemoteProtocolError):
                list(parts)
        else:
            assert '"UNAUTHORIZED"' in "".join(parts)
    assert llm.stopped.wait(20)


def test_a_revoked_key_builds_no_further_layers(kb: Service, llm: Endless) -> None:
    key_id, headers = key(kb)
    with served(kb, authenticate=authenticator(kb), write=True) as url:
        revoking = threading.Thread(
            target=lambda: llm.began.wait(20) and KeyStore.of(kb).revoke(key_id)
        )
        revoking.start()
        answer = httpx.post(
            f"{url}/v1/datasets/d/build-layers", json={}, headers=headers, timeout=60
        )
        revoking.join()
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "UNAUTHORIZED")
    assert llm.stopped.is_set()


def test_looking_again_counts_no_request(kb: Service) -> None:
    _, headers = key(kb, requests_per_minute=2)
    client = Client(
        create_app(kb, authenticate=authenticator(kb), limits=Limits(seconds=3)), **headers
    )
    assert "error" not in client("GET", "/v1/changes", headers=EVENTS).text
    assert client("GET", "/v1/datasets").status_code == 200
    assert client("GET", "/v1/datasets").status_code == 429


def test_a_key_has_its_share_of_requests_under_way(kb: Service) -> None:
    (_, one), (_, other) = key(kb), key(kb)
    token = one["Authorization"].removeprefix("Bearer ")
    spelt = [f"Bearer {token}", f"bearer  {token}", f" BEARER {token} "]
    app = create_app(
        kb, authenticate=authenticator(kb), limits=Limits(waiting=4, share=0.5, seconds=10)
    )

    async def asked() -> list[int]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            streams = [
                asyncio.create_task(
                    client.get("/v1/changes", headers={"Authorization": each} | EVENTS)
                )
                for each in spelt
            ]
            done, going = await asyncio.wait(streams, return_when=asyncio.FIRST_COMPLETED)
            (refused,) = done
            assert refused.result().json()["error"]["code"] == "RATE_LIMITED"
            assert refused.result().headers["retry-after"] == "1"
            found = [refused.result().status_code]
            found.append((await client.get("/v1/datasets", headers=other)).status_code)
            for each in going:
                each.cancel()
            await asyncio.wait(going)
            found.append((await client.get("/v1/datasets", headers=one)).status_code)
            return found

    assert asyncio.run(asked()) == [429, 200, 200]


def test_a_key_leaves_threads_to_others(kb: Service, slow: Slow) -> None:
    (_, one), (_, other) = key(kb), key(kb)
    app = create_app(kb, authenticate=authenticator(kb), limits=Limits(threads=2))

    async def asked() -> list[int]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            body = {"query": "slow", "dataset_id": "d"}
            held = [
                asyncio.create_task(client.post("/v1/search", json=body, headers=one))
                for _ in range(4)
            ]
            assert await asyncio.to_thread(slow.began.acquire, timeout=30)
            answer = await asyncio.wait_for(client.get("/v1/datasets", headers=other), 30)
            slow.go_on.set()
            return [answer.status_code, *(each.status_code for each in await asyncio.gather(*held))]

    assert asyncio.run(asked()) == [200] * 5


def test_each_query_of_many_is_a_request_of_the_key(kb: Service) -> None:
    _, headers = key(kb, requests_per_minute=10)
    client = Client(create_app(kb, authenticate=authenticator(kb)), **headers)

    def many(count: int) -> httpx.Response:
        body = {"queries": ["tea"] * count, "dataset_id": "d"}
        return client("POST", "/v1/search-many", json=body)

    assert many(6).status_code == 200
    refused = many(6)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "RATE_LIMITED")
    assert int(refused.headers["retry-after"]) >= 6
    _, headers = key(kb, requests_per_minute=10)
    client = Client(create_app(kb, authenticate=authenticator(kb)), **headers)
    beyond = many(11)
    assert beyond.status_code == 400
    assert "11 queries count as 11 requests" in beyond.json()["error"]["message"]


def test_a_share_is_a_part() -> None:
    for given in (0, -0.5, 1.1, True, float("nan")):
        with pytest.raises(ValidationError, match="share"):
            Limits(share=given)
    assert [Limits(share=0.5).share_of(most) for most in (1, 4, 1000)] == [1, 2, 500]
