"""Where the time goes: ingest and hybrid search by stage, on the text of ``bench/peers.py``.

    python bench/stages.py --chunks 60000

Wraps the stages' functions with timers, and runs the lanes one after the other, so that what
is printed adds up. Before that it counts the functions in Python that a search enters. Timers
cost a little themselves: for totals use ``bench/peers.py``.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import triptych
from harness.corpus import SECTIONS, Given, ZipfText
from triptych_backends.index import bm25, local, vector_search as nearest

Clock = defaultdict[str, float]


def timed(clock: Clock, owner: Any, name: str, label: str) -> None:
    """Replace a function by one that adds its time to the clock."""
    function = getattr(owner, name, None)
    if function is None:
        print(f"not timed: {label}, since there is no {name}")
        return

    def call(*arguments: Any, **keywords: Any) -> Any:
        began = time.perf_counter()
        try:
            return function(*arguments, **keywords)
        finally:
            clock[label] += time.perf_counter() - began

    setattr(owner, name, call)


class InTurn:
    """A pool that runs what it is given at once."""

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(call(*arguments))
        return done

    def shutdown(self, wait: bool = True) -> None:
        pass


def python_calls(call: Callable[[], Any]) -> int:
    """How many functions written in Python a call enters, those of libraries among them."""
    count = 0

    def look(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return count


def show_calls(kb: Any, queries: list[str], mode: str) -> None:
    """Print the medians of the Python calls and of the processor time of searches."""
    calls, seconds = [], []
    for number, query in enumerate(queries):
        search = partial(kb.search, query, dataset_id="bench", mode=mode)
        if number % 2:
            calls.append(python_calls(search))
        else:
            began = time.process_time()
            search()
            seconds.append(time.process_time() - began)
    print(
        f"{mode} search: {statistics.median(calls):.0f} Python calls, "
        f"{statistics.median(seconds) * 1e3:.2f} ms of a processor"
    )


def show(title: str, clock: Clock, scale: float, unit: str) -> None:
    print(title)
    for label, seconds in sorted(clock.items(), key=lambda entry: -entry[1]):
        print(f"  {label:32} {seconds * scale:8.2f} {unit}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--chunks", type=int, default=60_000)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    text, given = ZipfText(), Given()
    documents = [
        triptych.NewDocument(name=name, content=content)
        for name, content in text.documents(options.chunks // SECTIONS)
    ]
    kb: Any = triptych.open(folder / "stages.db", embedder=given)

    clock: Clock = defaultdict(float)
    timed(clock, given, "embed", "drawing vectors")
    timed(clock, kb.documents, "put_many", "storing documents")
    timed(clock, kb._parts.deriver, "_draft", "chunking and digests")
    timed(clock, kb._parts.deriver, "_finish", "chunk records")
    timed(clock, kb.chunks, "replace_many", "storing chunks and vectors")
    began = time.perf_counter()
    kb.put_documents("bench", documents)
    clock["put_documents, whole"] = time.perf_counter() - began
    began = time.perf_counter()
    kb.search("x", dataset_id="bench", mode="bm25")
    clock["first search: the index"] = time.perf_counter() - began
    show("ingest", clock, 1e6 / options.chunks, "us a chunk")

    kb.close()  # which publishes the index
    kb = triptych.open(folder / "stages.db", embedder=given)
    queries = text.queries(200)
    for query in queries[:20]:
        kb.search(query, dataset_id="bench")
    for at, mode in enumerate(("bm25", "vector", "hybrid")):
        show_calls(kb, queries[at::3], mode)
    kb._parts.engine._workers = InTurn
    clock = defaultdict(float)
    timed(clock, nearest, "approximate", "vector lane: int8 scan")
    timed(clock, nearest, "_rescored", "vector lane: exact scores")
    timed(clock, local.LocalIndex, "vector", "vector lane, in the index")
    timed(clock, bm25, "top", "keyword lane: postings")
    timed(clock, local.LocalIndex, "bm25", "keyword lane, in the index")
    timed(clock, type(kb._parts.engine.ranker), "rank", "fusion")
    timed(clock, kb.chunks, "fetch", "reading the hits")
    timed(clock, type(kb.searches.resolver), "resolve", "resolving the query")
    timed(clock, type(kb.searches._hydrator), "hits", "hits, with reading them")
    timed(clock, kb, "search", "hybrid search, whole")
    for query in queries:
        kb.search(query, dataset_id="bench")
    show("hybrid search, lanes in turn", clock, 1e3 / len(queries), "ms a query")
    kb.close()
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
