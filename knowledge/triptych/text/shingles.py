"""Shingles: the runs of words by which texts are compared."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import regex

_WIDTH: Final = 5
# A word, or a character of a script without blanks between words.
_TOKEN: Final = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}]|[\p{L}\p{M}\p{N}]+", regex.V1
)


def shingles(text: str) -> frozenset[Hashable]:
    """Every five neighbouring words of ``text``, in any case; marks and mark-up do not count.

    Characters stand for words in scripts without blanks. A text of fewer words is one shingle,
    a text without any is the set of its stripped self. Source: Broder (1997), On the resemblance
    and containment of documents.
    """
    words = [found.group().casefold() for found in _TOKEN.finditer(text)]
    if not words:
        return frozenset([text.strip()])
    return frozenset(
        tuple(words[at : at + _WIDTH]) for at in range(max(1, len(words) - _WIDTH + 1))
    )
