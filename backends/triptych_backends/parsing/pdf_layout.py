"""What the layout of a PDF page says: its lines with their sizes, and its tables.

PDFium gives characters with their boxes, and paths. Lines of text stay as PDFium orders them, which
is right where most other orders are wrong; only the characters of a table leave their lines.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import attrs

from triptych.parsing.contract import one_line
from triptych_backends.parsing.pdf_tables import Glyph, Grid, find_grids, find_rows

_MOST_PATHS = 5_000
_MOST_SEGMENTS = 20_000
_THIN = 3.0
"""Points: a filled rectangle that is no thicker is a rule."""
_LONGEST_CELL = 600
_HYPHEN = "\xad"
"""For PDFium's mark of a hyphen that ends a line."""


@attrs.define(slots=True)
class Line:
    """A line of text, the size of most of it in points (0: not known), and its characters.

    ``letters`` counts them as they were before a table took some.
    """

    text: str
    size: float = 0.0
    letters: int = 0
    glyphs: list[Glyph] = attrs.field(factory=list)


@attrs.define(slots=True)
class PageLayout:
    """The lines of a page; where a table stands, ``tables`` has its rows by the line's number."""

    lines: list[Line]
    tables: dict[int, list[list[str]]] = attrs.field(factory=dict)


def read_layout(page: Any, text_page: Any, text: str) -> PageLayout:
    """The layout of a page whose text is ``text``.

    Where the characters do not give the same lines as the text, there is none but the lines.
    """
    plain = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    lines = _lines(text_page)
    if len(lines) != len(plain):
        return PageLayout([Line(each) for each in plain])
    for line, shown in zip(lines, plain, strict=True):
        line.text = shown
    layout = PageLayout(lines)
    for grid in find_grids(*_rules(page)):
        _take_grid(layout, grid)
    for first, last, rows in find_rows(
        [[] if at in layout.tables else line.glyphs for at, line in enumerate(layout.lines)]
    ):
        layout.tables[first] = rows
        for line in layout.lines[first : last + 1]:
            line.text, line.glyphs = "", []
    return layout


def _lines(text_page: Any) -> list[Line]:
    raw = import_module("pypdfium2.raw")
    left, right, bottom, top = (ctypes.c_double() for _ in range(4))
    lines, spaced, before = [Line("")], False, ""
    glyphs: list[Glyph] = []
    handle = text_page.raw
    for index in range(text_page.count_chars()):
        code = raw.FPDFText_GetUnicode(handle, index)
        if code in (10, 13):
            if not (code == 10 and before == "\r"):
                lines[-1].glyphs = glyphs
                lines.append(Line(""))
                glyphs, spaced = [], False
            before = chr(code)
            continue
        before = character = (
            _HYPHEN if code in (2, 0xFFFE) else chr(code) if code < 0x110000 else "\ufffd"
        )
        if not code or character.isspace():
            spaced = True
            continue
        raw.FPDFText_GetCharBox(handle, index, left, right, bottom, top)
        size = raw.FPDFText_GetFontSize(handle, index)
        if size <= 1.5:  # the size is in the matrix of the text
            size = round(top.value - bottom.value, 1)
        glyphs.append(
            Glyph(character, left.value, right.value, (bottom.value + top.value) / 2, size, spaced)
        )
        spaced = False
    lines[-1].glyphs = glyphs
    for line in lines:
        if line.glyphs:
            sizes = sorted(glyph.size for glyph in line.glyphs)
            line.letters = len(sizes)
            line.size = round(sizes[len(sizes) // 2] * 2) / 2
    return lines


def _rules(page: Any) -> tuple[list[tuple[float, float, float]], list[tuple[float, float, float]]]:
    """Horizontal rules as (y, from, to), and vertical ones as (x, from, to)."""
    raw = import_module("pypdfium2.raw")
    across: list[tuple[float, float, float]] = []
    upright: list[tuple[float, float, float]] = []
    objects = page.get_objects(filter=[raw.FPDF_PAGEOBJ_PATH], max_depth=1)
    for count, each in enumerate(objects):
        if count >= _MOST_PATHS or len(across) + len(upright) > _MOST_SEGMENTS:
            return [], []  # a drawing
        for x0, y0, x1, y1 in _edges(raw, each):
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


def _take_grid(layout: PageLayout, grid: Grid) -> None:
    """Move the characters in ``grid`` from their lines to a table, if it is one."""
    cells: dict[tuple[int, int], list[str]] = {}
    taken: dict[int, list[Glyph]] = {}
    last: dict[tuple[int, int], int] = {}
    for number, line in enumerate(layout.lines):
        for glyph in line.glyphs:
            cell = grid.cell((glyph.left + glyph.right) / 2, glyph.middle)
            if cell is None:
                continue
            pieces = cells.setdefault(cell, [])
            if pieces and (glyph.spaced or last[cell] != number):
                pieces.append(" ")
            pieces.append(glyph.text)
            last[cell] = number
            taken.setdefault(number, []).append(glyph)
    rows = [
        [_cell_text(cells.get((row, column), ())) for column in range(grid.columns)]
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
    for number, glyphs in taken.items():
        line = layout.lines[number]
        gone = set(map(id, glyphs))
        line.glyphs = [glyph for glyph in line.glyphs if id(glyph) not in gone]
        line.text = _text(line.glyphs)
    layout.tables[min(taken)] = rows


def _cell_text(pieces: Sequence[str]) -> str:
    # A hyphen that only the end of a line has made goes with the line; the cell's last one stays.
    text = one_line("".join(pieces))
    kept = "-" if text.endswith(_HYPHEN) else ""
    return text.replace(f"{_HYPHEN} ", "").replace(_HYPHEN, "") + kept


def _text(glyphs: Sequence[Glyph]) -> str:
    return "".join(f" {glyph.text}" if glyph.spaced else glyph.text for glyph in glyphs).strip()


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """``rows`` as a table of Markdown, the first one its head."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])
