"""Texts that say again what was said: containment of shingles."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import attrs
import regex

__all__ = ["ShingleFilter", "shingles"]

_WIDTH: Final = 5
# A word, or a character of a script without blanks between words.
_TOKEN: Final = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}]|[\p{L}\p{M}\p{N}]+", regex.V1
)


def shingles(text: str) -> frozenset[Hashable]:
    """Every five neighbouring words of ``text``, in any case; marks and mark-up do not count.

    Characters stand for words where no blanks part them. A text of fewer words is one shingle,
    a text without any is the set of its stripped self. Source: Broder (1997), On the resemblance
    and containment of documents.
    """
    words = [found.group().casefold() for found in _TOKEN.finditer(text)]
    if not words:
        return frozenset([text.strip()])
    return frozenset(
        tuple(words[at : at + _WIDTH]) for at in range(max(1, len(words) - _WIDTH + 1))
    )


@attrs.define
class ShingleFilter:
    """The shingles of all that was taken so far.

    A text repeats it when at least ``share`` of its shingles were seen, as many as its
    containment in the union of what was taken.
    """

    share: float
    _held: set[Hashable] = attrs.field(factory=set)

    def repeats(self, text: str) -> bool:
        """Whether ``text`` says little that is new."""
        its = shingles(text)
        return len(its & self._held) >= self.share * len(its)

    def add(self, text: str) -> None:
        """Take ``text``."""
        self._held |= shingles(text)
