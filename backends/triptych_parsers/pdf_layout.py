"""What the layout of a PDF page says: its lines with their sizes, and its tables.

PDFium gives characters with their boxes, and paths. Lines of text stay as PDFium orders them, which
is right where most other orders are wrong; only the characters of a table leave their lines.
"""

from __future__ import annotations

import ctypes
import math
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import attrs

from triptych.parsing import lost, one_line, words
from triptych_parsers.pdf_tables import (
    HYPHEN,
    Glyph,
    Grid,
    Rule,
    find_grids,
    find_rows,
    runs,
    text_of,
)

_MOST_PATHS = 5_000
_MOST_SEGMENTS = 20_000
_THIN = 3.0
"""Points: a filled rectangle that is no thicker is a rule."""
_LONGEST_CELL = 600
_LOST = 0.02
"""Of the words of a page: where its tables lack more, it has none."""
_SAMPLE = 40
# Fonts of TeX that do not say what their letters mean give bare codes: ligatures of the encodings
# OT1 and T1, quotes and dashes of T1. The other controls part words.
_READABLE: dict[int, str] = str.maketrans(
    {
        **{chr(code): " " for code in (*range(1, 9), *range(14, 32))},
        **dict(zip("\x0b\x0c\x0e\x0f", ("ff", "fi", "ffi", "ffl"), strict=True)),
        **dict(zip("\x1b\x1c\x1d\x1e\x1f", ("ff", "fi", "fl", "ffi", "ffl"), strict=True)),
        **dict(zip("\x10\x11\x12\x13\x14\x15\x16", "“”„«»–—", strict=True)),
        HYPHEN: HYPHEN,
        "\ufffe": HYPHEN,
    }
)


def readable(text: str) -> str:
    """PDFium's text with plain line ends, ligatures as letters, and hyphens that end a line as
    `HYPHEN`."""
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_READABLE)


@attrs.define(slots=True)
class Line:
    """A line of text, the size of most of it in points (0: not known), and its characters.

    ``letters`` counts them as they were before a table took some. ``table`` has the rows of the
    table that begins where the line stands, before the rest of its text.
    """

    text: str
    size: float = 0.0
    letters: int = 0
    glyphs: list[Glyph] = attrs.field(factory=list)
    table: list[list[str]] | None = None

    @property
    def shown(self) -> str:
        """All that stands on the line, for comparison."""
        return " ".join([*(cell for row in self.table or () for cell in row), self.text])


def plain_lines(text: str) -> list[Line]:
    """The lines of a page without a layout."""
    return [Line(each) for each in text.split("\n")]


def read_layout(page: Any, text_page: Any, text: str) -> list[Line]:
    """The lines and tables of a page whose `readable` text is ``text``.

    Where the characters do not give the same lines as the text, there is none but the lines. Where
    tables would lose words of the text, they stay lines.
    """
    turn = _turn(text_page)
    lines = _lines(text_page, text, turn)
    for grid in find_grids(*_rules(page, turn)):
        _take_grid(lines, grid)
    for first, last, rows in find_rows([[] if line.table else line.glyphs for line in lines]):
        for line in lines[first : last + 1]:
            line.text, line.glyphs = "", []
        lines[first].table = rows
    if any(line.table for line in lines):
        gone = lost(text, "\n".join(line.shown for line in lines)).total()
        if gone > _LOST * len(words(text)):
            return _lines(text_page, text, turn)
    return lines


_Turn = Callable[[float, float], tuple[float, float]]
_TURNS: tuple[_Turn, ...] = (
    lambda x, y: (x, y),
    lambda x, y: (-y, x),
    lambda x, y: (-x, -y),
    lambda x, y: (y, -x),
)


def _turn(text_page: Any) -> _Turn:
    """What turns the points of a page so that most of its text runs from left to right.

    Boxes and paths are those of the page before it is rotated to be shown.
    """
    raw = import_module("pypdfium2.raw")
    count = text_page.count_chars()
    handle = text_page.raw
    quarters = Counter(
        round(raw.FPDFText_GetCharAngle(handle, at) / (math.pi / 2)) % 4
        for at in range(0, count, count // _SAMPLE + 1)
        if raw.FPDFText_IsGenerated(handle, at) == 0
    )
    return _TURNS[max(quarters, key=quarters.__getitem__, default=0)]


def _lines(text_page: Any, text: str, turn: _Turn) -> list[Line]:
    raw = import_module("pypdfium2.raw")
    left, right, bottom, top = (ctypes.c_double() for _ in range(4))
    lines, spaced, before = [Line("")], False, 0
    handle, is_turned = text_page.raw, turn is not _TURNS[0]
    for index in range(text_page.count_chars()):
        code = raw.FPDFText_GetUnicode(handle, index)
        if code in (10, 13):
            if not (code == 10 and before == 13):
                lines.append(Line(""))
                spaced = False
            before = code
            continue
        before = code
        character = chr(code) if code < 0x110000 else "\ufffd"
        character = _READABLE.get(code, character)
        if not code or character.isspace():
            spaced = True
            continue
        raw.FPDFText_GetCharBox(handle, index, left, right, bottom, top)
        x0, y0, x1, y1 = left.value, bottom.value, right.value, top.value
        if is_turned:
            (x0, y0), (x1, y1) = sorted((turn(x0, y0), turn(x1, y1)))
        size = raw.FPDFText_GetFontSize(handle, index)
        if size <= 1.5:  # the size is in the matrix of the text
            size = round(abs(y1 - y0), 1)
        lines[-1].glyphs.append(Glyph(character, x0, x1, (y0 + y1) / 2, size, spaced))
        spaced = False
    plain = plain_lines(text)
    if len(lines) != len(plain):
        return plain
    for line, shown in zip(lines, plain, strict=True):
        line.text = shown.text
        if line.glyphs:
            sizes = sorted(glyph.size for glyph in line.glyphs)
            line.letters = len(sizes)
            line.size = round(sizes[len(sizes) // 2] * 2) / 2
    return lines


def _rules(page: Any, turn: _Turn) -> tuple[list[Rule], list[Rule]]:
    """Horizontal rules as (y, from, to), and vertical ones as (x, from, to)."""
    raw = import_module("pypdfium2.raw")
    across: list[Rule] = []
    upright: list[Rule] = []
    objects = page.get_objects(filter=[raw.FPDF_PAGEOBJ_PATH], max_depth=1)
    for count, each in enumerate(objects):
        if count >= _MOST_PATHS or len(across) + len(upright) > _MOST_SEGMENTS:
            return [], []  # a drawing
        for left, bottom, right, top in _edges(raw, each):
            (x0, y0), (x1, y1) = turn(left, bottom), turn(right, top)
            if abs(y1 - y0) <= 1 < abs(x1 - x0):
                across.append(((y0 + y1) / 2, min(x0, x1), max(x0, x1)))
            elif abs(x1 - x0) <= 1 < abs(y1 - y0):
                upright.append(((x0 + x1) / 2, min(y0, y1), max(y0, y1)))
    return across, upright


def _edges(raw: Any, path: Any) -> list[tuple[float, float, float, float]]:
    """The straight lines of a path, on the page; a thin rectangle is one line."""
    left, bottom, right, top = path.get_bounds()
    if top - bottom <= _THIN < right - left:
        middle = (bottom + top) / 2
        return [(left, middle, right, middle)]
    if right - left <= _THIN < top - bottom:
        middle = (left + right) / 2
        return [(middle, bottom, middle, top)]
    a, b, c, d, e, f = path.get_matrix().get()
    x, y = ctypes.c_float(), ctypes.c_float()
    found, start, at = [], (0.0, 0.0), (0.0, 0.0)
    for index in range(min(raw.FPDFPath_CountSegments(path.raw), 2_000)):
        segment = raw.FPDFPath_GetPathSegment(path.raw, index)
        raw.FPDFPathSegment_GetPoint(segment, x, y)
        point = (a * x.value + c * y.value + e, b * x.value + d * y.value + f)
        kind = raw.FPDFPathSegment_GetType(segment)
        if kind == raw.FPDF_SEGMENT_MOVETO:
            start = point
        elif kind == raw.FPDF_SEGMENT_LINETO:
            found.append((*at, *point))
        at = point
        if raw.FPDFPathSegment_GetClose(segment):
            found.append((*at, *start))
            at = start
    return found


def _take_grid(lines: Sequence[Line], grid: Grid) -> None:
    """Move the characters in ``grid`` from their lines to a table, if it is one."""
    cells: dict[tuple[int, int], list[str]] = {}
    left: dict[int, list[Glyph]] = {}
    taken: list[int] = []
    for number, line in enumerate(lines):
        for run in runs(line.glyphs, grid):
            cell = grid.cell(run)
            if cell is None:
                left.setdefault(number, []).extend(run)
                continue
            cells.setdefault(cell, []).append(text_of(run))
            taken.append(number)
    rows = [
        [one_line(" ".join(cells.get((row, column), ()))) for column in range(grid.columns)]
        for row in range(grid.rows)
    ]
    rows = [row for row in rows if any(row)]
    used = [at for at in range(grid.columns) if any(row[at] for row in rows)]
    rows = [[row[at] for at in used] for row in rows]
    filled = [cell for row in rows for cell in row if cell]
    if len(rows) < 2 or len(used) < 2 or len(filled) < max(4, 0.3 * len(rows) * len(used)):
        return
    if max(map(len, filled)) > _LONGEST_CELL:
        return  # boxes that hold the text of a page are its design
    for number in set(taken):
        line = lines[number]
        line.glyphs = left.get(number, [])
        line.text = text_of(line.glyphs)
    lines[taken[0]].table = rows


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """``rows`` as a table of Markdown, the first one its head."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])
