"""The threads of a server: who waits for a call, and who does not."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from starlette.requests import Request
from starlette.types import Message

from triptych import deadlines
from triptych.errors import CancelledError
from triptych_adapters.http.limits import Limits
from triptych_adapters.http.server import Calls, Sender
from triptych_adapters.http.threads import Threads


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
