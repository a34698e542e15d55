from __future__ import annotations

import hashlib

import numpy as np
import pytest

from triptych.errors import ValidationError
from triptych_models import HashEmbedder


def test_vector_is_the_same_bits_in_every_process_and_on_every_platform():
    rows = HashEmbedder().embed(["The cat, and the hat: 中文 naïve"], kind="document")

    assert rows.dtype == np.float32
    little_endian = rows.astype("<f4").tobytes()
    assert hashlib.sha256(little_endian).hexdigest()[:16] == "cb23b63de183835b"


def test_shared_words_make_texts_similar_and_nothing_else_does():
    cat, dog, stocks = HashEmbedder().embed(
        ["a cat sits here", "here sits a dog", "markets fell sharply today"], kind="document"
    )

    assert cat @ dog > 0.5
    assert abs(cat @ stocks) < 0.3


def test_chinese_is_hashed_character_by_character():
    whole, part = HashEmbedder().embed(["知识库系统", "知识"], kind="document")

    assert whole @ part > 0.5


@pytest.mark.parametrize("text", ["", " \n", "!?…"])
def test_text_without_words_is_the_axis_that_no_word_maps_to(text: str):
    (row,) = HashEmbedder(dimension=2).embed([text], kind="query")
    (word,) = HashEmbedder(dimension=2).embed(["word"], kind="query")

    assert row.tolist() == [1.0, 0.0]
    assert abs(word.tolist()[1]) == 1.0


def test_it_says_that_it_is_not_semantic():
    embedder = HashEmbedder(dimension=64)

    assert embedder.semantic is False
    assert "not-semantic" in embedder.signature
    assert embedder.signature != HashEmbedder().signature
    assert embedder.coverage("中文") == 1.0


def test_no_texts_give_no_rows():
    assert HashEmbedder(dimension=8).embed([], kind="document").shape == (0, 8)


def test_dimension_below_two_is_refused():
    with pytest.raises(ValidationError, match="from 2 up"):
        HashEmbedder(dimension=1)
