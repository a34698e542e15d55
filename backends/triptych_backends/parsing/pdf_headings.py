"""Headings by the size of their letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from triptych.parsing.builder import one_line
from triptych_backends.parsing.pdf_layout import PageLayout

__all__ = ["sized_headings"]

_LARGER = 1.12
"""Times the size of the body, from which on a line is a heading."""
_LONGEST = 160
_MOST_SHARE = 0.25
"""Of all letters; where more are large, size says nothing."""
_MOST_LEVELS = 4


def sized_headings(pages: Sequence[PageLayout]) -> dict[int, list[tuple[int, str]]]:
    """By page, from 0, the levels and texts of the lines that are larger than the body's.

    The body's size is that of most letters. The largest headings have level 1; there are at most
    four levels.
    """
    letters: Counter[float] = Counter()
    for page in pages:
        for line in page.lines:
            letters[line.size] += line.letters
    del letters[0.0]
    if not letters:
        return {}
    body = max(letters, key=lambda size: (letters[size], -size))
    large = sum(count for size, count in letters.items() if size >= _LARGER * body)
    if large > _MOST_SHARE * letters.total():
        return {}
    found: list[tuple[int, float, str]] = []
    for number, page in enumerate(pages):
        for line in page.lines:
            text = one_line(line.text)
            if (
                line.glyphs
                and line.size >= _LARGER * body
                and len(text) <= _LONGEST
                and sum(map(str.isalpha, text)) >= 2
            ):
                found.append((number, line.size, text))
    sizes = sorted({size for _, size, _ in found}, reverse=True)
    level = {size: min(at, _MOST_LEVELS) for at, size in enumerate(sizes, start=1)}
    headings: dict[int, list[tuple[int, str]]] = {}
    for number, size, text in found:
        headings.setdefault(number, []).append((level[size], text))
    return headings
