"""The threads of a server: who waits for a call, and who does not."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from starlette.requests import Request
from starlette.types import Message

import triptych
from triptych import deadlines
from triptych.errors import CancelledError
from triptych.runtime import SEARCHES
from triptych_adapters.wire import OPERATIONS
from triptych_server.http import Limits
from triptych_server.http.server import Calls, Sender
from triptych_server.http.threads import Threads, short_name


@pytest.fixture
def threads() -> Iterator[Threads]:
    made = Threads(2, "test-threads", short=True)
    yield made
    made.close()


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


@in_a_loop
async def test_a_call_that_waits_for_the_loop_is_answered(threads: Threads) -> None:
    set_by_loop = threading.Event()
    asyncio.get_running_loop().call_soon(set_by_loop.set)

    assert await threads.call(set_by_loop.wait) is True


@in_a_loop
async def test_a_call_that_lasts_keeps_no_other_waiting(threads: Threads) -> None:
    end = threading.Event()
    lasts = asyncio.ensure_future(threads.call(end.wait))
    others = [await threads.call(lambda n=n: n) for n in range(20)]
    was_done = lasts.done()
    end.set()

    assert (others, was_done, await lasts) == (list(range(20)), False, True)


@in_a_loop
async def test_one_thread_makes_the_calls_that_come_alone(threads: Threads) -> None:
    alone = {await threads.call(threading.get_ident) for _ in range(20)}
    both = threading.Barrier(2)
    await asyncio.gather(threads.call(both.wait), threads.call(both.wait))
    alone |= {await threads.call(threading.get_ident) for _ in range(20)}

    assert len(alone) == 1


def computed() -> int:
    sum(range(20_000))
    return threading.get_ident()


async def made_by_the_loop(threads: Threads, name: str, call: Callable[[], int]) -> list[int]:
    """The threads that made the call, until the loop did: a busy machine makes one last."""
    made: list[int] = []
    while threading.get_ident() not in made and len(made) < 5_000:
        made.append(await threads.call(call, name=name))
    return made


@in_a_loop
async def test_the_loop_itself_makes_a_call_by_whose_name_the_last_one_was_short(
    threads: Threads,
) -> None:
    here = threading.get_ident()
    made = await made_by_the_loop(threads, "short", computed)
    others = [await threads.call(computed, name=name) for name in ("other", None)]

    assert len(made) > 1
    assert made[-1] == here
    assert here not in others


@in_a_loop
async def test_a_busy_machine_makes_no_call_with_a_name_one_that_waits(threads: Threads) -> None:
    def kept_from_the_processor() -> int:
        time.sleep(0.001)
        return threading.get_ident()

    made = await made_by_the_loop(threads, "short", kept_from_the_processor)

    assert made[-1] == threading.get_ident()


@in_a_loop
async def test_while_a_thread_works_the_loop_makes_no_call() -> None:
    beside = Threads(1, "test-beside")
    threads, end = Threads(2, "test-threads", short=True, beside=(beside,)), threading.Event()
    await made_by_the_loop(threads, "short", computed)
    for each in (beside, threads):
        end.clear()
        lasts = asyncio.ensure_future(each.call(end.wait))
        await asyncio.sleep(0)
        made = await threads.call(computed, name="short")
        end.set()
        await lasts
        assert made != threading.get_ident()
    for each in (beside, threads):
        each.close()


@in_a_loop
async def test_a_call_of_the_loop_that_would_wait_is_made_again_by_a_thread(
    threads: Threads,
) -> None:
    made: list[int] = []

    def searched() -> int:
        made.append(threading.get_ident())  # also where it is cut off
        with SEARCHES.taken():
            return computed()

    held, end = threading.Event(), threading.Event()

    def search() -> None:
        with SEARCHES.taken():
            held.set()
            end.wait()

    await made_by_the_loop(threads, "search", searched)
    made.clear()
    other = threading.Thread(target=search)
    other.start()
    held.wait()
    asyncio.get_running_loop().call_later(0.1, end.set)  # the loop goes on meanwhile
    answer = await threads.call(searched, name="search")
    other.join()

    assert made == [threading.get_ident(), answer]
    assert answer != threading.get_ident()


@in_a_loop
async def test_what_a_call_of_the_loop_raises_is_raised(threads: Threads) -> None:
    await made_by_the_loop(threads, "short", computed)
    with pytest.raises(ZeroDivisionError):
        await threads.call(lambda: 1 / 0, name="short")


@in_a_loop
async def test_what_a_call_raises_is_raised(threads: Threads) -> None:
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            await threads.call(lambda: 1 / 0)


@in_a_loop
async def test_a_call_of_a_cancelled_task_has_ended_before_the_task(threads: Threads) -> None:
    begun, end = threading.Event(), threading.Event()
    ended: list[bool] = []

    def lasts() -> None:
        begun.set()
        end.wait()
        ended.append(True)

    task = asyncio.ensure_future(threads.call(lasts, abandoned=end.set))
    while not begun.is_set():
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert ended == [True]


@in_a_loop
async def test_the_loop_looks_at_all_others_between_two_calls_that_it_waits_for(
    threads: Threads,
) -> None:
    ended: list[str] = []

    async def calls() -> None:
        for _ in range(100):
            await threads.call(lambda: sum(range(20_000)))
        ended.append("a hundred calls")

    async def others() -> None:
        for _ in range(10):
            await asyncio.sleep(0)
        ended.append("ten looks")

    await asyncio.gather(calls(), others())

    assert ended == ["ten looks", "a hundred calls"]


@in_a_loop
async def test_who_waits_for_a_turn_and_leaves_holds_up_nobody(threads: Threads) -> None:
    calls = [asyncio.ensure_future(threads.call(lambda n=n: n)) for n in range(20)]
    await asyncio.sleep(0)
    for each in calls[1::2]:
        each.cancel()
    found = await asyncio.gather(*calls, return_exceptions=True)

    assert found[::2] == list(range(0, 20, 2))


@in_a_loop
async def test_what_lets_go_of_an_answer_is_not_ended_by_the_limit_of_its_request() -> None:
    async def body() -> Message:
        return {"type": "http.request"}

    calls = Calls(Limits())
    scope = {
        "type": "http",
        "headers": [(b"prefer", b"wait=0")],
        "state": {"sender": Sender(Limits(), {})},
    }
    async with calls.caller(Request(scope, body)) as caller:
        with pytest.raises(CancelledError):
            await caller.run(deadlines.check)
        await caller.apart(deadlines.check)
    calls.close()


@pytest.mark.parametrize(
    ("more", "is_short"),
    [
        ({}, True),
        ({"top_k": 100, "threshold": 1.0, "layer": "L1"}, True),
        ({"mode": "hybrid"}, False),
        ({"mode": None}, False),
        ({"query": "tea " * 65}, False),
        ({"top_k": 101}, False),
        ({"offset": 1}, False),
        ({"where": {"lang": "en"}}, False),
        ({"as_of": 1}, False),
        ({"syntax": True}, False),
        ({"pipeline": "p"}, False),
    ],
)
def test_a_plain_short_search_by_keyword_has_a_name(more: dict[str, Any], is_short: bool) -> None:
    given = {"query": "tea", "dataset_id": "d", "mode": "bm25", **more}
    arguments = OPERATIONS["search"].read({k: v for k, v in given.items() if k != "pipeline"})
    arguments |= {"pipeline": "p"} if "pipeline" in more else {}
    with triptych.open("memory://", embedder="hash") as kb:
        assert (short_name("search", kb, arguments) is not None) == is_short
        assert short_name("search_documents", kb, arguments) is None


def test_without_a_model_each_search_is_by_keyword() -> None:
    with triptych.open("memory://", embedder="none") as kb:
        assert short_name("search", kb, {"query": "tea"}) is not None
        assert short_name("context", kb, {"query": "tea"}) is None


def test_a_search_in_another_process_has_no_name() -> None:
    with triptych.open("http://127.0.0.1:9") as remote:
        assert short_name("search", remote, {"query": "tea", "mode": "bm25"}) is None
