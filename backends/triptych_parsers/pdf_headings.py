"""Headings of a PDF: its bookmarks, or the lines in letters that are larger than most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import import_module
from statistics import median
from typing import Any

from triptych.parsing import one_line
from triptych_parsers.pdf_layout import Line
from triptych_parsers.pdf_tables import Glyph

_MOST_BOOKMARKS = 5_000
_LARGER = 1.12
"""Times the size of the body, from which on a line is a heading."""
_LONGEST = 160
_MOST_SHARE = 0.25
"""Of all letters; where more are large, size says nothing."""
_MOST_LEVELS = 4
_MOST_LINES = 3
"""Of one heading; more lines of one size are a paragraph in large type."""
_TIGHT = 1.4
"""Times their size, from line to line within a paragraph; a heading stands further apart."""


def sized_headings(pages: Sequence[Sequence[Line]]) -> dict[int, list[tuple[int, str]]]:
    """By page, from 0, the levels and texts of the lines that are larger than the body's.

    The body's size is that of most letters. A line within a paragraph is none, however large its
    letters: where most of a file is small print, its text is larger. The largest headings have
    level 1; there are at most four levels.
    """
    letters: Counter[float] = Counter()
    for page in pages:
        for line in page:
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
        shown = [line for line in page if line.glyphs]
        for run in _runs_of_one_size(shown):
            if shown[run.start].size < _LARGER * body or len(run) > _MOST_LINES:
                continue
            if len(run) == 1 and _is_in_a_paragraph(shown, run.start):
                continue
            if not _begins_a_heading(one_line(shown[run.start].text)):
                continue
            for line in shown[run.start : run.stop]:
                text = one_line(line.text)
                if len(text) <= _LONGEST and sum(map(str.isalpha, text)) >= 2:
                    found.append((number, line.size, text))
    sizes = sorted({size for _, size, _ in found}, reverse=True)
    level = {size: min(at, _MOST_LEVELS) for at, size in enumerate(sizes, start=1)}
    headings: dict[int, list[tuple[int, str]]] = {}
    for number, size, text in found:
        headings.setdefault(number, []).append((level[size], text))
    return headings


def _runs_of_one_size(lines: Sequence[Line]) -> Iterator[range]:
    """The places of neighbouring lines that stand under each other in letters of one size."""
    start = 0
    for at in range(1, len(lines) + 1):
        if at == len(lines) or not _follows(lines[at - 1], lines[at]):
            yield range(start, at)
            start = at


def _follows(above: Line, below: Line) -> bool:
    return above.size == below.size and _gap(above, below) <= _TIGHT * below.size


def _is_in_a_paragraph(lines: Sequence[Line], at: int) -> bool:
    """Whether lines of smaller letters stand as close above and below as to each other."""
    if not 0 < at < len(lines) - 1:
        return False
    above, line, below = lines[at - 1 : at + 2]
    is_larger = line.size > max(above.size, below.size)
    return (
        is_larger
        and _gap(above, line) <= _TIGHT * above.size
        and _gap(line, below) <= _TIGHT * below.size
    )


def _gap(above: Line, below: Line) -> float:
    """Points from the middle of one line to that of the next; infinite where they do not stand
    under each other, as at a change of columns."""
    upper, lower = above.glyphs, below.glyphs
    is_under = upper[0].left < lower[-1].right and lower[0].left < upper[-1].right
    distance = _middle(upper) - _middle(lower)
    return distance if is_under and distance > 0 else float("inf")


def _middle(glyphs: Sequence[Glyph]) -> float:
    """The middle of most characters: a superscript does not move its line."""
    return median(glyph.middle for glyph in glyphs)


def _begins_a_heading(text: str) -> bool:
    """Whether a heading may begin so: the rest of a sentence does not."""
    return bool(text) and not text[0].islower() and text[0] not in ",;.:!?)]}"


def bookmarks_of(document: Any) -> dict[int, list[tuple[int, str]]]:
    """By page, from 0, the levels and titles of the bookmarks that lead to it."""
    pypdfium2 = import_module("pypdfium2")
    found: dict[int, list[tuple[int, str]]] = {}
    try:
        for count, mark in enumerate(document.get_toc(max_depth=6)):
            if count >= _MOST_BOOKMARKS:
                break
            goal = mark.get_dest()
            page = None if goal is None else goal.get_index()
            title = one_line(mark.get_title())
            if page is not None and title:
                found.setdefault(page, []).append((min(mark.level + 1, 6), title))
    except pypdfium2.PdfiumError:
        return {}
    return found
