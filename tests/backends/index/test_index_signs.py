"""The first look by signs leaves out none of the nearest, and updates lose nothing."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve

from support.index_model import MemoryChangeLog, WordAnalyzer
from triptych_backends.index import LocalIndex, quantization as signs
from triptych_backends.index.quantization import Probe, quantise
from triptych_backends.index.segment import NO_SIGNS

WIDTH = 72  # not a multiple of 64
NONE: np.ndarray = np.empty(0, np.int64)


def embeddings(generator: np.random.Generator, count: int, width: int = WIDTH) -> np.ndarray:
    """Unit rows around a common mean, dense in a third of the dimensions, as embeddings are."""
    lift = np.random.default_rng(5).normal(size=(width // 3, width))
    rows = generator.normal(size=(count, width // 3)) @ lift
    rows += 0.1 * generator.normal(size=(count, width)) + 2.0
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of few rows have signs too."""
    monkeypatch.setattr(signs, "WORTH_SIGNS", 500)
    monkeypatch.setattr(signs, "MOST", 1 / 2)


@pytest.mark.usefixtures("small")
def test_the_shortlist_holds_the_nearest() -> None:
    generator = np.random.default_rng(0)
    rows = embeddings(generator, 6_000)
    codes, scales = quantise(rows)
    made = signs.make_signs(codes, scales)
    assert made
    assert made.depth[0] < len(rows) / 3
    kept = {10: 0, 50: 0, 200: 0}
    queries = embeddings(generator, 60)
    for query in queries:
        order = np.argsort(-(rows @ query))
        for limit in kept:
            listed, _ = signs.shortlist(made, codes, scales, Probe.of(query), limit, NONE)
            assert np.all(np.diff(listed) > 0)
            kept[limit] += len(np.intersect1d(listed, order[:limit]))
    recall = {limit: found / (limit * len(queries)) for limit, found in kept.items()}
    assert recall[10] >= 0.99
    assert recall[50] >= 0.98
    assert recall[200] >= 0.98


def recall_among(made, codes, scales, rows, some, queries) -> tuple[int, float]:
    """How many queries get a list, and the share of the 50 nearest of `some` that it has."""
    lists = found = 0
    for query in queries:
        probe = Probe.of(query)
        passing = np.isin(np.arange(len(rows)), some)
        got = signs.shortlist_among(made, codes, scales, probe, 10, passing)
        if got is None:
            continue
        listed, scores = got
        assert np.isin(listed, some).all()
        exact = signs.score(codes, scales, probe)
        assert scores.tobytes() == exact[listed].tobytes()
        best = some[np.argsort(-(rows[some] @ query))[:50]]
        lists, found = lists + 1, found + len(np.intersect1d(listed, best))
    return lists, found / (50 * max(lists, 1))


@pytest.mark.usefixtures("small")
def test_the_shortlist_among_some_rows_holds_their_nearest() -> None:
    generator = np.random.default_rng(6)
    rows = embeddings(generator, 6_000)
    codes, scales = quantise(rows)
    made = signs.make_signs(codes, scales)
    queries = embeddings(generator, 40)
    some = np.flatnonzero(generator.random(6_000) < 0.8)
    lists, recall = recall_among(made, codes, scales, rows, some, queries)
    assert lists >= 35
    assert recall >= 0.99
    assert recall_among(made, codes, scales, rows, some[:300], queries)[0] == 0, "few are scanned"


def test_a_shortlist_among_rows_that_signs_do_not_tell_apart_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(signs, "WORTH_SIGNS", 500)
    monkeypatch.setattr(signs, "MOST", 1)
    generator = np.random.default_rng(7)
    rows = embeddings(generator, 8_000)
    rows[4_000:] = rows[0] + generator.normal(size=(4_000, WIDTH)) / 600
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    codes, scales = quantise(rows)
    made = evolve(signs.make_signs(codes, scales), depth=np.array([300]))
    some = np.arange(4_000, 8_000)
    lists, recall = recall_among(made, codes, scales, rows, some, rows[4_000:4_040])
    assert lists == 0 or recall >= 0.95


@pytest.mark.usefixtures("small")
def test_dead_rows_are_on_no_shortlist() -> None:
    generator = np.random.default_rng(1)
    rows = embeddings(generator, 2_000)
    codes, scales = quantise(rows)
    made = signs.make_signs(codes, scales)
    dead = np.flatnonzero(generator.random(2_000) < 0.97)
    for query in embeddings(generator, 20):
        listed, _ = signs.shortlist(made, codes, scales, Probe.of(query), 10, dead)
        assert not np.isin(listed, dead).any()
        assert len(listed) >= 10
    everything = np.arange(2_000)
    assert not len(signs.shortlist(made, codes, scales, Probe.of(rows[0]), 10, everything)[0])


def test_few_rows_and_rows_without_a_pattern_are_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(2)
    assert signs.make_signs(*quantise(embeddings(generator, 1_000))) is NO_SIGNS
    monkeypatch.setattr(signs, "WORTH_SIGNS", 500)
    noise = generator.normal(size=(4_000, 384)).astype(np.float32)
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    assert signs.make_signs(*quantise(noise)) is NO_SIGNS


@pytest.mark.usefixtures("small")
def test_rows_that_are_all_alike_are_found(tmp_path) -> None:
    feed = MemoryChangeLog()
    row = embeddings(np.random.default_rng(3), 1)[0]
    for owner in range(700):
        feed.put("x", owner, f"{owner:03}", ["w"], vectors=[row])
    with LocalIndex(feed, tmp_path, analyzers=WordAnalyzer) as index:
        index.publish()
        hits = index.vector(["x"], "chunk", row, limit=5)
    assert [hit.name for hit in hits] == ["000", "001", "002", "003", "004"]


@pytest.mark.usefixtures("small")
def test_updates_lose_nothing(tmp_path) -> None:
    """Replaced, new and deleted rows beside a segment with signs, before and after publishing."""
    generator = np.random.default_rng(4)
    rows = embeddings(generator, 1_500)
    feed = MemoryChangeLog()
    for owner in range(1_500):
        feed.put("x", owner, f"{owner:04}", ["w"], vectors=[rows[owner]])
    with LocalIndex(feed, tmp_path, analyzers=WordAnalyzer) as index:
        index.publish()
        views = index.fresh(["x"])["x"].views("chunk")
        assert any(view.segment.signs for view in views)
        for round_ in range(3):
            for owner in range(round_, 600, 3):
                rows[owner] = embeddings(generator, 1)[0]
                feed.put("x", owner, f"{owner:04}", ["w"], vectors=[rows[owner]])
            for owner in range(600 + round_, 900, 3):
                feed.delete("x", owner)
                rows[owner] = np.nan
            live = np.flatnonzero(~np.isnan(rows[:, 0]))
            found = 0
            for query in embeddings(generator, 20):
                best = live[np.argsort(-(rows[live] @ query))[:10]]
                hits = index.vector(["x"], "chunk", query, limit=10)
                assert len(hits) == 10
                found += len({hit.owner for hit in hits} & set(best.tolist()))
            assert found >= 0.98 * 200
            changed = list(range(round_, 600, 3))
            for owner in changed[::20]:  # a row is its own nearest
                assert index.vector(["x"], "chunk", rows[owner], limit=1)[0].owner == owner
            index.publish()
