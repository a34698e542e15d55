"""A sparse vector holds what it says, and its bytes are read back or refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from support.rows import each_row
from triptych.errors import ValidationError
from triptych.records import SparseVector

weights = st.floats(min_value=2.0**-100, max_value=2.0**100, width=32)
entries = st.dictionaries(st.integers(0, 2**32 - 1), weights, max_size=40)


def vector_of(entries: dict[int, float]) -> SparseVector:
    terms = sorted(entries)
    return SparseVector(np.array(terms, np.uint32), [entries[term] for term in terms])


def test_arrays_are_read_only_copies_of_fixed_types() -> None:
    indices, values = np.array([1, 5], np.int64), np.array([0.5, 2.0])
    vector = SparseVector(indices, values)
    indices[0], values[0] = 3, 9
    assert vector.indices.dtype == np.uint32
    assert vector.values.dtype == np.float32
    assert vector.indices.tolist() == [1, 5]
    assert vector.values.tolist() == [0.5, 2.0]
    assert len(vector) == 2
    with pytest.raises(ValueError, match="read-only"):
        vector.indices[0] = 2
    with pytest.raises(ValueError, match="read-only"):
        vector.values[0] = 2
    assert repr(vector) == "<SparseVector of 2 terms>"


@each_row(
    ("indices", "values", "why"),
    [
        ([1, 1], [1.0, 1.0], "ascend"),
        ([2, 1], [1.0, 1.0], "ascend"),
        ([-1], [1.0], "between 0"),
        ([2**32], [1.0], "between 0"),
        ([0.5], [1.0], "whole numbers"),
        ([[1]], [1.0], "one row"),
        ([1], [[1.0]], "one row"),
        ([1], ["x"], "numbers"),
        ([1, 2], [1.0], "2 indices and 1 values"),
        ([1], [0.0], "above 0"),
        ([1], [-1.0], "above 0"),
        ([1], [float("nan")], "finite"),
        ([1], [float("inf")], "finite"),
        ([1], [1e39], "finite"),
        ([1], [1e-60], "above 0"),
    ],
)
def test_what_is_no_sparse_vector_is_refused(indices: object, values: object, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        SparseVector(indices, values)  # type: ignore[arg-type]  # which is what is tested


def test_terms_come_in_any_order_and_the_heaviest_are_kept() -> None:
    vector = SparseVector.of([9, 3, 7, 1, 5], [1.0, 2.0, 0.0, 2.0, -1.0])
    assert vector == SparseVector([1, 3, 9], [2.0, 2.0, 1.0])
    assert SparseVector.of([9, 3, 1], [1.0, 2.0, 2.0], most=1) == SparseVector([1], [2.0])
    assert len(SparseVector.of([], [])) == len(SparseVector.of([4], [0.0])) == 0
    with pytest.raises(ValidationError, match="finite"):
        SparseVector.of([1], [float("nan")])
    with pytest.raises(ValidationError, match="once"):
        SparseVector.of([1, 1], [1.0, 2.0])
    with pytest.raises(ValidationError, match="shape"):
        SparseVector.of([1, 2], [1.0])


@given(entries)
def test_bytes_are_compact_and_come_back_exactly(entries: dict[int, float]) -> None:
    vector = vector_of(entries)
    data = vector.to_bytes()
    assert SparseVector.from_bytes(data) == vector
    assert hash(SparseVector.from_bytes(data)) == hash(vector)
    wide = bool(entries) and max(entries) >= 2**16
    assert len(data) == 5 + len(vector) * (8 if wide else 6)


@given(entries, st.data())
def test_any_change_of_a_byte_is_noticed(entries: dict[int, float], data: st.DataObject) -> None:
    stored = bytearray(vector_of(entries).to_bytes())
    at = data.draw(st.integers(0, len(stored) - 1))
    stored[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ValueError, match="checksum"):
        SparseVector.from_bytes(bytes(stored))


@each_row("data", [b"", b"\x02", b"\x02\x00\x00\x00\x00abc", None, "text"])
def test_what_is_cut_short_is_refused(data: object) -> None:
    with pytest.raises(ValueError, match=r"cut short|checksum"):
        SparseVector.from_bytes(data)  # type: ignore[arg-type]  # which is what is tested


@given(entries, entries)
@example({1: 1e8, 2: 1.0, 3: 1.0}, {1: 1e8, 2: 1.0, 3: 1.0})  # `sum` differs from Python 3.12 on
def test_dot_product_is_the_sum_over_shared_terms(
    one: dict[int, float], other: dict[int, float]
) -> None:
    expected = 0.0
    for term in sorted(one.keys() & other.keys()):
        expected += float(np.float32(one[term])) * float(np.float32(other[term]))
    assert vector_of(one).dot(vector_of(other)) == expected
