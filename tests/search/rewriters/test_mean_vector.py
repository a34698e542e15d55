"""The mean of unit vectors, as HyDE searches for it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from triptych import ValidationError
from triptych.ingestion.embedding import mean_vector
from triptych.records import QueryVariant, Vector

numbers = st.floats(-1, 1, width=32).map(lambda x: x if abs(x) > 1e-3 else 0.0)


@st.composite
def unit_vectors(draw: st.DrawFn) -> list[Vector]:
    width = draw(st.integers(1, 8))
    rows = draw(
        st.lists(
            st.lists(numbers, min_size=width, max_size=width).filter(any), min_size=1, max_size=9
        )
    )
    found = [np.array(row, dtype=np.float64) for row in rows]
    return [(row / np.linalg.norm(row)).astype(np.float32) for row in found]


@given(unit_vectors(), st.randoms())
def test_the_mean_is_of_unit_length_and_in_no_order(vectors: list[Vector], random: object) -> None:
    mean = mean_vector(vectors)
    assert mean.dtype == np.float32
    assert mean.shape == vectors[0].shape
    assert np.linalg.norm(mean) == pytest.approx(1.0, abs=1e-5)
    total = np.sum(np.stack(vectors).astype(np.float64), axis=0)
    length = np.linalg.norm(total)
    if length > 1e-3:
        assert np.allclose(mean, total / length, atol=1e-5)
        random.shuffle(vectors)  # type: ignore[attr-defined]
        assert np.allclose(mean_vector(vectors), mean, atol=1e-5)


@given(unit_vectors())
def test_equal_vectors_have_themselves_as_mean(vectors: list[Vector]) -> None:
    assert np.allclose(mean_vector([vectors[0]] * 4), vectors[0], atol=1e-6)
    assert mean_vector(vectors[:1]) is vectors[0]


def test_vectors_that_cancel_out_leave_the_first() -> None:
    east = np.array([1, 0], dtype=np.float32)
    assert mean_vector([east, -east]).tolist() == [1, 0]


def test_what_a_variant_embeds_is_checked() -> None:
    assert QueryVariant(text="q", embed_texts=["a", "b"]).embed_texts == ("a", "b")  # type: ignore[arg-type]
    for bad in (
        {"embed_texts": "ab"},
        {"embed_texts": ("a", " ")},
        {"embed_texts": ("a",), "embed_text": "b"},
        {"embed_own_text": True},
    ):
        with pytest.raises(ValidationError):
            QueryVariant(text="q", **bad)  # type: ignore[arg-type]
