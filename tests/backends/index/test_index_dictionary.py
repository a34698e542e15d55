"""A dictionary that grows from batch to batch gives what sorting all of it again would give."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from triptych_backends.index.build import Dictionary
from triptych_backends.index.segment import SortedVocabulary

WORDS = st.lists(st.lists(st.text("abéz文\U0001f600", max_size=12), max_size=30), max_size=5)


@pytest.mark.property
@given(WORDS, st.randoms(use_true_random=False))
def test_growing_is_sorting_again(batches: list[list[str]], drawn: object) -> None:
    known = Dictionary()
    for batch in batches:
        for word in batch:
            known.numbers.setdefault(word, len(known.numbers))
        ranks = known.ranks()
        ordered = sorted(known.numbers)
        assert [ordered[rank] for rank in ranks.tolist()] == list(known.numbers)
        kept = sorted(drawn.sample(range(len(ordered)), drawn.randint(0, len(ordered))))  # type: ignore[attr-defined]  # random.Random
        made = known.vocabulary(np.array(kept, np.int32))
        wanted = SortedVocabulary.of([ordered[rank] for rank in kept])
        assert made.words() == wanted.words()
        assert np.array_equal(made.blob, wanted.blob)
        assert np.array_equal(made.offsets, wanted.offsets)
        assert np.array_equal(made.prefixes, wanted.prefixes)
        assert made.prefixes.dtype == wanted.prefixes.dtype
