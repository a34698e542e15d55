"""Telling the language of a text, by its function words and letters.

A text is in the language of which it has the most different function words, if these are clearly
more than the English ones; else it counts as English. Terms are those of the English analyzer.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from triptych.text.english import ENGLISH_STOP_WORDS
from triptych.text.function_words import function_words, recognised_languages

# What a term says for a language, in tenths of a function word that no other language has.
_WORD, _COMMON, _CHARACTER, _LETTER = 10, 4, 2, 3
_LEAST: Final = 12  # of different terms together
_SHARE: Final = 0.8  # of the tenths that as many words could have: 8%

_Clues = tuple[Mapping[str, int], int]
_NONE: Final[_Clues] = {}, 0


@cache
def _known(stem: Callable[[str], str]) -> Mapping[str, _Clues]:
    """What the terms of function words say for each language, and for English."""
    english, common = (
        {stem(word) for word in words} for words in (ENGLISH_STOP_WORDS, function_words("english"))
    )
    said: dict[str, dict[str, int]] = {term: {} for term in sorted(english)}
    for language in recognised_languages():
        for term in sorted(map(stem, function_words(language))):
            worth = _COMMON if term in english or term in common else _WORD
            said.setdefault(term, {})[language] = _CHARACTER if len(term) == 1 else worth
    return {
        term: (of, (max(of.values()) if of else _WORD) if term in english else 0)
        for term, of in said.items()
    }


class Clues:
    """What terms say of the language of their text; ``stem`` gives the English term of a word."""

    def __init__(self, stem: Callable[[str], str]) -> None:
        self._known = _known(stem)

    def of(self, term: str) -> _Clues:
        """What a term says for each language, and for English."""
        known = self._known.get(term, _NONE)
        if known is not _NONE or term.isascii():
            return known
        letters = set(term)
        return {
            name: _LETTER
            for name, own in recognised_languages().items()
            if not letters.isdisjoint(own)
        }, 0

    def places(self, terms: Sequence[str]) -> list[int]:
        """The places of those terms that may say anything."""
        known = self._known
        return [at for at, term in enumerate(terms) if term in known or not term.isascii()]

    def language(self, counts: Mapping[str, int]) -> str | None:
        """The language of a text with these terms; None for English, or where it is not clear."""
        found = [(clues, n) for term, n in counts.items() if (clues := self.of(term)) is not _NONE]
        english = sum(in_english * count for (_, in_english), count in found)
        if not any(said for (said, _), _ in found):
            return None
        kinds: Counter[str] = Counter()
        times: Counter[str] = Counter()
        for (said, _), count in found:
            for language, worth in said.items():
                kinds[language] += worth
                times[language] += worth * count
        if max(kinds.values()) < _LEAST:
            return None
        (best, most), (_, second) = [*kinds.most_common(2), ("", 0)][:2]
        enough = max(_SHARE * sum(counts.values()), english + 1)
        return best if most > second and times[best] >= enough else None


class NumberedClues:
    """`Clues` of texts that are given as numbers of ``terms``, which may grow."""

    def __init__(self, clues: Clues, terms: dict[str, int]) -> None:
        self._clues = clues
        self._terms = terms
        self._names: list[str] = []
        # The most that each term says for a language, and what it says for English.
        self._said, self._english = array("b"), array("b")

    def languages(self, numbers: NDArray[np.int32], sizes: NDArray[np.int64]) -> dict[int, str]:
        """The languages by the place of the text, of those that are not in English."""
        self._learn()
        bounds = np.concatenate(([0], np.cumsum(sizes)))
        said, english = np.array(self._said, np.int8), np.array(self._english, np.int8)
        # Most terms say nothing.
        telling = np.flatnonzero((said | english).take(numbers))
        which, terms = bounds[1:].searchsorted(telling, "right"), numbers[telling]
        for_others, for_english = (
            np.bincount(which, worth[terms], len(sizes)) for worth in (said, english)
        )
        found = {}
        # No language can say more, or enough, in the others.
        may_be = (for_others > for_english) & (for_others >= _SHARE * sizes)
        for at in np.flatnonzero(may_be).tolist():
            counted = Counter(numbers[bounds[at] : bounds[at + 1]].tolist())
            language = self._clues.language({self._names[n]: k for n, k in counted.items()})
            if language is not None:
                found[at] = language
        return found

    def _learn(self) -> None:
        known = len(self._names)
        new = list(islice(reversed(self._terms), len(self._terms) - known))[::-1]
        self._names += new
        self._said.frombytes(bytes(len(new)))
        self._english.frombytes(bytes(len(new)))
        for at in self._clues.places(new):
            said, english = self._clues.of(new[at])
            self._said[known + at] = max(said.values(), default=0)
            self._english[known + at] = english
