"""Calls that block, and what goes on around them: forks, the end of a process, Ctrl-C, loops."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

import triptych
from support.http_library import httpx
from support.provider_server import Reply, as_json, events, in_turn, serving
from support.sync_folder import until
from triptych import Message
from triptych.errors import CancelledError
from triptych_providers import Connection, OpenAILLM

ASK = [Message(role="user", content="?")]
WHOLE = as_json({"choices": [{"message": {"content": "fine"}, "finish_reason": "stop"}]})
PIECES = events(
    *({"choices": [{"delta": {"content": text}}]} for text in ("one ", "two ")),
    {"choices": [{"delta": {"content": "three"}, "finish_reason": "stop"}]},
)
BEGIN = """
import gc, os, signal, socket, sys, threading, time
from triptych import Message
from triptych.errors import TriptychError
from triptych_providers import Connection, OpenAILLM, Timeouts
ASK = [Message(role="user", content="?")]
llm = OpenAILLM("m", base_url=sys.argv[1])
"""


def started(script: str, url: str) -> subprocess.Popen[str]:
    code = BEGIN + textwrap.dedent(script)
    # From 3.12 on Python warns of every fork beside threads, which is what is tried here.
    warned = ["-W", "error::ResourceWarning", "-W", "ignore::DeprecationWarning:__main__"]
    return subprocess.Popen(
        [sys.executable, *warned, "-c", code, url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent,
    )


def told(script: str, url: str = "http://127.0.0.1:9") -> str:
    """What ``script`` prints; it says nothing on standard error, and ends well and soon."""
    process = started(script, url)
    try:
        said, failed = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (failed, process.returncode) == ("", 0)
    return said


@pytest.mark.process
def test_a_forked_child_asks_over_connections_of_its_own() -> None:
    script = """
        stream = llm.stream(ASK, max_tokens=5)
        next(stream)  # a connection is in use while the child is made
        asked = [threading.Thread(target=llm.generate, args=(ASK,), kwargs={"max_tokens": 5})]
        for child in range(3):
            if not os.fork():
                if child:
                    stream.close() if child == 1 else None
                    del stream
                    gc.collect()
                assert llm.generate(ASK, max_tokens=5).text == "fine"
                llm.close()
                sys.exit()
            os.wait()
        assert "".join(stream) == "two three"
        assert llm.generate(ASK, max_tokens=5).text == "fine"
        llm.close()
        print("done")
    """
    with serving(in_turn(PIECES, WHOLE)) as server:
        assert told(script, server.url) == "done\n"
        assert len(server.asked) == 5


@pytest.mark.process
def test_a_fork_in_the_middle_of_calls_leaves_a_child_that_can_ask() -> None:
    script = """
        def ask():
            while not over:
                assert llm.generate(ASK, max_tokens=5).text == "fine"
        over, ended = [], []
        threads = [threading.Thread(target=ask, daemon=True) for _ in range(8)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            if not os.fork():
                signal.alarm(20)
                assert llm.generate(ASK, max_tokens=5).text == "fine"
                os._exit(0)
            ended.append(os.wait()[1])
        assert not any(ended), ended
        over.append(True)
        for thread in threads:
            thread.join()
        llm.close()
        print("done")
    """
    with serving(in_turn(WHOLE)) as server:
        assert told(script, server.url) == "done\n"


@pytest.mark.process
def test_lookups_that_hang_hold_up_neither_another_call_nor_the_end_of_the_process() -> None:
    script = """
        found = socket.getaddrinfo
        def look_up(host, *rest, **named):
            if "example" in str(host):
                time.sleep(50)
            return found(host, *rest, **named)
        socket.getaddrinfo = look_up
        hanging = [
            OpenAILLM("m", base_url="http://llm.example", connection=Connection(
                timeouts=Timeouts(call=0.5))) for _ in range(60)
        ]
        threads = []
        for each in hanging:
            def ask(each=each):
                try:
                    each.generate(ASK, max_tokens=5)
                except TriptychError as error:
                    assert "within 0.5 seconds" in str(error), error
            threads.append(threading.Thread(target=ask))
            threads[-1].start()
        assert llm.generate(ASK, max_tokens=5).text == "fine"
        for thread in threads:
            thread.join()
        print("done")
    """
    with serving(in_turn(WHOLE)) as server:
        began = time.monotonic()
        assert told(script, server.url) == "done\n"
        assert time.monotonic() - began < 30


@pytest.mark.process
def test_a_process_ends_with_models_open_and_calls_under_way(tmp_path: Path) -> None:
    script = """
        stream = llm.stream(ASK, max_tokens=5)
        next(stream)
        def ask():
            llm.generate(ASK, max_tokens=5)
        threading.Thread(target=ask, daemon=True).start()
        print("done", flush=True)
    """
    held = threading.Event()
    try:
        with serving(in_turn(PIECES, Reply(hold=held))) as server:
            process = started(script, server.url)
            said, _ = process.communicate(timeout=15)
            assert (said, process.returncode) == ("done\n", 0)
    finally:
        held.set()


@pytest.mark.process
def test_an_interrupt_ends_a_call_that_blocks() -> None:
    script = """
        try:
            llm.generate(ASK, max_tokens=5)
        except KeyboardInterrupt:
            print("interrupted")
        assert llm.generate(ASK, max_tokens=5).text == "fine"
        llm.close()
    """
    held = threading.Event()
    try:
        with serving(in_turn(Reply(hold=held), WHOLE)) as server:
            process = started(script, server.url)
            until(lambda: server.under_way)
            os.kill(process.pid, signal.SIGINT)
            said, failed = process.communicate(timeout=15)
            assert (said, failed, process.returncode) == ("interrupted\n", "", 0)
    finally:
        held.set()


@pytest.mark.process
def test_a_model_can_be_asked_and_closed_while_the_process_ends() -> None:
    script = """
        import atexit
        def last():
            assert llm.generate(ASK, max_tokens=5).text == "fine"
            llm.close()
            print("done")
        llm.generate(ASK, max_tokens=5)
        atexit.register(last)
    """
    with serving(in_turn(WHOLE)) as server:
        assert told(script, server.url) == "done\n"


def test_calls_that_block_work_inside_a_running_loop() -> None:
    async def main(url: str) -> None:
        llm = OpenAILLM("m", base_url=url)
        assert llm.generate(ASK, max_tokens=5).text == "fine"
        assert (await llm.agenerate(ASK, max_tokens=5)).text == "fine"
        assert list(llm.stream(ASK, max_tokens=5)) == ["one ", "two ", "three"]
        await llm.aclose()

    with serving(in_turn(WHOLE, WHOLE, PIECES)) as server:
        asyncio.run(main(server.url))


def test_a_stream_that_is_dropped_gives_its_place_back() -> None:
    with serving(in_turn(PIECES)) as server:
        llm = OpenAILLM("m", base_url=server.url, connection=Connection(concurrency=1))
        for _ in range(3):
            stream = llm.stream(ASK, max_tokens=5)
            assert next(stream) == "one "
            cycle: list[object] = [stream]
            cycle.append(cycle)
            del stream, cycle
            gc.collect()
        assert list(llm.stream(ASK, max_tokens=5)) == ["one ", "two ", "three"]
        llm.close()


def test_closing_a_model_ends_the_calls_of_other_threads() -> None:
    held = threading.Event()
    failed: list[Exception] = []

    def ask() -> None:
        try:
            llm.generate(ASK, max_tokens=5)
        except Exception as error:  # noqa: BLE001 - looked at below
            failed.append(error)

    try:
        with serving(in_turn(Reply(hold=held))) as server:
            llm = OpenAILLM("m", base_url=server.url)
            asking = threading.Thread(target=ask)
            asking.start()
            until(lambda: server.under_way)
            llm.close()
            asking.join(15)
            assert [type(error).__name__ for error in failed] == ["ProviderError"]
            assert "closed" in str(failed[0])
    finally:
        held.set()


def test_a_scope_that_is_cancelled_ends_a_wait_for_an_answer() -> None:
    held = threading.Event()

    def cancel() -> None:
        until(lambda: server.under_way)
        scope.cancel()

    try:
        with (
            serving(in_turn(Reply(hold=held))) as server,
            triptych.deadline() as scope,
        ):
            llm = OpenAILLM("m", base_url=server.url)
            helper = threading.Thread(target=cancel)
            helper.start()
            with pytest.raises(CancelledError, match="was cancelled"):
                llm.generate(ASK, max_tokens=5)
            helper.join()
            assert server.under_way == 1
            llm.close()
    finally:
        held.set()


def test_a_call_that_blocks_refuses_to_wait_for_the_loop_that_it_holds_up() -> None:
    inner = OpenAILLM("m", base_url="http://127.0.0.1:9")

    def answer(_: httpx.Request) -> httpx.Response:
        inner.generate(ASK, max_tokens=5)
        return httpx.Response(200)

    llm = OpenAILLM(
        "m",
        base_url="http://127.0.0.1:9",
        connection=Connection(transport=lambda: httpx.MockTransport(answer)),
    )
    with pytest.raises(RuntimeError, match="would wait for itself"):
        llm.generate(ASK, max_tokens=5)
    llm.close()
