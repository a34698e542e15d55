"""Makes PDF and office files, by the libraries that people make them with."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def make_pdf(
    pages: Sequence[Sequence[str]], *, title: str = "", marks: bool = False, password: str = ""
) -> bytes:
    """A page of lines each; with ``marks`` the first line of each is a bookmark."""
    canvas_of: Any = import_module("reportlab.pdfgen.canvas")
    locks: Any = import_module("reportlab.lib.pdfencrypt")
    out = io.BytesIO()
    lock = locks.StandardEncryption(password) if password else None
    canvas = canvas_of.Canvas(out, encrypt=lock, invariant=1)
    canvas.setTitle(title)
    for number, lines in enumerate(pages):
        if marks:
            canvas.bookmarkPage(str(number))
            canvas.addOutlineEntry(lines[0], str(number), 0)
        for at, line in enumerate(lines):
            canvas.drawString(72, 780 - 14 * at, line)
        canvas.showPage()
    canvas.save()
    return out.getvalue()


def raw_pdf(*objects: bytes) -> bytes:
    """A PDF of these objects, numbered from 1, the first of them the catalogue."""
    out = b"%PDF-1.7\n"
    places = []
    for number, body in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    return out + (
        b"xref\n0 %d\n0000000000 65535 f \n%btrailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF"
        % (size, table, size, len(out))
    )


def make_docx() -> bytes:
    """Headings, paragraphs, lists, a table; a line of a table of contents."""
    docx: Any = import_module("docx")
    document = docx.Document()
    document.core_properties.title = "The guide"
    document.add_heading("Guide", 1)
    document.add_paragraph("Limits ............ 3")
    document.add_paragraph("# Some text")
    document.add_heading("Limits", 2)
    document.add_paragraph("one", "List Bullet")
    document.add_paragraph("two", "List Bullet 2")
    document.add_paragraph("first", "List Number")
    table = document.add_table(2, 2)
    for at, text in enumerate(("a", "b|c", "1", "")):
        table.cell(at // 2, at % 2).text = text
    return _saved(document)


def make_pptx() -> bytes:
    """Two slides with title, list and table; the second with notes."""
    pptx: Any = import_module("pptx")
    deck = pptx.Presentation()
    for number in (1, 2):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = f"Topic {number}"
        slide.placeholders[1].text = "alpha\nbeta"
    table = slide.shapes.add_table(2, 2, 0, 0, 99, 99).table
    for at, text in enumerate(("k", "v", "speed", "9")):
        table.cell(at // 2, at % 2).text = text
    slide.notes_slide.notes_text_frame.text = "Say this."
    return _saved(deck)


def make_xlsx(sheets: Mapping[str, Sequence[Sequence[object]]]) -> bytes:
    openpyxl: Any = import_module("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(list(row))
    return _saved(book)


def _saved(document: Any) -> bytes:
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def zipped(members: Mapping[str, bytes | str]) -> bytes:
    """A zip archive of these files."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def repacked(data: bytes, member: str, text: bytes | str) -> bytes:
    """The archive with another text in one of its files."""
    archive = zipfile.ZipFile(io.BytesIO(data))
    members = {name: archive.read(name) for name in archive.namelist()}
    assert member in members
    return zipped({**members, member: text})
