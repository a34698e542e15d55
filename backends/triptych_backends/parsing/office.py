"""Word, PowerPoint and Excel files: archives of XML, checked and read in a worker process."""

from __future__ import annotations

import datetime
import io
import re
import zipfile
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import chain
from typing import Any, ClassVar

import attrs

from triptych.errors import ParseError
from triptych.parsing.contract import ParsedFile, ParseLimits, markdown_safe, one_line
from triptych.parsing.tables import add_rows
from triptych_backends.parsing.worker import Reading, run_isolated

_ZIP = b"PK\x03\x04"
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_SMALL = 1 << 20  # what unpacks to less is harmless at any ratio
_DOCTYPES = tuple("<!DOCTYPE".encode(code) for code in ("utf-8", "utf-16-le", "utf-16-be"))


@attrs.frozen(kw_only=True)
class _OfficeParser:
    _job: ClassVar[str]
    """Reads one, in this module."""
    _member: ClassVar[bytes]
    """The file in the package that tells what it is."""

    limits: ParseLimits = attrs.field(factory=ParseLimits)
    signature: str
    endings: frozenset[str]

    def recognises(self, data: bytes) -> bool:
        """Whether it is a package of this kind."""
        # The names of a zip's files stand in its directory, at its end.
        return data.startswith(_ZIP) and self._member in data[-(1 << 16) :]

    def parse(self, name: str, data: bytes) -> ParsedFile:
        """What the worker's job makes of it."""
        if data.startswith(_OLE):
            raise ParseError(
                f"{name!r} is encrypted, or of the format that Office had before 2007: save a "
                "copy without a password in the current format"
            )
        if not data.startswith(_ZIP):
            raise ParseError(
                f"{name!r} is damaged, or no office file: open it in the program that made it, "
                "and save it again"
            )
        return run_isolated(
            f"triptych_backends.parsing.office:{self._job}",
            name,
            data,
            self.limits,
            signature=self.signature,
            extra="office",
        )


@attrs.frozen(kw_only=True)
class DocxParser(_OfficeParser):
    """Word documents by python-docx, in a worker process; see `read_docx`."""

    _job = "read_docx"
    _member = b"word/document.xml"
    signature: str = attrs.field(default="docx/2", init=False)
    endings: frozenset[str] = attrs.field(default=frozenset((".docx", ".docm")), init=False)


@attrs.frozen(kw_only=True)
class PptxParser(_OfficeParser):
    """Presentations by python-pptx, in a worker process; see `read_pptx`."""

    _job = "read_pptx"
    _member = b"ppt/presentation.xml"
    signature: str = attrs.field(default="pptx/2", init=False)
    endings: frozenset[str] = attrs.field(default=frozenset((".pptx", ".pptm")), init=False)


@attrs.frozen(kw_only=True)
class XlsxParser(_OfficeParser):
    """Workbooks by openpyxl, in a worker process; see `read_xlsx`."""

    _job = "read_xlsx"
    _member = b"xl/workbook.xml"
    signature: str = attrs.field(default="xlsx/1", init=False)
    endings: frozenset[str] = attrs.field(default=frozenset((".xlsx", ".xlsm")), init=False)


def check_package(reading: Reading) -> None:
    """Refuse an archive that unpacks to too much, or whose XML declares entities.

    zipfile reads no more of a member than its directory entry says, so that the sizes there
    hold whatever the packed data is. ECMA-376 (part 2) forbids document type declarations.
    """
    name, limits = reading.name, reading.limits
    try:
        archive = zipfile.ZipFile(io.BytesIO(reading.data))
    except (zipfile.BadZipFile, ValueError, OSError) as error:
        raise ParseError(
            f"{name!r} is damaged, or no office file ({error}): open it in the program that made "
            "it, and save it again"
        ) from error
    members = archive.infolist()
    if len(members) > limits.max_members:
        raise ParseError(f"{name!r} holds {len(members):,} files, more than {limits.max_members:,}")
    if sum(member.file_size for member in members) > limits.max_unpacked:
        raise ParseError(
            f"{name!r} unpacks to more than {limits.max_unpacked:,} bytes: split it, or raise "
            "max_unpacked of ParseLimits"
        )
    for member in members:
        if member.flag_bits & 1:
            raise ParseError(f"{name!r} is encrypted: save a copy without a password")
        if member.file_size > max(_SMALL, limits.max_ratio * member.compress_size):
            raise ParseError(
                f"{name!r} looks like a zip bomb: {member.filename!r} unpacks to "
                f"{member.file_size:,} bytes from {member.compress_size:,}. If it can be "
                "trusted, raise max_ratio of ParseLimits"
            )
    for member in members:
        if member.filename.lower().endswith((".xml", ".rels", ".vml")):
            head = archive.read(member)
            if any(mark in head for mark in _DOCTYPES):
                raise ParseError(
                    f"{name!r} declares a document type in {member.filename!r}, which no office "
                    "program does: it is not read"
                )


def _describe(reading: Reading, title: str | None) -> None:
    if shown := one_line(title or ""):
        reading.metadata["title"] = shown[:300]
    reading.metadata["kind"] = "markdown"


def _markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """The rows of cells that hold anything; the first of several is the table's head."""
    filled = [cells for cells in rows if any(cells)]
    lines = [f"| {' | '.join(cells)} |" for cells in filled]
    if len(lines) > 1:
        lines.insert(1, "|" + " --- |" * len(filled[0]))
    return "\n".join(lines)


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
    _describe(reading, document.core_properties.title)
    paged = bool(document.element.body.xpath(".//w:lastRenderedPageBreak[1]"))
    page = 1
    before = ""
    styles: dict[str | None, str] = {}  # looking one up walks over all of them
    for number, block in enumerate(document.iter_inner_content(), start=1):
        place = ("page", page) if paged else ("paragraph", number)
        if isinstance(block, Table):
            text, kind = _word_table(block), "table"
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


def _word_table(table: Any) -> str:
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
        rows.append(cells)
    return _markdown_table(rows)


def _cell_text(cell: Any, table: Any) -> str:
    from docx.table import _Cell

    return one_line(_Cell(cell, table).text).replace("|", "\\|")


def read_pptx(reading: Reading) -> None:
    """Each slide's title as a heading, its text, tables and notes; hidden slides too."""
    import pptx

    check_package(reading)
    deck = pptx.Presentation(io.BytesIO(reading.data))
    title = deck.core_properties.title
    _describe(reading, "" if title == "PowerPoint Presentation" else title)
    for number, slide in enumerate(deck.slides, start=1):
        blocks = list(_slide(slide, reading))
        reading.builder.add("\n\n".join(blocks), "slide", number)


def _slide(slide: Any, reading: Reading) -> Iterator[str]:
    heading = slide.shapes.title
    if heading is not None and heading.text_frame.text.strip():
        yield f"# {one_line(heading.text_frame.text)}"
    for shape in _shapes(slide.shapes, reading, 0):
        if heading is not None and shape.shape_id == heading.shape_id:
            continue
        if shape.has_text_frame:
            text = _frame(shape.text_frame)
            if text:
                yield text
        elif getattr(shape, "has_table", False) and shape.has_table:
            yield _slide_table(shape.table)
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = _frame(slide.notes_slide.notes_text_frame)
        if notes:
            yield f"Notes: {notes}"


def _shapes(shapes: Any, reading: Reading, depth: int) -> Iterator[Any]:
    from pptx.shapes.group import GroupShape

    if depth > reading.limits.max_depth:
        raise ParseError(f"{reading.name!r} nests groups deeper than {reading.limits.max_depth}")
    for shape in shapes:
        if isinstance(shape, GroupShape):
            yield from _shapes(shape.shapes, reading, depth + 1)
        else:
            yield shape


def _frame(frame: Any) -> str:
    lines = []
    paragraphs = [each for each in frame.paragraphs if each.text.strip()]
    for paragraph in paragraphs:
        text = markdown_safe(one_line(paragraph.text))
        lines.append(f"{'  ' * paragraph.level}- {text}" if len(paragraphs) > 1 else text)
    return "\n".join(lines)


def _slide_table(table: Any) -> str:
    rows = [[one_line(cell.text).replace("|", "\\|") for cell in row.cells] for row in table.rows]
    return _markdown_table(rows)


_MOST_ROWS = 1_048_576  # a sheet's; a file may claim a row far after


def read_xlsx(reading: Reading) -> None:
    """Each sheet under a heading, a paragraph a row; of formulas the value last worked out."""
    openpyxl = import_module("openpyxl")  # its types are no part of it
    check_package(reading)
    book = openpyxl.load_workbook(
        io.BytesIO(reading.data), read_only=True, data_only=True, keep_links=False
    )
    _describe(reading, book.properties.title)
    for sheet in book.worksheets:
        name = one_line(sheet.title)
        rows = _rows(sheet)
        first = next(rows, None)
        if first is not None:
            reading.builder.add(f"# {name}")
            add_rows(reading.builder, chain((first,), rows), within=f"sheet {name}")


def _rows(sheet: Any) -> Iterator[tuple[int, Sequence[str]]]:
    """The rows that hold anything, with their numbers in the sheet."""
    # What a sheet says of its own size may be wrong, and may be all of a million rows.
    sheet.reset_dimensions()
    for number, row in enumerate(sheet.iter_rows(values_only=True), start=1):
        if number > _MOST_ROWS:
            return
        if any(cell is not None for cell in row):
            yield number, [_shown(cell) for cell in row]


def _shown(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "TRUE" if cell else "FALSE"
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e15:
        return str(int(cell))
    if isinstance(cell, datetime.datetime):
        midnight = cell.time() == datetime.time()
        return cell.date().isoformat() if midnight else cell.isoformat(sep=" ")
    return str(cell)
