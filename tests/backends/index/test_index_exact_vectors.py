"""Exact vectors in the index's files: the scores of the truth, and never those of a damaged row."""

from __future__ import annotations

import logging
import shutil
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from support.examples import examples
from support.index_model import MemoryChangeLog, WordAnalyzer
from triptych_backends.index import LocalIndex, compact, examine_index, kernels
from triptych_backends.index.segment import Segment

WIDTH = 7
QUERY = (np.arange(1, WIDTH + 1) / 9).astype(np.float32)


def put(
    feed: MemoryChangeLog, owner: int, seed: int, *, width: int = WIDTH, count: int = 3
) -> None:
    rows = np.random.default_rng(seed).normal(size=(count, width)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    feed.put("x", owner, f"doc {owner}", ["a b"] * count, vectors=list(rows))


@pytest.fixture
def feed() -> MemoryChangeLog:
    feed = MemoryChangeLog()
    for owner in range(1, 13):
        put(feed, owner, owner)
    return feed


def opened(feed: MemoryChangeLog, folder: Path | None) -> LocalIndex:
    return LocalIndex(feed, folder, analyzers=WordAnalyzer)


def found(index: LocalIndex) -> list[object]:
    return [list(index.vector(["x"], "chunk", QUERY, limit=limit)) for limit in (1, 5, 100)] + [
        list(index.document_vector(["x"], QUERY, limit=4))
    ]


def wanted(feed: MemoryChangeLog, limit: int) -> list[tuple[float, str, int]]:
    """The best by products in float64 of all stored vectors."""
    units = feed.live("x")
    rows = np.array([unit.vector for unit in units], np.float64).reshape(-1, WIDTH)
    scores = np.einsum("ij,j->i", rows, QUERY.astype(np.float64)).round(6).tolist()
    ranked = sorted(
        (-score, unit.name, unit.index) for score, unit in zip(scores, units, strict=True)
    )
    return [(-score, name, index) for score, name, index in ranked[:limit]]


def segments(index: LocalIndex) -> list[Segment]:
    return [view.segment for view in index.views("x", "chunk")]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(1, 9), st.integers(0, 99)),
        st.tuples(st.just("delete"), st.integers(1, 9), st.just(0)),
        st.tuples(st.sampled_from(["little", "usual", "all", "reopen"]), st.just(0), st.just(0)),
    ),
    max_size=24,
)


@pytest.mark.property
@settings(deadline=None, max_examples=examples(200))
@given(steps=steps)
def test_scores_are_those_of_the_truth_whatever_became_of_the_segments(steps):
    feed = MemoryChangeLog()
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as place:
        patch.setattr(compact, "ONE_SEGMENT", 0)
        patch.setattr(compact, "FAN_IN", 2)
        folder, memory = Path(place), opened(feed, None)
        index = opened(feed, folder)
        for step, owner, seed in steps:
            if step == "put":
                put(feed, owner, seed)
            elif step == "delete":
                feed.delete("x", owner)
            elif step == "reopen":
                index.close()
                index = opened(feed, folder)
            else:
                index.publish("x", step)
            answer = found(index)
            assert answer == found(memory)
            best = [(hit.score, hit.name, hit.index) for hit in answer[1]]
            assert best == wanted(feed, 5)
            with pytest.MonkeyPatch.context() as pure:
                pure.setattr(kernels, "compiled", None)
                assert answer == found(index)
        index.close()
        memory.close()


def test_a_search_of_published_segments_reads_no_vector_of_the_truth(feed, tmp_path):
    with opened(feed, None) as index:
        sound = found(index)
    with opened(feed, tmp_path) as index:
        index.publish("x")
        feed.calls.clear()
        assert found(index) == sound
        assert feed.calls["vectors"] == 0
        put(feed, 99, 99)
        found(index)
        assert feed.calls["vectors"] > 0  # of what is not published yet


@pytest.mark.parametrize("layout", ["strided", "backwards", "unaligned", "double", "list"])
def test_a_query_of_any_layout_is_taken(feed, tmp_path, layout):
    unaligned = np.frombuffer(b" " + QUERY.tobytes(), np.uint8)[1:].view(np.float32)
    query = {
        "strided": np.repeat(QUERY, 2)[::2],
        "backwards": QUERY[::-1].copy()[::-1],
        "unaligned": unaligned,
        "double": QUERY.astype(np.float64),
        "list": QUERY.tolist(),
    }[layout]
    with opened(feed, tmp_path) as index:
        index.publish("x")
        assert index.vector(["x"], "chunk", query, limit=5) == found(index)[1]


def test_a_merge_copies_the_vectors_that_files_have(feed, tmp_path, monkeypatch):
    monkeypatch.setattr(compact, "ONE_SEGMENT", 0)
    with opened(feed, tmp_path) as index:
        for seed in range(9):
            put(feed, 50 + seed, seed)
            if seed % 3 == 2:
                index.publish("x", "little")
        assert len(segments(index)) > 1
        feed.calls.clear()
        index.publish("x", "all")
        assert len(segments(index)) == 1
        assert feed.calls["vectors"] == 0
        assert found(index)[1]


def test_a_vector_that_was_gone_when_it_was_to_be_written_is_left_out(feed, tmp_path):
    with opened(feed, tmp_path) as index:
        (gone,) = index.vector(["x"], "chunk", QUERY, limit=1)
        del feed.by_key[gone.key]
        index.publish("x")
        (segment,) = segments(index)
        assert np.isnan(segment.vectors[:, :-1].view(np.float32)).all(axis=1).sum() == 1
        keys = [hit.key for hit in index.vector(["x"], "chunk", QUERY, limit=100)]
        assert len(keys) == 35
        assert gone.key not in keys
        assert [hit.key for hit in index.vector(["x"], "chunk", QUERY, limit=5)] == keys[:5]


@pytest.mark.parametrize("how", ["flip", "zeros", "swap"])
def test_a_damaged_vector_is_named_and_the_index_is_built_again(feed, tmp_path, how, caplog):
    published, folder = tmp_path / "published", tmp_path / "folder"
    with opened(feed, published) as index:
        index.publish("x")
        sound = found(index)
        rows = segments(index)[0].vectors.tobytes()
    (victim,) = published.rglob("*.segment")
    content, size = victim.read_bytes(), 4 * (WIDTH + 1)
    at, random = content.index(rows), np.random.default_rng(3)
    for place in random.integers(0, len(rows), 25).tolist():
        damaged = bytearray(content)
        row, other = (at + (place // size + step) * size % len(rows) for step in (0, 1))
        if how == "flip":
            damaged[at + place] ^= 1 << int(random.integers(8))
        elif how == "zeros":
            damaged[row : row + size] = bytes(size)
        else:
            damaged[row : row + size] = content[other : other + size]
            damaged[other : other + size] = content[row : row + size]
        shutil.copytree(published, folder)
        (path,) = folder.rglob("*.segment")
        path.write_bytes(damaged)
        assert examine(feed, folder) == ["index.damaged"]
        with caplog.at_level(logging.WARNING, "triptych.index"), opened(feed, folder) as index:
            assert found(index) == sound
            index.publish("x")
            assert found(index) == sound
            assert segments(index)[0].file not in (None, path.name)
        (warned,) = [record.getMessage() for record in caplog.records]
        assert path.name in warned
        assert examine(feed, folder) == []
        caplog.clear()
        shutil.rmtree(folder)


def test_a_damaged_vector_that_a_merge_copied_is_found_too(feed, tmp_path, caplog):
    with opened(feed, tmp_path) as index:
        index.publish("x")
        rows = segments(index)[0].vectors.tobytes()
    (path,) = tmp_path.rglob("*.segment")
    content = bytearray(path.read_bytes())
    content[content.index(rows) + 9] ^= 4
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING, "triptych.index"), opened(feed, tmp_path) as index:
        for owner in range(20, 40):
            put(feed, owner, owner)
        index.publish("x", "all")
        assert segments(index)[0].file != path.name
        with opened(feed, None) as memory:
            assert found(index) == found(memory)
    assert len(caplog.records) == 1


def examine(feed: MemoryChangeLog, folder: Path) -> list[str]:
    with opened(feed, folder) as index:
        return [finding.check for finding in examine_index(index, "x")]


def test_vectors_are_written_some_at_a_time(tmp_path):
    feed, width = MemoryChangeLog(), 512
    for owner in range(8):
        put(feed, owner, owner, width=width, count=1_000)
    with opened(feed, tmp_path) as index:
        index.publish("x")
        put(feed, 99, 99, width=width)
        index.views("x", "chunk")
        tracemalloc.start()
        try:
            index.publish("x")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        (segment,) = segments(index)
        assert len(segment.vectors) == 8_003
        # The int8 rows are held twice, and the float32 ones would be four times as large.
        assert peak < 0.85 * segment.vectors.nbytes, peak / segment.vectors.nbytes
