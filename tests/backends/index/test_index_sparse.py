"""Inverted sparse vectors: merged in blocks, exact, and free for who has none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from support.index_model import MemoryChangeLog, WordAnalyzer
from triptych.records import SparseVector
from triptych_backends.index import LocalIndex, sparse_postings
from triptych_backends.index.folder import read_arrays
from triptych_backends.index.sparse_postings import (
    NO_SPARSE,
    invert_vectors,
    merge_postings,
    unit_digests,
)

entries = st.dictionaries(
    st.sampled_from([0, 1, 2, 5, 2**16, 2**32 - 1]), st.floats(0.125, 9, width=32), max_size=4
)
segments = st.lists(st.lists(st.tuples(entries, st.booleans()), max_size=5), max_size=4)


def vector_of(entries: dict[int, float]) -> SparseVector:
    return SparseVector.of(list(entries), list(entries.values()))


@given(segments, st.integers(1, 6))
def test_merging_in_blocks_gives_what_inverting_all_at_once_does(
    segments: list[list[tuple[dict[int, float], bool]]], block: int
) -> None:
    parts, remaps, live = [], [], []
    for segment in segments:
        vectors = [vector_of(terms) for terms, _ in segment]
        parts.append(invert_vectors(np.arange(len(vectors)), vectors))
        remap = np.full(len(segment), -1, np.int64)
        for at, (_, is_live) in enumerate(segment):
            if is_live:
                remap[at] = len(live)
                live.append(vectors[at])
        remaps.append(remap)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_postings, "_POSTINGS_AT_ONCE", block)
        merged = merge_postings(parts, remaps)
    whole = invert_vectors(np.arange(len(live)), live)
    for name in ("terms", "offsets", "ids", "weights"):
        assert np.array_equal(getattr(merged, name), getattr(whole, name))
    terms = np.repeat(merged.terms, np.diff(merged.offsets)) if merged else merged.terms
    digests = unit_digests(terms, merged.ids, merged.weights, len(live))
    for digest, vector in zip(digests, live, strict=True):
        ones = np.zeros(len(vector), np.int64)
        assert digest == unit_digests(vector.indices, ones, vector.values, 1)[0]


def test_files_of_a_dataset_without_sparse_vectors_are_as_before(tmp_path: Path) -> None:
    feed = MemoryChangeLog()
    feed.put("x", 1, "a", ["one two"])
    with LocalIndex(feed, tmp_path, analyzers=WordAnalyzer) as index:
        assert index.bm25(["x"], "chunk", "one", limit=3).rows
        assert index.publish("x")
        assert index.sparse(["x"], SparseVector([1], [1.0]), limit=3, space="") == []
    (file,) = tmp_path.rglob("*.segment")
    assert not [name for name in read_arrays(file) if name.startswith("sparse")]
    (manifest,) = tmp_path.rglob("manifest")
    assert b"sparse" not in manifest.read_bytes()
    assert NO_SPARSE.nbytes == 0


def test_published_postings_are_mapped_and_searched_by_the_next_process(tmp_path: Path) -> None:
    feed = MemoryChangeLog()
    feed.set_profile("x", sparse="e")
    vectors = [SparseVector([1, 7], [1.0, 0.5]), None]
    feed.put("x", 1, "a", ["one", "two"], sparse=vectors)
    with LocalIndex(feed, tmp_path, analyzers=WordAnalyzer) as index:
        assert index.publish("x")
    calls = feed.calls["units"]
    with LocalIndex(feed, tmp_path, analyzers=WordAnalyzer) as index:
        (hit,) = index.sparse(["x"], SparseVector([7], [3.0]), limit=3, space="e")
        assert (hit.name, hit.index, hit.score) == ("a", 0, 1.5)
        assert index.sparse(["x"], SparseVector([7], [3.0]), limit=0, space="e") == []
        assert index.sparse(["x"], SparseVector([7], [3.0]), limit=3, space="other") == []
        assert index.sparse(["x"], SparseVector([], []), limit=3, space="e") == []
        (view,) = index.views("x", "chunk")
        assert not view.segment.sparse.weights.flags.owndata  # it is the file's, not read in
    assert feed.calls["units"] == calls


def test_another_encoder_builds_the_index_again(tmp_path: Path) -> None:
    feed = MemoryChangeLog()
    feed.set_profile("x", sparse="e")
    feed.put("x", 1, "a", ["one"], sparse=[SparseVector([1], [1.0])])
    query = SparseVector([1], [1.0])
    with LocalIndex(feed, tmp_path, analyzers=WordAnalyzer) as index:
        assert index.publish("x")
        feed.set_profile("x", sparse="f")
        assert index.sparse(["x"], query, limit=3, space="e") == []
        assert len(index.sparse(["x"], query, limit=3, space="f")) == 1
