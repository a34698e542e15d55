"""Word documents: the worker's job."""

from __future__ import annotations

import io
import re
from typing import Any

from triptych.parsing.builder import markdown_safe, one_line
from triptych_backends.parsing.office import check_package
from triptych_backends.parsing.worker import Reading

_HEADING = re.compile(r"heading ([1-9])$", re.IGNORECASE)
_CONTENTS_STYLE = re.compile(r"toc( heading| \d)?$|table of (figures|contents)", re.IGNORECASE)
_LISTED = re.compile(r"list (bullet|number|paragraph)( \d)?$", re.IGNORECASE)


def read_docx(reading: Reading) -> None:
    """Headings, paragraphs, lists and tables in their order, tables of contents left out.

    Word writes where its last layout broke pages; where it did, pages are the locators, else
    the numbers of paragraphs and tables.
    """
    import docx
    from docx.table import Table

    check_package(reading)
    document = docx.Document(io.BytesIO(reading.data))
    title = one_line(document.core_properties.title or "")
    if title:
        reading.metadata["title"] = title[:300]
    reading.metadata["kind"] = "markdown"
    paged = bool(document.element.body.xpath(".//w:lastRenderedPageBreak[1]"))
    page = 1
    before = ""
    styles: dict[str | None, str] = {}  # looking one up walks over all of them
    for number, block in enumerate(document.iter_inner_content(), start=1):
        place = ("page", page) if paged else ("paragraph", number)
        if isinstance(block, Table):
            text, kind = _table(block), "table"
        else:
            text, kind = _paragraph(block, styles)
            if paged and _breaks_first(block):
                place = ("page", page + 1)
        gap = "\n" if kind == before == "item" else "\n\n"
        reading.builder.add(text, *place, gap=gap)
        before = kind if text else before
        if paged:
            page += len(block._element.xpath(".//w:lastRenderedPageBreak"))


def _breaks_first(paragraph: Any) -> bool:
    """Whether the paragraph begins on the page after: a break stands before its text."""
    breaks = paragraph.rendered_page_breaks
    return bool(breaks) and breaks[0].preceding_paragraph_fragment is None


def _paragraph(paragraph: Any, styles: dict[str | None, str]) -> tuple[str, str]:
    """Its Markdown, "" for what is left out, and what it is."""
    text = paragraph.text.strip()
    key = paragraph._p.style
    if key not in styles:
        found = paragraph.style
        styles[key] = "" if found is None else found.name or ""
    style = styles[key]
    # Word's own table of contents has a style of its own.
    if not text or _CONTENTS_STYLE.match(style):
        return "", ""
    heading = _HEADING.match(style)
    if heading is not None or style.lower() == "title":
        level = min(int(heading[1]), 6) if heading is not None else 1
        return f"{'#' * level} {one_line(text)}", "heading"
    text = markdown_safe(text)
    listed = _LISTED.match(style)
    properties = paragraph._p.pPr
    if listed is not None or (properties is not None and properties.numPr is not None):
        depth = int(listed[2]) - 1 if listed is not None and listed[2] else _depth(paragraph)
        mark = "1." if listed is not None and listed[1].lower() == "number" else "-"
        return f"{'  ' * depth}{mark} {one_line(text)}", "item"
    return text, "text"


def _depth(paragraph: Any) -> int:
    levels = paragraph._p.xpath("./w:pPr/w:numPr/w:ilvl/@w:val")
    return min(int(levels[0]), 8) if levels and levels[0].isdecimal() else 0


def _table(table: Any) -> str:
    """Its rows as Markdown; a cell that was merged over several rows stands in each of them.

    Word's cells are walked here: the library's `row.cells` asks the row above for every merged
    cell, and it the row above that, and lists a cell as often as it says that it is wide.
    """
    rows = []
    texts: dict[Any, str] = {}
    above: dict[int, Any] = {}
    for row in table._tbl.tr_lst:
        cells: list[str] = []
        here: dict[int, Any] = {}
        column = row.grid_before
        for cell in row.tc_lst:
            first = above.get(column, cell) if cell.vMerge == "continue" else cell
            here[column] = first
            column += cell.grid_span
            if first not in texts:
                texts[first] = _cell_text(first, table)
            cells.append(texts[first])
        above = here
        if any(cells):
            rows.append(f"| {' | '.join(cells)} |")
    if len(rows) > 1:
        rows.insert(1, "|" + " --- |" * (rows[0].count(" | ") + 1))
    return "\n".join(rows)


def _cell_text(cell: Any, table: Any) -> str:
    from docx.table import _Cell

    return one_line(_Cell(cell, table).text).replace("|", "\\|")
