"""Labels of texts: the words of the document's name and title, of headings and heads of tables.

The keyword lane counts each of them as half a word of the text (the weights of BM25F: Robertson,
Zaragoza and Taylor, Simple BM25 Extension to Multiple Weighted Fields, 2004). It counts in halves,
so that all numbers are integers: a word of the text counts two, a word of the label one, and
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
"""The separator of the titles of joined sections, in the last part of the heading path."""

_ENDING: Final = re.compile(r"(?<=[^/])\.[A-Za-z][A-Za-z0-9]{0,4}$")
_WORD: Final = re.compile(r"[^\W_]+")
# A number; or of four characters and more: hexadecimal, or never three letters in a row.
_ID: Final = re.compile(
    r"\d+|(?=.{4})(?:(?=[a-f]*\d)[0-9a-f]+|(?:\d|[^\W\d]{1,2}(?![^\W\d]))+)", re.IGNORECASE
)
_PADDED: Final = re.compile(r"(?<![0-9.])0+([1-9][0-9]{0,30})(?![0-9])")


@lru_cache(4096)
def label_of(name: str, title: str = "", headings: tuple[str, ...] = ()) -> str:
    """Return the label of a text for an analyzer: name without extension, title, headings.

    A number with leading zeros is repeated without them: "17" finds "adr-0017.md".
    """
    stem = _ENDING.sub("", name)
    return "\n".join(dict.fromkeys((" ".join((stem, *_PADDED.findall(stem))), title, *headings)))


@lru_cache(4096)
def spoken_name(name: str) -> str:
    """Return the words of a document's name without folders and extension.

    It is "" for a name that says nothing: ids, dates and numbers, and two bytes or less beside
    them.
    """
    words = _WORD.findall(_ENDING.sub("", name.rpartition("/")[2]))
    said = "".join(word for word in words if not _ID.fullmatch(word))
    return " ".join(words) if len(said.encode("utf-8", "surrogatepass")) > 2 else ""


def titles_of(path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the titles of a heading path: all but the head of a table at its end."""
    return path[:-1] if path and is_table_head(path[-1]) else path


def is_table_head(heading: str) -> bool:
    """Return whether a part of a heading path is the head of a table, `| Article | Count |`."""
    return heading.startswith("| ") and heading.endswith(" |")


def headings_in(path: Iterable[str]) -> set[str]:
    """Return the case-folded headings of a chunk with this path, for filters."""
    found = {heading.casefold() for heading in path if not is_table_head(heading)}
    return found.union(*(heading.split(BESIDE) for heading in found))
