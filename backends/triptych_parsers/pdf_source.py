"""Opening a PDF, and reading its pages one by one."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from importlib import import_module
from itertools import islice
from typing import Any

import attrs

from triptych.errors import ParseError
from triptych.parsing import lost, words
from triptych_parsers.pdf_layout import Line, plain_lines, read_layout, readable
from triptych_parsers.worker import Reading

_MOST_PAGES = 20_000
_MOST_OBJECTS = 5_000
"""Of a page, that are looked at; one that has more shows something."""
_GARBLED = 0.05
"""Of the words of a page: where drawing its form loses more, it is read without."""
_STAMP = 12
"""Words that may stand on a page that is a picture otherwise."""
_BRIEF = 1_000
"""Characters of a page, in which so many words are counted."""
_COVERED = 0.6
"""Of a page, how much pictures cover where they are the page."""


@attrs.define(slots=True)
class Page:
    """A page as it is read; ``text`` is what PDFium says of it, for comparison."""

    lines: list[Line]
    text: str = ""
    is_picture: bool = False
    is_damaged: bool = False


def opened(reading: Reading) -> tuple[Any, bool]:
    """The document that is read, and whether it is a form.

    Raises:
        ParseError: it is damaged, encrypted, or has too many pages.
    """
    pypdfium2 = import_module("pypdfium2")  # it has no types
    name = reading.name
    try:
        document = pypdfium2.PdfDocument(reading.data)
    except pypdfium2.PdfiumError as error:
        if "assword" in str(error) or "ecurity" in str(error):
            raise ParseError(
                f"{name!r} is encrypted: save a copy without a password, and put that"
            ) from error
        raise ParseError(
            f"{name!r} is a damaged PDF: open it in a PDF reader, and print it to a new file"
        ) from error
    if len(document) > _MOST_PAGES:
        raise ParseError(f"{name!r} has more than {_MOST_PAGES:,} pages: split it")
    return document, _begins_form(document)


def _begins_form(document: Any) -> bool:
    """Whether the document is a form, whose fields PDFium then draws."""
    pypdfium2 = import_module("pypdfium2")
    if document.get_formtype() == pypdfium2.raw.FORMTYPE_NONE:
        return False
    try:
        document.init_forms()
    except pypdfium2.PdfiumError:
        return False
    return True


def page_of(document: Any, index: int, *, with_form: bool) -> Any:
    """A page; ``with_form`` with its notes and the values of its fields as text."""
    page = document[index]
    if with_form:
        import_module("pypdfium2.raw").FPDFPage_Flatten(page.raw, 0)
        page.close()  # what is flattened shows once the page is loaded again
        page = document[index]
    return page


def read_page(document: Any, index: int, *, with_form: bool, with_layout: bool) -> Page:
    """Read page ``index``, counted from 0, of the document that `opened` returned.

    Raises:
        PdfiumError: the page is damaged.
    """
    page, values = document[index], []
    if with_form or _has_notes(page):
        before, values = _text_of(page), _field_values(document, page)
        drawn = page_of(document, index, with_form=True)
        if lost(before, _text_of(drawn)).total() <= _GARBLED * len(words(before)):
            page, values = drawn, []
    text_page = page.get_textpage()
    text = readable(text_page.get_text_range())
    lines = read_layout(page, text_page, text) if with_layout else plain_lines(text)
    found = Page([*lines, *map(Line, values)], "\n".join([text, *values]), is_picture(page, text))
    text_page.close()
    page.close()
    return found


def _text_of(page: Any) -> str:
    text_page = page.get_textpage()
    text = readable(text_page.get_text_range())
    text_page.close()
    return text


def _annotations(page: Any) -> Iterator[tuple[int, Any]]:
    raw = import_module("pypdfium2.raw")
    for at in range(min(raw.FPDFPage_GetAnnotCount(page.raw), _MOST_OBJECTS)):
        found = raw.FPDFPage_GetAnnot(page.raw, at)
        yield raw.FPDFAnnot_GetSubtype(found), found
        raw.FPDFPage_CloseAnnot(found)


def _has_notes(page: Any) -> bool:
    """Whether somebody has typed or stamped text onto the page."""
    raw = import_module("pypdfium2.raw")
    return any(
        kind in (raw.FPDF_ANNOT_FREETEXT, raw.FPDF_ANNOT_STAMP) for kind, _ in _annotations(page)
    )


def _field_values(document: Any, page: Any) -> list[str]:
    raw = import_module("pypdfium2.raw")
    kinds = (raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX)
    values: list[str] = []
    form = document.formenv
    for _, each in _annotations(page) if form else ():
        if raw.FPDFAnnot_GetFormFieldType(form.raw, each) in kinds:
            size = raw.FPDFAnnot_GetFormFieldValue(form.raw, each, None, 0)
            units = (raw.FPDF_WCHAR * (size // 2))()
            raw.FPDFAnnot_GetFormFieldValue(form.raw, each, units, size)
            values += bytes(units).decode("utf-16-le", "replace").rstrip("\0").splitlines()
    return values


def is_picture(page: Any, text: str) -> bool:
    """Return whether the page shows something, and its ``text`` does not say what: it has none, or
    a stamp or page number beside a picture of the page."""
    raw = import_module("pypdfium2.raw")
    count = len(words(text.strip()[:_BRIEF]))
    if count > _STAMP:
        return False
    if count:
        pictures = page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=1)
        boxes = [each.get_bounds() for each in islice(pictures, _MOST_OBJECTS)]
        covered = sum((right - left) * (top - bottom) for left, bottom, right, top in boxes)
        width, height = page.get_size()
        return bool(covered >= _COVERED * width * height)
    kinds = [raw.FPDF_PAGEOBJ_IMAGE, raw.FPDF_PAGEOBJ_PATH, raw.FPDF_PAGEOBJ_SHADING]
    objects = page.get_objects(filter=kinds, max_depth=4)
    return any(
        at == _MOST_OBJECTS or each.type != raw.FPDF_PAGEOBJ_PATH or _is_seen(raw, each.raw)
        for at, each in enumerate(objects)
    )


def _is_seen(raw: Any, path: Any) -> bool:
    """Whether a path is drawn, and not in white: programs paint the paper so."""
    fill, stroke = ctypes.c_int(), ctypes.c_int()
    if not raw.FPDFPath_GetDrawMode(path, fill, stroke):
        return False
    for is_drawn, color_of in (
        (fill, raw.FPDFPageObj_GetFillColor),
        (stroke, raw.FPDFPageObj_GetStrokeColor),
    ):
        color = [ctypes.c_uint() for _ in range(4)]
        if is_drawn.value and color_of(path, *color) and color[3].value:
            return any(each.value < 255 for each in color[:3])
    return False
