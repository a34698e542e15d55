"""The dictionaries that segments are built with: words, their numbers, and their order."""

from __future__ import annotations

from array import array
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from triptych_backends.index.change_log import TextAnalyzer
from triptych_backends.index.segment import SortedVocabulary, ranges

# So many words are copied at once, which bounds the memory of doing so.
_WORDS_AT_ONCE = 1 << 16
# A dictionary that is kept from batch to batch begins again after so many words.
_KEPT_WORDS = 1 << 19


class Dictionary:
    """Words and their numbers, given in the order in which they were met.

    What it knows of the words' order is brought up to date, not made again, when words are added:
    a bulk write asks for it with every batch.
    """

    __slots__ = ("_blob", "_ends", "_every", "_order", "_prefixes", "_ranks", "numbers")

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self._every: list[str] = []
        self._order = np.empty(0, np.int64)
        self._ranks = np.empty(0, np.int64)
        self._blob = bytearray()
        self._ends = array("q", [0])
        self._prefixes = bytearray()

    def ranks(self) -> NDArray[np.int64]:
        """For each number its word's place among all words, sorted by code point."""
        if len(self.numbers) > len(self._order):
            self._sort()
        return self._ranks

    def _sort(self) -> None:
        known, count = len(self._order), len(self.numbers)
        new = list(islice(self.numbers, known, None))
        encoded = [word.encode() for word in new]
        self._every += new
        self._ends.extend((np.cumsum([len(word) for word in encoded]) + self._ends[-1]).tolist())
        self._blob += b"".join(encoded)
        self._prefixes += b"".join([word[:8].ljust(8, b"\0") for word in encoded])
        # The old ones are a sorted run, which the sort finds.
        order = [*self._order.tolist(), *range(known, count)]
        order.sort(key=self._every.__getitem__)
        self._order = np.array(order, np.int64)
        self._ranks = np.empty(count, np.int64)
        self._ranks[self._order] = np.arange(count)

    def vocabulary(self, kept: NDArray[np.int32]) -> SortedVocabulary:
        """The words at these ranks, ascending, as `ranks` gave them last."""
        numbers = self._order[kept]
        # Copies, so that what is looked at here may grow again.
        ends = np.array(self._ends)
        starts, ends = ends[numbers], ends[numbers + 1]
        blob = np.frombuffer(self._blob, np.uint8) if self._blob else np.empty(0, np.uint8)
        words = [
            blob[ranges(starts[at : at + _WORDS_AT_ONCE], ends[at : at + _WORDS_AT_ONCE])]
            for at in range(0, len(numbers), _WORDS_AT_ONCE)
        ]
        prefixes = np.frombuffer(self._prefixes, ">u8")[numbers] if len(numbers) else np.empty(0)
        offsets = np.zeros(len(numbers) + 1, np.int64)
        np.cumsum(ends - starts, out=offsets[1:])
        packed = np.concatenate(words) if words else blob[:0].copy()
        return SortedVocabulary(packed, offsets, prefixes.astype(np.uint64))


class TermDictionary:
    """The dictionaries of terms and of folded headings, and what numbers terms."""

    __slots__ = ("encode_all", "headings", "terms")

    def __init__(self, analyzer: TextAnalyzer) -> None:
        self.terms = Dictionary()
        self.headings = Dictionary()
        self.encode_all = analyzer.numbering(self.terms.numbers).encode_all

    @property
    def is_full(self) -> bool:
        """True when another is to take its place, so that memory stays bounded."""
        return max(len(self.terms.numbers), len(self.headings.numbers)) >= _KEPT_WORDS
