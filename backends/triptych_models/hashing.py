"""An embedder for tests that hashes words, without a model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from triptych.errors import ValidationError
from triptych_models.shared import checked_texts

if TYPE_CHECKING:
    from triptych.records import EmbedKind

# Runs of word characters, but each ideograph, kana and syllable (U+2E80 up) by itself.
_TOKEN = re.compile(r"[^\W\u2e80-\U0010ffff]+|\w")
_ROWS_AT_ONCE = 1024


@lru_cache(maxsize=1 << 15)
def _code(token: str) -> int:
    return int.from_bytes(blake2b(token.encode(), digest_size=8).digest(), "little")


class HashEmbedder:
    """Signed feature hashing of the words of a text (Weinberger et al., 2009). Not semantic.

    Two texts are similar if they share words; synonyms are as distant as any two words. Use it only
    for tests and setups without a model. The same text gives the same bits in every process and on
    every platform.

    A text without words maps to the first axis, which no word uses.
    """

    semantic = False
    coverage_floor = 0.0

    def __init__(self, dimension: int = 256) -> None:
        if dimension < 2:
            raise ValidationError(f"dimension is a number from 2 up, not {dimension}")
        self.dimension: int = dimension

    @property
    def signature(self) -> str:
        """The embedding space, marked as not semantic."""
        return f"hash-bag-of-words/not-semantic/v1/{self.dimension}"

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        """Return float32 vectors of shape (len(texts), dimension), of unit length; ``kind`` is
        ignored.

        Raises:
            ValidationError: an argument is invalid for `Embedder.embed`.
        """
        checked = checked_texts(texts, kind)
        rows = np.empty((len(checked), self.dimension), dtype=np.float32)
        for start in range(0, len(checked), _ROWS_AT_ONCE):
            part = checked[start : start + _ROWS_AT_ONCE]
            rows[start : start + len(part)] = self._unit_rows(part)
        return rows

    def coverage(self, text: str) -> float:
        """Return 1.0: hashing has no vocabulary."""
        return 1.0

    def _unit_rows(self, texts: Sequence[str]) -> NDArray[np.float64]:
        dimension = self.dimension
        cells: list[int] = []
        signs: list[int] = []
        for row, text in enumerate(texts):
            base = row * dimension
            for token in _TOKEN.findall(text.casefold()):
                code = _code(token)
                cells.append(base + 1 + (code >> 1) % (dimension - 1))
                signs.append(1 if code & 1 else -1)
        size = len(texts) * dimension
        sums = np.bincount(np.array(cells, dtype=np.intp), weights=signs, minlength=size)
        counts = sums.reshape(len(texts), dimension)
        # Sums of whole numbers are exact in any order, so the rounding is the same everywhere.
        squares = (counts * counts).sum(axis=1)
        empty = squares == 0
        counts[empty, 0] = squares[empty] = 1.0
        unit: NDArray[np.float64] = counts / np.sqrt(squares)[:, np.newaxis]
        return unit
