"""While operations take every thread, keys are checked and health is answered."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pytest

import triptych
from triptych.errors import AuthenticationError
from triptych.records import Candidate, Generation, Message, ModelUsage, ResolvedQuery
from triptych.service import Service
from triptych_server.http import Limits, create_app

THREADS = 2


class Waiting:
    """A lane that waits until the test lets it go."""

    name = "waiting"

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.go_on = threading.Event()

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        self.begun.release()
        self.go_on.wait()
        return []


class OneAtATime:
    """A model that answers ``PLACES`` at a time, streams included."""

    signature = "one-at-a-time"
    PLACES = 2

    def __init__(self) -> None:
        self._places = threading.Semaphore(self.PLACES)

    def generate(self, messages: Sequence[Message], *, max_tokens: int = 0) -> Generation:
        usage = ModelUsage(model=self.signature)
        return Generation(text="".join(self.stream(messages)), usage=usage)

    def stream(self, messages: Sequence[Message], *, max_tokens: int = 0) -> Iterator[str]:
        assert self._places.acquire(timeout=60)
        try:
            yield from ["Hot", " tea", " [1]", "."]
        finally:
            self._places.release()


def test_streams_that_wait_for_the_model_do_not_keep_threads_from_those_that_have_it() -> None:
    service = triptych.open("memory://", embedder="hash", llm=OneAtATime())
    service.put_document("d", "a.md", "Tea is hot.")
    app = create_app(service, limits=Limits(threads=THREADS))

    async def asked() -> list[int]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:

            async def ask(accept: str) -> int:
                body = {"question": "tea?", "dataset_id": "d"}
                answer = await client.post("/v1/ask", json=body, headers={"Accept": accept})
                assert "Hot tea" in answer.text
                return answer.status_code

            kinds = ["text/event-stream"] * 3 + ["application/json"]
            return list(await asyncio.wait_for(asyncio.gather(*map(ask, kinds * 6)), 50))

    assert asyncio.run(asked()) == [200] * 24


def test_health_and_keys_have_threads_of_their_own() -> None:
    lane = Waiting()
    service = triptych.open("memory://", embedder="hash", retrievers=[lane])
    service.put_document("d", "a.md", "Tea is hot.")

    def authenticate(authorization: str | None) -> Service:
        if authorization != "Bearer good":
            raise AuthenticationError("no such key")
        return service

    app = create_app(service, authenticate=authenticate, limits=Limits(threads=THREADS, share=1))

    async def asked() -> None:
        good = {"Authorization": "Bearer good"}
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:

            async def search() -> httpx.Response:
                body: dict[str, Any] = {"query": "tea", "dataset_id": "d", "mode": "waiting"}
                return await client.post("/v1/search", json=body, headers=good)

            searches = [asyncio.create_task(search()) for _ in range(2 * THREADS)]
            try:
                for _ in range(THREADS):
                    assert await asyncio.to_thread(lane.begun.acquire, timeout=60)
                others = asyncio.gather(
                    client.get("/healthz"), client.post("/v1/search", json={"query": "tea"})
                )
                health, refused = await asyncio.wait_for(others, 60)
            finally:
                lane.go_on.set()
            assert (health.status_code, refused.status_code) == (200, 401)
            assert [each.status_code for each in await asyncio.gather(*searches)] == [200] * 4

    try:
        asyncio.run(asked())
    except TimeoutError:
        pytest.fail("health or a key waits for operations")
