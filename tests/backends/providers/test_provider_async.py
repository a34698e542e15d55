"""What only calls for an event loop can do: many at a time, cancelled, in one loop after another.

That they answer, fail and end as the calls that block is tested with those, test by test.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from support.http_library import httpx
from support.provider_server import (
    Asked,
    ProviderServer,
    Reply,
    as_json,
    events,
    in_turn,
    serving,
    vector,
)
from support.sync_folder import until
from triptych import Message
from triptych.contracts import AsyncEmbedder, AsyncLLM
from triptych.errors import ProviderError, ValidationError
from triptych_models import HashEmbedder
from triptych_providers import (
    Connection,
    OpenAIEmbedder,
    OpenAILLM,
    Retries,
)
from triptych_testing import lacking

ASK = [Message(role="user", content="?")]
WIDTH = 3
WHOLE = as_json({"choices": [{"message": {"content": "fine"}, "finish_reason": "stop"}]})
PIECES = events(
    *({"choices": [{"delta": {"content": text}}]} for text in ("one ", "two ")),
    {"choices": [{"delta": {"content": "three"}, "finish_reason": "stop"}]},
)


@pytest.fixture
def held() -> Iterator[threading.Event]:
    """Set when the servers of a test may go on."""
    event = threading.Event()
    yield event
    event.set()


def llm_of(server: ProviderServer, **how: Any) -> OpenAILLM:
    return OpenAILLM("m", base_url=server.url, connection=Connection(**how))


def test_the_providers_have_the_contracts() -> None:
    llm = OpenAILLM("m", base_url="http://localhost:1")
    embedder = OpenAIEmbedder("m", base_url="http://localhost:1", dimension=WIDTH)
    assert not lacking(llm, AsyncLLM)
    assert not lacking(embedder, AsyncEmbedder)
    assert lacking(HashEmbedder(), AsyncEmbedder)
    llm.close()
    embedder.close()


def test_answers_are_awaited_together_and_the_loop_stays_free(held: threading.Event) -> None:
    slow = Reply(body=WHOLE.whole, headers=WHOLE.headers, hold=held)

    async def main(server: ProviderServer) -> None:
        llm = llm_of(server, concurrency=3)
        calls = [asyncio.create_task(llm.agenerate(ASK, max_tokens=5)) for _ in range(7)]
        while server.under_way < 3:
            await asyncio.sleep(0.005)  # the loop turns while all of them wait
        held.set()
        answers = await asyncio.gather(*calls)
        assert [answer.text for answer in answers] == ["fine"] * 7
        assert server.most_at_once == 3
        await llm.aclose()

    with serving(in_turn(slow)) as server:
        asyncio.run(main(server))


def test_calls_that_block_and_calls_of_a_loop_share_the_places(held: threading.Event) -> None:
    slow = Reply(body=WHOLE.whole, headers=WHOLE.headers, hold=held)

    async def main(server: ProviderServer) -> None:
        llm = llm_of(server, concurrency=1)
        blocking = asyncio.create_task(asyncio.to_thread(llm.generate, ASK, max_tokens=5))
        while not server.under_way:
            await asyncio.sleep(0.005)
        waiting = asyncio.create_task(llm.agenerate(ASK, max_tokens=5))
        await asyncio.sleep(0.1)
        assert len(server.asked) == 1
        held.set()
        await asyncio.gather(blocking, waiting)
        assert server.most_at_once == 1
        await llm.aclose()

    with serving(in_turn(slow)) as server:
        asyncio.run(main(server))


@pytest.mark.parametrize("streamed", [False, True])
def test_a_cancelled_task_lets_go_at_once(held: threading.Event, streamed: bool) -> None:
    stuck = (
        Reply(body=PIECES.body, cut=len(PIECES.whole) // 2, hold=held)
        if streamed
        else Reply(body=WHOLE.whole, hold=held)
    )

    async def call(llm: OpenAILLM) -> None:
        if not streamed:
            await llm.agenerate(ASK, max_tokens=5)
        async with llm.astream(ASK, max_tokens=5) as pieces:
            async for _ in pieces:
                pass

    async def main(server: ProviderServer) -> None:
        llm = llm_of(server, concurrency=1)
        task = asyncio.create_task(call(llm))
        while not server.under_way:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # Its place is free: the only one.
        async with asyncio.timeout(20):
            assert (await llm.agenerate(ASK, max_tokens=5)).text == "fine"
        await llm.aclose()

    with serving(in_turn(stuck, WHOLE)) as server:
        asyncio.run(main(server))


def test_a_stream_that_is_left_gives_its_place_back() -> None:
    async def main(server: ProviderServer) -> None:
        llm = llm_of(server, concurrency=1)
        async with llm.astream(ASK, max_tokens=5) as pieces:
            async for piece in pieces:
                assert piece == "one "
                break
        unread = llm.astream(ASK, max_tokens=5)
        await unread.aclose()
        async with asyncio.timeout(20), llm.astream(ASK, max_tokens=5) as pieces:
            assert [piece async for piece in pieces] == ["one ", "two ", "three"]
        assert len(server.asked) == 2
        await llm.aclose()

    with serving(in_turn(PIECES)) as server:
        asyncio.run(main(server))


def test_one_model_serves_one_loop_after_another() -> None:
    async def main(llm: OpenAILLM) -> str:
        answer = await llm.agenerate(ASK, max_tokens=5)
        await llm._client.disconnect()
        return answer.text

    with serving(in_turn(WHOLE)) as server:
        llm = llm_of(server)
        assert [asyncio.run(main(llm)) for _ in range(3)] == ["fine"] * 3
        assert llm.generate(ASK, max_tokens=5).text == "fine"
        llm.close()


def test_a_closed_model_says_so() -> None:
    async def main(server: ProviderServer) -> None:
        llm = llm_of(server)
        assert (await llm.agenerate(ASK, max_tokens=5)).text == "fine"
        await llm.aclose()
        await llm.aclose()
        with pytest.raises(ProviderError, match="closed"):
            await llm.agenerate(ASK, max_tokens=5)
        with pytest.raises(ProviderError, match="closed"):
            llm.generate(ASK, max_tokens=5)

    with serving(in_turn(WHOLE)) as server:
        asyncio.run(main(server))


def test_a_pause_that_the_provider_asks_for_does_not_hold_the_loop() -> None:
    busy = as_json({"error": {"message": "busy"}}, 429, retry_after="1")

    async def main(server: ProviderServer) -> None:
        llm = llm_of(server, retries=Retries(attempts=2))
        turns = 0
        call = asyncio.create_task(llm.agenerate(ASK, max_tokens=5))
        while not call.done():
            await asyncio.sleep(0.01)
            turns += 1
        assert (await call).text == "fine"
        assert (len(server.asked), turns > 10) == (2, True)
        await llm.aclose()

    with serving(in_turn(busy, WHOLE)) as server:
        asyncio.run(main(server))


def test_embedders_of_both_forms_agree() -> None:
    def answer(asked: Asked) -> Reply:
        rows = [vector(text, WIDTH) for text in asked.body["input"]]
        return as_json({"data": [{"index": n, "embedding": row} for n, row in enumerate(rows)]})

    async def main(server: ProviderServer) -> None:
        embedder = OpenAIEmbedder("own", base_url=server.url)
        texts = [f"text {number}" for number in range(5)]
        found = await embedder.aembed(texts, kind="document")
        assert np.array_equal(
            found, await asyncio.to_thread(embedder.embed, texts, kind="document")
        )
        assert embedder.dimension == WIDTH
        await embedder.aclose()
        fresh = OpenAIEmbedder("own", base_url=server.url)
        assert (await fresh.aembed([], kind="query")).shape == (0, WIDTH)
        await fresh.aclose()

    with serving(answer) as server:
        asyncio.run(main(server))


def test_each_loop_has_a_transport_of_its_own() -> None:
    made: list[httpx.AsyncBaseTransport] = []

    def transport() -> httpx.AsyncBaseTransport:
        made.append(httpx.MockTransport(lambda _: httpx.Response(200, content=WHOLE.whole)))
        return made[-1]

    async def main(llm: OpenAILLM) -> None:
        for _ in range(2):
            assert (await llm.agenerate(ASK, max_tokens=5)).text == "fine"
            assert llm.generate(ASK, max_tokens=5).text == "fine"
        await llm._client.disconnect()

    llm = OpenAILLM("m", base_url="http://localhost:1", connection=Connection(transport=transport))
    asyncio.run(main(llm))
    assert len(made) == 2
    asyncio.run(main(llm))
    assert len(made) == 3
    llm.close()


def test_a_transport_that_is_none_is_refused() -> None:
    whole: Any = httpx.MockTransport(lambda _: httpx.Response(200, content=WHOLE.whole))
    with pytest.raises(ValidationError, match="transport is a function"):
        Connection(transport=whole)
    blocking: Any = httpx.HTTPTransport
    llm = OpenAILLM("m", base_url="http://localhost:1", connection=Connection(transport=blocking))
    with pytest.raises(
        ValidationError, match=rf"made .*{httpx.__name__}.HTTPTransport.*{httpx.__name__}.AsyncHTTP"
    ):
        llm.generate(ASK, max_tokens=5)
    llm.close()


def test_a_stream_that_is_cut_fails_alone() -> None:
    """A server that ends the stream without its end fails the task that reads, and no other."""
    cut = Reply(body=PIECES.body, cut=40)

    async def read(llm: OpenAILLM) -> str:
        async with llm.astream(ASK, max_tokens=5) as pieces:
            return "".join([piece async for piece in pieces])

    async def main(server: ProviderServer) -> None:
        llm = llm_of(server, retries=Retries(attempts=1))
        first = asyncio.create_task(read(llm))
        await asyncio.to_thread(until, lambda: len(server.asked) == 1)
        second = await read(llm)
        assert second == "one two three"
        with pytest.raises(ProviderError, match="ended early"):
            await first
        await llm.aclose()

    with serving(in_turn(cut, PIECES)) as server:
        asyncio.run(main(server))
