"""Vector lanes of the local index: exact, whatever was rounded on the way."""

from __future__ import annotations

import numpy as np
import pytest

from support.index_model import MemoryChangeLog, WordAnalyzer
from triptych.errors import ModelMismatchError, ValidationError
from triptych_backends.index import LocalIndex, OwnedBy, Under, vector_search
from triptych_backends.index.quantization import Probe, quantise, score
from triptych_backends.index.selection import both
from triptych_backends.index.vector_search import SURE, RowScanner, exact

WIDTH = 48


def unit_rows(generator: np.random.Generator, count: int) -> np.ndarray:
    """Rows of unit length in clusters, as embeddings of real text are."""
    centres = generator.normal(size=(20, WIDTH))
    rows = centres[generator.integers(0, 20, count)] + 0.4 * generator.normal(size=(count, WIDTH))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def corpus() -> tuple[MemoryChangeLog, np.ndarray]:
    generator = np.random.default_rng(7)
    rows = unit_rows(generator, 3_000)
    feed = MemoryChangeLog()
    for owner in range(300):
        own = rows[owner * 10 : owner * 10 + 10]
        vectors = [None if (owner + at) % 11 == 0 else row for at, row in enumerate(own)]
        headings = [(f"Part {at % 3}", f"Section {owner % 5}") for at in range(10)]
        feed.put("x", owner, f"{owner:03}", ["w"] * 10, vectors=vectors, headings=headings)
    return feed, unit_rows(generator, 40)


def expected(feed: MemoryChangeLog, query: np.ndarray, keep=lambda unit: True):
    scored = [
        (-round(float(unit.vector.astype(np.float64) @ query), 6), unit.name, unit.index)
        for unit in feed.live("x")
        if unit.vector is not None and keep(unit)
    ]
    return sorted(scored)


def ranked(hits):
    return [(-hit.score, hit.name, hit.index) for hit in hits]


def agree(hits, wanted) -> None:
    assert [place[1:] for place in ranked(hits)] == [place[1:] for place in wanted]
    assert np.allclose([hit.score for hit in hits], [-place[0] for place in wanted], atol=1.1e-6)


@pytest.mark.parametrize("limit", [1, 10, 200])
def test_the_nearest_units_are_exact(corpus, limit):
    feed, queries = corpus
    with LocalIndex(feed, analyzers=WordAnalyzer) as index:
        for query in queries:
            agree(index.vector(["x"], "chunk", query, limit=limit), expected(feed, query)[:limit])


def test_filters_give_the_best_of_what_they_leave(corpus):
    feed, queries = corpus
    owners = {"x": np.array([3, 17, 18, 299, 5000], np.int64)}
    with LocalIndex(feed, analyzers=WordAnalyzer) as index:
        for query in queries:
            hits = index.vector(
                ["x"],
                "chunk",
                query,
                limit=9,
                selection=both(OwnedBy(owners), Under(("part 1", "section 3"))),
            )

            def keep(unit):
                return unit.owner in (3, 17, 18, 299) and bool(
                    {"Part 1", "Section 3"} & set(unit.headings)
                )

            agree(hits, expected(feed, query, keep)[:9])
        assert index.vector(["x"], "chunk", queries[0], limit=5, selection=OwnedBy({})) == []
        assert index.vector(["x"], "chunk", queries[0], limit=5, selection=Under(())) == []


def test_a_document_scores_by_the_best_of_all_its_chunks(corpus):
    feed, queries = corpus
    with LocalIndex(feed, analyzers=WordAnalyzer) as index:
        for query in queries:
            best = {}
            for score, name, index_ in expected(feed, query):
                best.setdefault(name, (score, name, index_))
            hits = index.document_vector(["x"], query, limit=25)
            agree(hits, sorted(best.values(), key=lambda place: place[:2])[:25])


def test_equal_vectors_rank_by_name_and_index_at_the_cut_too():
    feed = MemoryChangeLog()
    row = np.zeros(WIDTH, np.float32)
    row[3] = 1
    for owner in range(300):
        feed.put("x", owner, f"{(owner * 7) % 300:03}", ["w", "w"], vectors=[row, row])
    with LocalIndex(feed, analyzers=WordAnalyzer) as index:
        hits = index.vector(["x"], "chunk", row, limit=5)
        assert [(hit.name, hit.index) for hit in hits] == [
            ("000", 0),
            ("000", 1),
            ("001", 0),
            ("001", 1),
            ("002", 0),
        ]
        documents = index.document_vector(["x"], row, limit=3)
        assert [(hit.name, hit.index) for hit in documents] == [("000", 0), ("001", 0), ("002", 0)]


def test_invalid_vectors_are_refused(corpus):
    feed, queries = corpus
    with LocalIndex(feed, analyzers=WordAnalyzer) as index:
        broken = queries[0].copy()
        broken[5] = np.nan
        for vector, error in (
            (broken, ValidationError),
            (queries[0][:-1], ModelMismatchError),
            (queries, ValidationError),
        ):
            with pytest.raises(error):
                index.vector(["x"], "chunk", vector, limit=3)
            with pytest.raises(error):
                index.document_vector(["x"], vector, limit=3)


def test_vectors_of_two_widths_are_refused_when_the_index_is_built():
    feed = MemoryChangeLog()
    rows = [np.ones(4, np.float32) / 2, np.ones(9, np.float32) / 3]
    feed.put("x", 1, "one", ["w", "w"], vectors=rows)
    with (
        LocalIndex(feed, analyzers=WordAnalyzer) as index,
        pytest.raises(ModelMismatchError, match="one"),
    ):
        index.bm25(["x"], "chunk", "w", limit=1)
    feed = MemoryChangeLog()
    feed.put("x", 1, "one", ["w"], vectors=rows[:1])
    with LocalIndex(feed, analyzers=WordAnalyzer) as index:
        index.bm25(["x"], "chunk", "w", limit=1)
        feed.put("x", 2, "two", ["w"], vectors=rows[1:])
        with pytest.raises(ModelMismatchError, match="widths"):
            index.bm25(["x"], "chunk", "w", limit=1)


def test_a_vector_that_vanished_between_scan_and_rescoring_is_not_returned():
    feed = MemoryChangeLog()
    row = np.eye(WIDTH, dtype=np.float32)
    for owner in range(20):
        feed.put("x", owner, f"{owner:02}", ["w"], vectors=[row[owner]])
    with LocalIndex(feed, analyzers=WordAnalyzer) as index:
        index.vector(["x"], "chunk", row[0], limit=3)
        look_up = feed.vectors

        def delete_first(dataset, keys):
            feed.vectors = look_up
            feed.delete("x", 0)
            return look_up(dataset, keys)

        feed.vectors = delete_first
        hits = index.vector(["x"], "chunk", row[0], limit=3)
        assert [hit.name for hit in hits] == ["01", "02", "03"]


@pytest.mark.parametrize("among", [False, True])
def test_a_split_scan_finds_what_a_whole_one_does(corpus, monkeypatch, among):
    feed, queries = corpus
    owners = OwnedBy({"x": np.arange(0, 300, 2)}) if among else None
    with LocalIndex(feed, analyzers=WordAnalyzer) as index:
        whole = [index.vector(["x"], "chunk", q, limit=9, selection=owners) for q in queries]
        documents = [index.document_vector(["x"], q, limit=9) for q in queries]
        monkeypatch.setattr(vector_search, "SPLIT_BYTES", 1)
        index._scanner = RowScanner(2)
        split = [index.vector(["x"], "chunk", q, limit=9, selection=owners) for q in queries]
        assert split == whole
        assert [index.document_vector(["x"], q, limit=9) for q in queries] == documents


@pytest.mark.parametrize("split", [1, 1 << 30])
def test_a_scan_leaves_out_the_dead_of_both_halves(monkeypatch, tmp_path, split):
    monkeypatch.setattr(vector_search, "SPLIT_BYTES", split)
    generator = np.random.default_rng(11)
    rows = unit_rows(generator, 200)
    feed = MemoryChangeLog()
    for owner in range(200):
        feed.put("x", owner, f"{owner:03}", ["w"], vectors=[rows[owner]])
    with LocalIndex(feed, tmp_path, analyzers=WordAnalyzer) as index:
        index._scanner = RowScanner(2)
        index.publish("x")
        before = dict(feed.by_key)
        for owner in (3, 99, 100, 101, 199):
            feed.delete("x", owner)
        feed.by_key.update(before)  # a vector stays while another text has it
        assert [len(view.dead) for view in index.views("x", "chunk")] == [5]
        for query in unit_rows(generator, 10):
            agree(index.vector(["x"], "chunk", query, limit=200), expected(feed, query))
            agree(index.document_vector(["x"], query, limit=200), expected(feed, query))


@pytest.mark.parametrize("width", [1, 48, 1_024, 1_500])
def test_what_rounding_moves_is_as_it_is_reckoned(width):
    """No order of exact scores is lost outside the margin, and it is no wider than it must be."""
    generator = np.random.default_rng(width)
    rows = generator.normal(size=(4_000, width)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    codes, scales = quantise(rows)
    for query in (rows[:8] + rows[8:16]) * 3:
        probe = Probe.of(query)
        errors = score(codes, scales, probe).astype(np.float64) - exact(query, rows)
        steps = scales.astype(np.float64)
        apart = (errors - errors[::-1]) / vector_search._margins(probe, steps[::-1], steps)
        assert np.abs(apart).max() < 5 / SURE
        assert width == 1 or apart.std() * SURE == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("length", [0.0, 1e-44, 1e-30, 1.0, 1e30, 3e38])
@pytest.mark.parametrize("width", [1, 2, 1_023, 1_024, 4_096])
def test_a_query_of_any_length_is_rounded_to_what_sums_allow(length, width):
    for query in (np.full(width, length / width), np.eye(1, width)[0] * length):
        probe = Probe.of(query.astype(np.float32))
        longest = np.linalg.norm(probe.codes[:1_024].astype(np.float64))
        assert longest * 128 * min(width, 1_024) ** 0.5 <= 2**24
        assert np.isfinite(probe.scale)
        if length >= 1e-30:
            error = np.abs(probe.codes * np.float64(probe.scale) - probe.vector).max()
            assert error <= 0.51 * probe.scale
            assert probe.scale <= 1.001 * np.abs(probe.vector).max() / 127 or width > 1


def test_a_zero_row_survives_quantisation():
    codes, scales = quantise(np.zeros((2, 5), np.float32))
    assert not codes.any()
    assert np.isfinite(scales).all()


def test_filter_that_leaves_units_without_vectors_alone_finds_nothing() -> None:
    feed = MemoryChangeLog()
    vector = np.eye(1, 8, dtype=np.float32)[0]
    feed.put("x", 1, "doc", ["", ""], vectors=[vector, None], headings=[(), ("Intro",)])
    with LocalIndex(feed, analyzers=WordAnalyzer) as index:
        under = Under(("intro",))
        assert index.vector(["x"], "chunk", vector, limit=1, selection=under) == []
        assert len(index.vector(["x"], "chunk", vector, limit=1)) == 1
