"""The tokenizer of all-MiniLM-L6-v2, and how much of a text its pieces cover."""

from __future__ import annotations

import unicodedata
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triptych_backends.embedders.installed import require, verified_bytes

TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
MAX_TOKENS = 256
_ROOM = MAX_TOKENS - 2  # [CLS] and [SEP] stand around the text
_UNKNOWN, _CLS, _SEP = 100, 101, 102
_DATA = Path(__file__).parent / "data" / "minilm-l6-v2-tokenizer.json"

# An inner piece that a cut text may end in without touching the kept pieces: more than the
# three that a cut special token such as "[MASK" falls into.
_CUT_MARGIN = 8
_FIRST_CUT = 2048

_NEUTRAL, _KNOWN, _FOREIGN = 0, 1, 2


def _kind(piece: str) -> int:
    """Whether the model knows ``piece`` as a part of words it was trained on.

    Latin letters are known however short the piece: English words are made of them. A single
    letter of any other script is an ideograph or a fragment of a word, of which the model
    knows no meaning, except that English science writes single Greek letters.
    """
    letters = [c for c in piece.removeprefix("##") if c.isalpha()]
    if not letters:
        return _NEUTRAL
    if any(c.isascii() or "LATIN" in unicodedata.name(c, "") for c in letters):
        return _KNOWN
    if len(letters) > 1 or "GREEK" in unicodedata.name(piece[0], ""):
        return _KNOWN
    return _FOREIGN


class WordPieces:
    """Text to token ids, cut to `MAX_TOKENS`. Safe for threads; never starts one.

    Raises:
        NotAvailableError: the package tokenizers is missing, or the data file is damaged.
    """

    def __init__(self, *, extra: str, user: str) -> None:
        tokenizers = require("tokenizers", extra=extra, user=user)
        data = verified_bytes(_DATA, TOKENIZER_SHA256, user=user)
        self._tokenizer = tokenizers.Tokenizer.from_str(data.decode("utf-8"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    @cached_property
    def _kinds(self) -> NDArray[np.int8]:
        """The kind of each piece, by its id. Costs more than loading, and only `coverage` asks."""
        kinds = np.zeros(self._tokenizer.get_vocab_size(), dtype=np.int8)
        for piece, token_id in self._tokenizer.get_vocab(with_added_tokens=False).items():
            kinds[token_id] = _kind(piece)
        kinds[: _SEP + 2] = _NEUTRAL  # [PAD], the unused, [UNK], [CLS], [SEP], [MASK]: no words
        return kinds

    def token_ids(self, text: str) -> NDArray[np.int64]:
        """[CLS], the first pieces of ``text``, [SEP]: shape (n,), n from 2 to `MAX_TOKENS`."""
        pieces = self._encode(text).ids[:_ROOM]
        return np.array([_CLS, *pieces, _SEP], dtype=np.int64)

    def coverage(self, text: str) -> float:
        """The share of known pieces among those of ``text`` that are made of letters.

        The model averages over pieces, so this is the share of the vector that has a
        meaning. Only the pieces that the model reads count; digits and punctuation do not.
        Letters in none of the vocabulary's pieces are one unknown piece a word. A text
        without letters is covered, unless the vocabulary lacks its symbols.
        """
        encoding = self._encode(text)
        ids = np.array(encoding.ids[:_ROOM], dtype=np.int64)
        counts = np.bincount(self._kinds[ids], minlength=3)
        known, foreign = int(counts[_KNOWN]), int(counts[_FOREIGN])
        unknown = np.flatnonzero(ids == _UNKNOWN).tolist()
        if unknown:
            offsets = encoding.offsets
            words = [text[slice(*offsets[position])] for position in unknown]
            foreign += sum(any(map(str.isalpha, word)) for word in words)
        if known + foreign == 0:
            return 0.0 if unknown else 1.0
        return known / (known + foreign)

    def _encode(self, text: str) -> Any:
        """The encoding of as much of ``text`` as the first `_ROOM` pieces depend on."""
        cut = _FIRST_CUT
        while cut < len(text):
            encoding = self._tokenizer.encode(text[:cut], add_special_tokens=False)
            words = encoding.word_ids
            # The cut may go through a word; that word must not be among the kept.
            if len(words) >= _ROOM + _CUT_MARGIN and words[_ROOM - 1] != words[-1]:
                return encoding
            cut *= 4
        return self._tokenizer.encode(text, add_special_tokens=False)
