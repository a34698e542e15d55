"""A dictionary that grows from batch to batch gives what sorting all of it again would give."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from hypothesis import given, strategies as st

from triptych.text import get_analyzer
from triptych_backends.index import Unit
from triptych_backends.index.build import Dictionary, SegmentBuilder, TermDictionary
from triptych_backends.index.compact import number_words
from triptych_backends.index.replay import encode_labels
from triptych_backends.index.segment import SharedVocabulary, SortedVocabulary, Vocabulary

TEXTS = st.text("abéz文\U0001f600\0", max_size=12)
# Many words that begin alike.
ALIKE = st.text("ab\0", max_size=4).map("beginning".__add__)
WORDS = st.lists(st.lists(TEXTS | ALIKE, max_size=30), max_size=5)


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


@pytest.mark.property
@given(st.lists(WORDS.map(lambda batches: {*chain(*batches)}), min_size=1, max_size=4))
def test_a_merge_numbers_words_in_their_order(every: list[set[str]]) -> None:
    parts: list[Vocabulary] = [SortedVocabulary.of(sorted(words)) for words in every]
    shared = {word: number for number, word in enumerate(every[0])}
    parts[0] = SharedVocabulary(shared, np.arange(len(shared), dtype=np.int32))
    numberings, vocabulary = number_words(parts, shared=False)
    ordered = sorted(set().union(*every))
    for part, numbers in zip(parts, numberings, strict=True):
        assert [ordered[number] for number in numbers.tolist()] == part.words()
    kept = np.arange(0, len(ordered), 2, dtype=np.int32)
    assert vocabulary(kept).words() == ordered[::2]


@pytest.mark.property
@given(st.lists(st.lists(st.sampled_from("abcdefg"), max_size=9), min_size=1, max_size=40))
def test_postings_are_the_same_however_wide_their_keys(texts: list[list[str]]) -> None:
    made = []
    for most in (32, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("triptych_backends.index.build._NARROW_BITS", most)
            words = TermDictionary(get_analyzer("none"))
            builder = SegmentBuilder(words, shared=False)
            units = [
                Unit(owner=at, key=at, name=f"{at % 7}", index=0, text=" ".join(text), label="a b")
                for at, text in enumerate(texts)
            ]
            builder.add(
                units, words.encode_all([unit.text for unit in units]), encode_labels(units, words)
            )
            made.append(builder.finish().text)
    narrow, wide = made
    assert narrow.vocabulary.words() == wide.vocabulary.words()
    for name in ("offsets", "ids", "counts"):
        assert np.array_equal(getattr(narrow, name), getattr(wide, name))
        assert getattr(narrow, name).dtype == getattr(wide, name).dtype
