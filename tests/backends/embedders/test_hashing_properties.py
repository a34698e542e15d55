from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from triptych_models import HashEmbedder

pytestmark = pytest.mark.property

texts = st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=12)


@given(texts, st.integers(2, 64))
def test_rows_are_finite_and_of_unit_length(batch: list[str], dimension: int):
    rows = HashEmbedder(dimension).embed(batch, kind="document")

    assert rows.shape == (len(batch), dimension)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-6)


@given(texts)
def test_a_vector_does_not_depend_on_its_batch_or_kind(batch: list[str]):
    embedder = HashEmbedder()
    together = embedder.embed(batch, kind="document")

    for text, row in zip(batch, together, strict=True):
        assert embedder.embed([text], kind="query").tobytes() == row.tobytes()
