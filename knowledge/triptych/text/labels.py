"""The words that name a text: its document's name and title, and the headings above it.

The keyword lane counts each of them for half a word of the text (the weights of BM25F: Robertson,
Zaragoza and Taylor, Simple BM25 Extension to Multiple Weighted Fields, 2004). It counts in halves
all through, so that every number is whole: a word of the text is two, one of the label is one, and
``LABELLED_K1`` is twice BM25's usual k1 of 1.2, which gives the same scores.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

LABELLED_K1: Final = 2.4
TEXT_WEIGHT: Final = 2

BESIDE: Final = " / "
"""Stands between the titles of sections that are one chunk, in the last part of its path."""

_ENDING: Final = re.compile(r"(?<=[^/])\.[A-Za-z][A-Za-z0-9]{0,4}$")
_PADDED: Final = re.compile(r"(?<![0-9.])0+([1-9][0-9]{0,30})(?![0-9])")


@lru_cache(4096)
def label_of(name: str, title: str = "", headings: tuple[str, ...] = ()) -> str:
    """The label of a text, for an analyzer: name without its ending, title, headings.

    A number that begins with zeros stands there without them, too: "17" finds "adr-0017.md".
    """
    stem = _ENDING.sub("", name)
    return "\n".join(dict.fromkeys((" ".join((stem, *_PADDED.findall(stem))), title, *headings)))


def headings_in(path: Iterable[str]) -> set[str]:
    """The headings that a chunk with this path is under, case-folded: those of a filter."""
    found = {heading.casefold() for heading in path}
    return found.union(*(heading.split(BESIDE) for heading in found))
