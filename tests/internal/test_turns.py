"""Turns: how many threads compute at a time, who comes next, and what ends a wait."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

import triptych
from triptych import NewDocument
from triptych._internal.turns import Turns, WouldWaitError
from triptych.errors import CancelledError
from triptych.records import Candidate, ResolvedQuery
from triptych.runtime import SEARCHES


class _Holder:
    """A thread that takes a turn, and keeps it until `end` is called."""

    def __init__(self, turns: Turns) -> None:
        self.has_begun = threading.Event()
        self.may_end = threading.Event()
        self._thread = threading.Thread(target=self._hold, args=(turns,))
        self._thread.start()

    def _hold(self, turns: Turns) -> None:
        with turns.taken():
            self.has_begun.set()
            assert self.may_end.wait(20)

    def end(self) -> None:
        self.may_end.set()
        self._thread.join(20)


def _until(is_true: Callable[[], object]) -> None:
    waiting = threading.Event()
    for _ in range(2000):
        if is_true():
            return
        waiting.wait(0.005)
    raise AssertionError("it never came true")


@pytest.mark.parametrize("count", [1, 2, 3])
def test_so_many_threads_are_in_their_turn_and_no_more(count: int) -> None:
    turns, lock = Turns(count, patience=0.001), threading.Lock()
    now, most = [0], [0]

    def compute() -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0)
        with lock:
            now[0] -= 1

    def work() -> None:
        for _ in range(50):
            with turns.taken(), turns.taken():  # a turn within a turn is the same
                compute()
                with turns.given_up(), turns.given_up():
                    pass
                compute()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert most[0] <= count
    holders = [_Holder(turns) for _ in range(count)]  # all are there again
    for each in holders:
        assert each.has_begun.wait(20)
    for each in holders:
        each.end()


def _turn(turns: Turns) -> bool:
    with turns.taken():
        return True


def test_who_waits_for_long_comes_in_order() -> None:
    turns, came = Turns(1, patience=0.001), []
    holder = _Holder(turns)
    assert holder.has_begun.wait(20)

    def work(name: int) -> None:
        with turns.taken():
            came.append(name)

    threads = []
    for name in range(4):
        threads.append(threading.Thread(target=work, args=(name,)))
        threads[-1].start()
        _until(lambda: len(turns._waiting) == len(threads))
    holder.end()
    for each in threads:
        each.join(20)
    assert came == [0, 1, 2, 3]


def test_a_turn_that_is_given_up_is_another_threads() -> None:
    turns = Turns(1, patience=0.001)
    with turns.taken():
        with ThreadPoolExecutor(1) as pool:
            late = pool.submit(_turn, turns)
            _until(lambda: turns._waiting)
            with turns.given_up():
                assert late.result(20)
        # And taken again: it is nobody else's now.
        assert not turns._free.acquire(blocking=False)


@pytest.mark.parametrize("is_given_up", [False, True])
def test_a_deadline_ends_the_wait_and_nothing_is_lost(is_given_up: bool) -> None:
    turns = Turns(1, patience=0.001)

    def search() -> None:
        with triptych.deadline(0.01), turns.taken():
            raise AssertionError("there was no turn to have")

    def wait() -> None:
        with triptych.deadline(0.01), turns.taken(), turns.given_up():
            holders.append(_Holder(turns))
            assert holders[0].has_begun.wait(20)

    holders = [] if is_given_up else [_Holder(turns)]
    if holders:
        assert holders[0].has_begun.wait(20)
    with pytest.raises(CancelledError, match="the deadline passed during the wait"):
        (wait if is_given_up else search)()
    holders[0].end()
    assert not turns._waiting
    assert turns._free.acquire(blocking=False)
    assert not turns._free.acquire(blocking=False)


def test_who_waits_for_too_long_goes_on_without() -> None:
    turns = Turns(1, patience=0.001, longest=0.0)
    holder = _Holder(turns)
    assert holder.has_begun.wait(20)
    with turns.taken():
        pass
    assert not turns._waiting
    assert not turns._free.acquire(blocking=False)  # it is the holder's still
    holder.end()
    assert turns._free.acquire(blocking=False)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_has_turns_of_its_own() -> None:
    holder = _Holder(SEARCHES)
    assert holder.has_begun.wait(20)
    child = os.fork()
    if child == 0:
        with SEARCHES.taken():
            os._exit(7)
    holder.end()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


class _Slow:
    """An embedder that waits until ``may_answer`` is set."""

    signature, dimension = "slow-1", 2

    def __init__(self) -> None:
        self.is_asked, self.may_answer = threading.Event(), threading.Event()
        self.may_answer.set()

    def embed(self, texts: list[str], *, kind: str) -> list[list[float]]:
        self.is_asked.set()
        assert self.may_answer.wait(20)
        return [[1.0, 0.0]] * len(texts)


@pytest.mark.parametrize("mode", ["hybrid", "vector"])
@pytest.mark.parametrize("url", ["memory://", "sqlite"])
def test_a_search_that_waits_for_its_model_lets_others_search(
    url: str, mode: str, tmp_path: object
) -> None:
    embedder = _Slow()
    place = f"{tmp_path}/kb.db" if url == "sqlite" else url
    with triptych.open(place, embedder=embedder) as kb, ThreadPoolExecutor(2) as pool:
        kb.put_documents("d", [NewDocument(name="a.md", content="a word of many")])
        kb.search("word", dataset_id="d", mode=mode)
        embedder.is_asked.clear()
        embedder.may_answer.clear()
        slow: Future[object] = pool.submit(kb.search, "another", dataset_id="d", mode=mode)
        assert embedder.is_asked.wait(20)
        with triptych.deadline(5):
            assert kb.search("word", dataset_id="d", mode="bm25").hits
        assert not slow.done()
        embedder.may_answer.set()
        slow.result(20)


def _queue(turns: Turns, came: list[str], name: str) -> threading.Thread:
    """A thread that waits for its turn by now, and notes when it has it."""

    def work() -> None:
        with turns.taken():
            came.append(name)

    before = len(turns._waiting)
    thread = threading.Thread(target=work)
    thread.start()
    _until(lambda: len(turns._waiting) > before)
    return thread


def test_what_lasts_lets_those_who_wait_come_first_between_its_parts() -> None:
    turns, came = Turns(1, patience=0.001), []
    with turns.taken():
        turns.pass_on("the test")  # nobody waits
        threads = [_queue(turns, came, name) for name in "ab"]
        time.sleep(0.002)  # a turn has lasted for a while
        turns.pass_on("the test")
        came.append("the rest")
    for each in threads:
        each.join(20)
    assert came == ["a", "b", "the rest"]
    assert turns._free.acquire(blocking=False)


def test_who_passed_its_turn_on_comes_after_four_others_at_most() -> None:
    turns, came = Turns(1, patience=0.001), []
    with turns.taken():
        threads = [_queue(turns, came, name) for name in "abcdefg"]
        time.sleep(0.002)
        turns.pass_on("the test")
        came.append("the rest")
    for each in threads:
        each.join(20)
    assert came.index("the rest") in (3, 4)
    assert sorted(came) == ["a", "b", "c", "d", "e", "f", "g", "the rest"]


def test_a_deadline_ends_what_passes_its_turn_on_and_nothing_is_lost() -> None:
    turns = Turns(1, patience=0.001)
    with pytest.raises(CancelledError), triptych.deadline(0), turns.taken():
        turns.pass_on("the test")
    assert turns._free.acquire(blocking=False)
    turns._free.release()
    holders: list[_Holder] = []

    def pass_on() -> None:
        with triptych.deadline(0.3), turns.taken():
            holder = threading.Thread(target=lambda: holders.append(_Holder(turns)))
            holder.start()
            _until(lambda: turns._waiting)
            turns.pass_on("the test")

    with pytest.raises(CancelledError):
        pass_on()
    holders[0].end()
    assert not turns._late
    assert turns._free.acquire(blocking=False)


class _Noting:
    """A lane that notes what it is asked; at the first question another search comes to wait."""

    name, in_process = "noting", True

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.asked: list[str] = []
        self.kb: Any = None
        self._pool = pool

    def recall(self, query: ResolvedQuery) -> list[Candidate]:
        self.asked.append(query.text)
        if len(self.asked) == 1:
            self._pool.submit(self.kb.search, "neighbour", dataset_id="d", mode="noting")
            _until(lambda: SEARCHES._waiting)
            time.sleep(0.03)  # a turn has lasted for a while
        return []


@pytest.mark.parametrize("url", ["memory://", "sqlite"])
def test_a_batch_lets_another_search_come_between_its_queries(url: str, tmp_path: object) -> None:
    place = f"{tmp_path}/kb.db" if url == "sqlite" else url
    with ThreadPoolExecutor(1) as pool:
        lane = _Noting(pool)
        with triptych.open(place, embedder="none", retrievers=[lane]) as kb:
            lane.kb = kb
            kb.put_document("d", "a.md", "a word of many")
            kb.search_many([f"query {at}" for at in range(12)], dataset_id="d", mode="noting")
            pool.shutdown(wait=True)
    # On a slow machine the neighbour passes its turn on, too: it comes at most as late as that.
    assert 0 < lane.asked.index("neighbour") < 12


def test_the_filter_lets_another_search_come_between_documents(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: list[str] = []
    monkeypatch.setattr(Turns, "pass_on", lambda self, doing: passed.append(doing))
    with triptych.open(f"{tmp_path}/kb.db", embedder="none") as kb:
        kb.put_documents(
            "d",
            [NewDocument(name=f"{at}", content="a word", metadata={"a": "x"}) for at in range(200)],
        )

        def looks(conditions: int) -> int:
            passed.clear()
            where = {"$or": [{"a": {"$contains": f"no {at}"}} for at in range(conditions)]}
            kb.search("word", dataset_id="d", where=where)
            return passed.count("the filter")

        assert looks(400) > looks(1) + 10
        passed.clear()
        kb.search("word", dataset_id="d", top_k=200)
        assert passed.count("reading what was found") == 2


def test_who_is_hurried_waits_for_nothing() -> None:
    turns, held, end = Turns(1), threading.Event(), threading.Event()

    def hold() -> None:
        with turns.taken():
            held.set()
            end.wait()

    with turns.hurried(60), turns.taken():
        turns.pass_on("the test")
        with pytest.raises(WouldWaitError), turns.given_up():
            raise AssertionError("it was given up")
    with turns.hurried(0), pytest.raises(WouldWaitError):
        turns.pass_on("the test")
    other = threading.Thread(target=hold)
    other.start()
    held.wait()
    with turns.hurried(60), pytest.raises(WouldWaitError), turns.taken():
        raise AssertionError("there were two turns")
    end.set()
    other.join()
    with turns.taken(), turns.given_up():
        pass
