"""A knowledge base that is awaited: calls, cancellation, streams, models with async methods."""

from __future__ import annotations

import asyncio
import gc
import inspect
import random
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import triptych
from triptych.aio import AsyncService, BlockingLLM, ProgressStream, iterate
from triptych.aio.threads import THREADS, run
from triptych.errors import CancelledError, NotAvailableError, ProviderError, StoreError
from triptych.records import EmbedKind, Generation, Message, Usage
from triptych_testing.fakes import FakeEmbedder

DOCUMENTS = {f"{number:04}.md": f"text number {number}" for number in range(3000)}


@pytest.fixture
def service() -> Iterator[triptych.Service]:
    with triptych.open("memory://", embedder=FakeEmbedder()) as kb:
        yield kb


@pytest.mark.parametrize(
    ("facade", "of"),
    [
        (AsyncService, triptych.Service),
        (triptych.AsyncDataset, triptych.Dataset),
    ],
)
def test_every_call_has_its_coroutine(facade: Any, of: type) -> None:
    calls = {
        name for name, _ in inspect.getmembers(of, inspect.isfunction) if not name.startswith("_")
    }
    for name in calls - {"ask_stream", "dataset", "follow", "pipeline", "restricted"}:
        call = getattr(facade, name)
        assert inspect.iscoroutinefunction(call), name
        assert name == "close" or inspect.signature(call) == inspect.signature(getattr(of, name))
    assert not inspect.iscoroutinefunction(facade.ask_stream)


def test_each_method_has_the_documentation_of_the_services() -> None:
    words = "Search for chunks (L2), abstracts (L0) or overviews (L1)."
    for found in (triptych.Dataset, AsyncService, triptych.AsyncDataset, triptych.Service):
        assert words in inspect.getdoc(found.search)  # type: ignore[operator]
    assert "Store a document" in inspect.getdoc(triptych.AsyncDataset.put)  # type: ignore[operator]


async def test_a_dataset_is_put_searched_and_read(service: triptych.Service) -> None:
    kb = AsyncService(service)
    docs = kb.dataset("d")
    assert docs.dataset_id == "d"
    stored = await docs.put("a.md", "red fish", {"lang": "en"})
    assert stored.version == 1
    await kb.put_documents("d", {"b.md": "blue fish"})
    found = await asyncio.gather(*(docs.search("fish", top_k=5) for _ in range(20)))
    assert {len(result) for result in found} == {2}
    assert [info.name for info in await docs.list()] == ["a.md", "b.md"]
    assert (await kb.search("fish", scope="all", mode="bm25")).hits[0].dataset_id == "d"
    with pytest.raises(triptych.NotFoundError):
        await docs.get("nothing")


async def test_leaving_the_block_closes_the_service() -> None:
    async with await AsyncService.open("memory://", embedder="hash") as kb:
        await kb.put_document("d", "a", "text")
    with pytest.raises(StoreError):
        await kb.search("text", dataset_id="d")


class Held(FakeEmbedder):
    """Answers when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()
        self.let = threading.Event()

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        self.asked.set()
        assert self.let.wait(30)
        return super().embed(texts, kind=kind)


async def test_a_cancelled_call_has_ended_and_left_nothing_half_done() -> None:
    embedder = Held()
    with triptych.open("memory://", embedder=embedder) as service:
        kb = AsyncService(service)
        task = asyncio.ensure_future(kb.put_documents("d", DOCUMENTS))
        await asyncio.to_thread(embedder.asked.wait, 30)
        task.cancel()
        await asyncio.sleep(0.05)
        assert not task.done()  # the call is still running
        embedder.let.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        stored = [info.name for info in service.list_documents("d")]
        assert 0 < len(stored) < len(DOCUMENTS)
        await asyncio.sleep(0.05)
        assert [info.name for info in service.list_documents("d")] == stored
        assert [each.check for each in service.doctor().findings if each.check == "store"] == []
        await kb.put_documents("d", DOCUMENTS)
        await kb.rebuild(dataset_id="d")
        assert service.stats("d")[0].stale == 0


async def test_a_second_cancellation_does_not_wait() -> None:
    embedder = Held()
    with triptych.open("memory://", embedder=embedder) as service:
        task = asyncio.ensure_future(AsyncService(service).put_document("d", "a", "text"))
        await asyncio.to_thread(embedder.asked.wait, 30)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 10)
        embedder.let.set()


async def test_a_call_abandoned_by_a_second_cancellation_is_not_reported() -> None:
    embedder = Held()
    reported: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: reported.append(told))
    with triptych.open("memory://", embedder=embedder) as service:
        ended = threading.Event()

        def put() -> None:
            try:
                service.put_documents("d", DOCUMENTS)
            finally:
                ended.set()

        task = asyncio.ensure_future(run(put))
        await asyncio.to_thread(embedder.asked.wait, 30)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 10)
        embedder.let.set()
        assert await asyncio.to_thread(ended.wait, 30)
        await asyncio.sleep(0.05)
        del task
        gc.collect()
    assert reported == []


async def test_a_thousand_calls_at_once_stay_within_bounds(tmp_path: Path) -> None:
    texts = {
        f"{number:03}.md": f"# Fish {number}\n\nFish {number} swims.\n" for number in range(50)
    }
    chance = random.Random(1)
    with triptych.open(tmp_path / "kb.db", embedder="hash") as service:
        service.put_documents("d", texts)
        kb = AsyncService(service)
        before, most, waits = threading.active_count(), 0, True

        async def watch() -> None:
            nonlocal most
            while waits:
                most = max(most, threading.active_count() - before)
                await asyncio.sleep(0.005)

        def call(number: int) -> Awaitable[object]:
            if number % 4:
                return kb.search(f"fish {number % 50}", dataset_id="d", mode="bm25", top_k=3)
            return kb.put_document("d", f"new/{number}.md", f"# {number}\n\nOne.\n\n# B\n\nTwo.\n")

        watcher = asyncio.ensure_future(watch())
        tasks = [asyncio.ensure_future(call(number)) for number in range(1000)]
        left = chance.sample(range(1000), 400)
        for at, number in enumerate(left):
            if at % 8 == 0:
                await asyncio.sleep(0.001)
            tasks[number].cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        waits = False
        await watcher
        assert most <= THREADS + 4  # a search may run its lanes side by side
        for number, result in enumerate(done):
            if number not in left:
                assert not isinstance(result, BaseException), result
        stored = {info.name for info in service.list_documents("d", prefix="new/")}
        for number in range(0, 1000, 4):
            name = f"new/{number}.md"
            if name in stored:
                assert service.get_document("d", name).content.endswith("Two.\n")
            else:
                assert number in left
                assert isinstance(done[number], asyncio.CancelledError)
        report = service.doctor()
        assert [each for each in report.findings if each.check == "store"] == []
        assert service.stats("d")[0].stale == 0


async def test_a_call_that_waits_for_a_thread_is_let_go_at_once() -> None:
    embedder = Held()

    class Text(str):
        """One that can be referred to weakly."""

    with triptych.open("memory://", embedder=embedder) as service:
        kb = AsyncService(service)
        holding = [
            asyncio.ensure_future(kb.put_document("d", f"{number}", f"text {number}"))
            for number in range(THREADS)
        ]
        await asyncio.to_thread(embedder.asked.wait, 30)
        await asyncio.sleep(0.1)
        text = Text("text")
        kept = weakref.ref(text)
        waiting = asyncio.ensure_future(kb.put_document("d", "waiting", text))
        del text
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(waiting, 5)
        del waiting
        await asyncio.sleep(0)  # asyncio holds the task's error, and its frames, for one round
        gc.collect()
        assert kept() is None
        with triptych.deadline(0.05), pytest.raises(CancelledError, match="waiting for a thread"):
            await asyncio.wait_for(kb.put_document("d", "late", "text"), 5)
        embedder.let.set()
        await asyncio.gather(*holding)
        assert {info.name for info in service.list_documents("d")} == {
            f"{number}" for number in range(THREADS)
        }


async def test_a_model_on_the_loop_may_need_a_thread_itself() -> None:
    class Looking(Awaited):
        async def aembed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
            await asyncio.get_running_loop().getaddrinfo("127.0.0.1", 80)
            return await super().aembed(texts, kind=kind)

    async with await AsyncService.open("memory://", embedder=Looking(), llm=None) as kb:
        puts = [kb.put_document("d", f"{number}", f"text {number}") for number in range(100)]
        await asyncio.wait_for(asyncio.gather(*puts), 60)
        assert await kb.count_documents("d") == 100


async def test_a_model_on_the_loop_is_cancelled_with_its_call() -> None:
    class Endless(Awaited):
        def __init__(self) -> None:
            super().__init__()
            self.asked = asyncio.Event()
            self.cancelled = asyncio.Event()

        async def aembed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
            self.asked.set()
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            raise AssertionError

    model = Endless()
    async with await AsyncService.open("memory://", embedder=model, llm=None) as kb:
        task = asyncio.ensure_future(kb.put_document("d", "a", "text"))
        await model.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 30)
        await asyncio.wait_for(model.cancelled.wait(), 30)


async def test_the_progress_of_a_call_is_a_stream(service: triptych.Service) -> None:
    kb = AsyncService(service)
    stream = ProgressStream(lambda each: kb.put_documents("d", DOCUMENTS, progress=each))
    with pytest.raises(NotAvailableError, match="no result yet"):
        _ = stream.result
    seen = [progress.done async for progress in stream if progress.phase == "documents"]
    assert seen[-1] == 3000
    assert stream.result.added == 3000


async def test_a_stream_that_is_left_ends_its_call(service: triptych.Service) -> None:
    kb = AsyncService(service)
    stream = ProgressStream(lambda each: kb.put_documents("d", DOCUMENTS, progress=each))
    progress = aiter(stream)
    await anext(progress)
    await progress.aclose()  # type: ignore[attr-defined]  # an async generator
    count = len(service.list_documents("d"))
    await asyncio.sleep(0.05)
    assert len(service.list_documents("d")) == count


async def test_a_call_that_fails_fails_its_stream(service: triptych.Service) -> None:
    kb = AsyncService(service)
    stream = ProgressStream(lambda each: kb.rebuild(dataset_id="nowhere", progress=each))
    with pytest.raises(triptych.NotFoundError):
        _ = [progress async for progress in stream]


async def test_an_iterator_is_followed_and_closed() -> None:
    closed = threading.Event()

    def pieces() -> Iterator[str]:
        try:
            yield from ("one", "two", "three")
        finally:
            closed.set()

    assert [piece async for piece in iterate(pieces)] == ["one", "two", "three"]
    closed.clear()
    some = iterate(pieces)
    assert await anext(some) == "one"
    await some.aclose()  # type: ignore[attr-defined]  # an async generator
    assert closed.is_set()


class Awaited:
    """An embedder and a language model with async methods."""

    signature = "awaited/1"
    dimension: int | None = FakeEmbedder().dimension

    def __init__(self) -> None:
        self.threads: set[str] = set()

    async def aembed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        await asyncio.sleep(0)
        self.threads.add(threading.current_thread().name)
        if "FAIL" in texts:
            raise ProviderError("it failed")
        return FakeEmbedder().embed(texts, kind=kind)

    async def agenerate(self, messages: Sequence[Message], *, max_tokens: int) -> Generation:
        await asyncio.sleep(0)
        return Generation(text=f"{len(messages)} of {max_tokens}", usage=Usage())

    async def astream(self, messages: Sequence[Message], *, max_tokens: int) -> AsyncIterator[str]:
        for piece in ("a", "b"):
            await asyncio.sleep(0)
            yield piece


async def test_models_with_async_methods_run_on_the_loop() -> None:
    model = Awaited()
    async with await AsyncService.open("memory://", embedder=model, llm=model) as kb:
        await kb.put_document("d", "a.md", "red fish")
        assert len(await kb.search("red fish", dataset_id="d", mode="vector")) == 1
        assert model.threads == {threading.current_thread().name}
        warned = await kb.search("FAIL", dataset_id="d")
        assert "it failed" in warned.warnings[0]
        with pytest.raises(NotAvailableError, match="would block itself"):
            kb.service.search("red fish", dataset_id="d", mode="vector")
        llm = kb.service.llm
        assert isinstance(llm, BlockingLLM)
        messages = [Message(role="user", content="hello")]
        answer = await asyncio.to_thread(llm.generate, messages, max_tokens=5)
        assert (answer.text, llm.signature) == ("1 of 5", "awaited/1")
        made = iterate(lambda: llm.stream(messages, max_tokens=5))
        assert [piece async for piece in made] == ["a", "b"]
