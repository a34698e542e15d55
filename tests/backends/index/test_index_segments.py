"""How many segments and files an index has: few after a bulk write, and none that nobody needs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from support.index_model import MemoryChangeLog, WordAnalyzer, assert_ranked_as, bm25_scores
from triptych_backends.index import LocalIndex, compact


@pytest.fixture
def feed() -> MemoryChangeLog:
    return MemoryChangeLog()


@pytest.fixture
def bulk(feed: MemoryChangeLog, tmp_path: Path) -> Iterator[LocalIndex]:
    """The index as the helper process has it."""
    with LocalIndex(feed, tmp_path, analyzers=WordAnalyzer, keeps_words=True) as index:
        yield index


@pytest.fixture
def index(feed: MemoryChangeLog, tmp_path: Path) -> Iterator[LocalIndex]:
    with LocalIndex(feed, tmp_path, analyzers=WordAnalyzer) as index:
        yield index


def put(feed: MemoryChangeLog, first: int, last: int) -> None:
    for owner in range(first, last):
        words = f"a{owner % 7} b{owner % 5} {'a' * (owner % 3)} b"
        row = np.random.default_rng(owner).standard_normal(8).astype(np.float32)
        feed.put("x", owner, f"n{owner}", [words], vectors=[row / np.linalg.norm(row)])


def in_parts(index: LocalIndex, feed: MemoryChangeLog, *parts: int) -> None:
    """Write units, and publish them in parts of so many, as the helper does."""
    start = 0
    for size in parts:
        put(feed, start, start + size)
        assert index.publish("x", "little")
        start += size
    assert sizes(index) == sorted(parts)


def sizes(index: LocalIndex) -> list[int]:
    return sorted(len(view.segment) for view in index.views("x", "chunk"))


def assert_right(index: LocalIndex, feed: MemoryChangeLog) -> None:
    corpora = {"x": feed.live("x")}
    expected = bm25_scores(corpora, "a b a1 b3", WordAnalyzer())
    found = index.bm25(["x"], "chunk", "a b a1 b3", limit=400).rows
    assert_ranked_as(found, expected, corpora, 400)


def files(folder: Path, suffix: str) -> set[str]:
    return {path.name for path in folder.rglob(f"*{suffix}")}


def named(folder: Path) -> set[str]:
    """The files that the manifest names."""
    (manifest,) = folder.rglob("manifest")
    fields = json.loads(manifest.read_bytes().partition(b"\n")[2])["fields"]
    return {file for listed in fields.values() for file in listed}


def wait_until(what: str, is_true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def test_a_part_and_the_rest_become_one_segment(bulk, index, feed):
    in_parts(bulk, feed, 65)
    put(feed, 65, 100)
    assert_right(index, feed)
    assert index.publish("x")
    assert sizes(index) == [100]
    assert_right(index, feed)
    stamp = index.folder("x").stamp()
    index.publish("x")
    assert index.folder("x").stamp() == stamp


@pytest.mark.parametrize("parts", [(52, 6, 6, 6, 6, 6, 6), (65, 65, 65, 65), (30, 20)])
def test_what_was_published_in_parts_is_merged(bulk, feed, monkeypatch, parts):
    monkeypatch.setattr(compact, "ONE_SEGMENT", 0)
    in_parts(bulk, feed, *parts)
    assert bulk.publish("x", "all")
    assert sizes(bulk) == [sum(parts)]
    assert_right(bulk, feed)


def test_what_is_much_larger_is_not_written_again(bulk, feed, monkeypatch):
    monkeypatch.setattr(compact, "ONE_SEGMENT", 0)
    in_parts(bulk, feed, 400, 30, 20, 30)
    large = next(v.segment.file for v in bulk.views("x", "chunk") if len(v.segment) == 400)
    assert bulk.publish("x", "all")
    assert sizes(bulk) == [80, 400]
    assert large in {view.segment.file for view in bulk.views("x", "chunk")}
    assert_right(bulk, feed)
    stamp = bulk.folder("x").stamp()
    bulk.publish("x", "all")
    assert bulk.folder("x").stamp() == stamp


def test_no_more_than_some_segments_too_many(index, feed, monkeypatch):
    monkeypatch.setattr(compact, "ONE_SEGMENT", 0)
    for start in range(0, 120, 6):
        put(feed, start, start + 6)
        index.publish("x")
        assert len(sizes(index)) <= 1 + compact.SPARE
        assert_right(index, feed)


@pytest.mark.parametrize("rest", [0, 3])
def test_a_process_that_finds_many_segments_merges_them(
    bulk, index, feed, tmp_path, monkeypatch, caplog, rest
):
    monkeypatch.setattr(compact, "ONE_SEGMENT", 0)
    in_parts(bulk, feed, 10, 10, 10, 10, 10)
    bulk.close(publish=False)
    put(feed, 50, 50 + rest)
    assert_right(index, feed)
    wait_until("the segments are merged", lambda: sizes(index) == [50 + rest])
    assert_right(index, feed)
    wait_until("they are published", lambda: len(named(tmp_path)) == 1)
    assert caplog.records == []


def test_a_process_that_closes_merges_them_though_little_is_new(
    bulk, index, feed, tmp_path, monkeypatch
):
    monkeypatch.setattr(compact, "ONE_SEGMENT", 0)
    in_parts(bulk, feed, 10, 10, 10, 10, 10)
    put(feed, 50, 53)
    bulk.views("x", "chunk")
    bulk.close()
    assert sizes(index) == [53]
    assert len(named(tmp_path)) == 1


def test_replaced_files_are_removed_and_late_readers_find_the_new(bulk, index, feed, tmp_path):
    in_parts(bulk, feed, 30, 20)
    assert_right(index, feed)
    assert bulk.publish("x", "all")
    assert len(files(tmp_path, ".segment")) == 3
    bulk.sweep("x")
    assert files(tmp_path, ".segment") == named(tmp_path)
    # It has the old files open, and publishes over what took their place.
    assert_right(index, feed)
    put(feed, 50, 60)
    assert index.publish("x")
    assert_right(index, feed)
    assert_right(bulk, feed)
    assert sizes(index) == sizes(bulk) == [60]


def test_sweeping_without_a_manifest_removes_nothing(bulk, feed, tmp_path, caplog):
    in_parts(bulk, feed, 10)
    (manifest,) = tmp_path.rglob("manifest")
    manifest.write_bytes(b"not this")
    kept = files(tmp_path, ".segment")
    bulk.sweep("x")
    assert files(tmp_path, ".segment") == kept


def test_the_dead_have_a_file_where_there_are_any(index, feed, tmp_path, monkeypatch):
    monkeypatch.setattr(compact, "ONE_SEGMENT", 0)
    put(feed, 0, 20)
    assert index.publish("x")
    assert files(tmp_path, ".arrays") == set()
    feed.delete("x", 3)
    assert index.publish("x")
    assert len(files(tmp_path, ".arrays")) == 1
    assert_right(index, feed)
    with LocalIndex(feed, tmp_path, analyzers=WordAnalyzer) as other:
        feed.calls.clear()
        assert_right(other, feed)
        assert feed.calls["units"] == 0
