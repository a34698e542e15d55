"""Parsing PDF with PDFium (the package pypdfium2), page by page, with tables and headings."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import attrs

from triptych.errors import ParseError
from triptych.parsing import ParsedFile, ParseLimits, lost, markdown_safe, omission, one_line, words
from triptych.records import Omission
from triptych_parsers.pdf_furniture import (
    Dropped,
    drop_running_lines,
    omissions_of,
    pages_named,
)
from triptych_parsers.pdf_headings import bookmarks_of, sized_headings
from triptych_parsers.pdf_hyphens import Hyphens
from triptych_parsers.pdf_layout import Line, markdown_table, plain_lines
from triptych_parsers.pdf_source import Page, opened, page_of, read_page
from triptych_parsers.worker import Reading, run_isolated

_HEADER_WITHIN = 1024  # readers look for the header so far into a file
SCANNED = 'where it is scanned, --ocr reads it (extra "ocr")'
_NO_TITLE = re.compile(
    r"\(?(?:untitled|anonymous|unspecified|document|presentation)(?: document)?\)?[-_ ]?[\d()]*"
    r"|microsoft (?:word|excel|powerpoint) - .*",
    re.IGNORECASE,
)
"""Titles that programs give by themselves; the name of the file says more."""
_LAYOUT_SHARE = 0.5
"""Of the time for a file, what tables and headings may take; the text comes first."""


@attrs.frozen(kw_only=True)
class PdfParser:
    """PDF files, in a worker process.

    Locators are pages. Bookmarks become headings; without bookmarks, text in large type does.
    Tables become Markdown tables.
    """

    limits: ParseLimits = attrs.field(factory=ParseLimits)
    ocr: bool = False
    endings: frozenset[str] = attrs.field(default=frozenset((".pdf",)), init=False)

    @property
    def signature(self) -> str:
        """The parser's version, and that of character recognition if it is asked for."""
        return "pdf/7+ocr/1" if self.ocr else "pdf/7"

    def recognises(self, data: bytes) -> bool:
        """Return whether ``data`` starts like a PDF."""
        return data.startswith(b"%PDF-")

    def parse(self, name: str, data: bytes) -> ParsedFile:
        """Return the text of the pages; what of them is left out is named."""
        if b"%PDF-" not in data[:_HEADER_WITHIN]:
            raise ParseError(f"{name!r} is not a PDF: it does not start with %PDF-. Rename it")
        return run_isolated(
            "triptych_parsers.pdf:read_pdf",
            name,
            data,
            self.limits,
            signature=self.signature,
            extra="ocr" if self.ocr else "pdf",
            ocr=self.ocr,
        )


def read_pdf(reading: Reading) -> None:
    """The worker's job."""
    document, with_form = opened(reading)
    bookmarks = bookmarks_of(document)
    pages = _read_pages(reading, document, with_form=with_form)
    _join_hyphens(pages)
    dropped = _drop_contents(pages, bookmarks)
    headings = bookmarks or sized_headings([page.lines for page in pages])
    titles = {(page, title.casefold()) for page, found in headings.items() for _, title in found}
    dropped += drop_running_lines([page.lines for page in pages], titles)
    _read_scans(reading, document, pages, with_form=with_form)
    texts = _write(reading, pages, headings)
    reading.omissions += [*omissions_of(dropped), *_lost(pages, texts, dropped)]
    _name_pictures(reading, pages)
    pypdfium2 = import_module("pypdfium2")  # it has no types
    if document.get_formtype() == pypdfium2.raw.FORMTYPE_XFA_FULL:
        reading.no_text = "it is an XFA form, which only the programs of Adobe show"
    title = one_line(document.get_metadata_dict().get("Title", ""))
    if title and not _NO_TITLE.fullmatch(title):
        reading.metadata["title"] = title[:300]


def _read_pages(reading: Reading, document: Any, *, with_form: bool) -> list[Page]:
    """The pages as far as the limit of characters allows; beyond it the builder raises."""
    pypdfium2 = import_module("pypdfium2")
    pages: list[Page] = []
    length = late = 0
    end = time.monotonic() + _LAYOUT_SHARE * reading.limits.seconds
    for index in range(len(document)):
        in_time = time.monotonic() < end
        late += not in_time
        try:
            pages.append(read_page(document, index, with_form=with_form, with_layout=in_time))
        except pypdfium2.PdfiumError:
            pages.append(Page([], is_damaged=True))
        length += len(pages[-1].text)
        if length > reading.limits.max_characters:
            break
    if late:
        reading.notes.append(
            f"{reading.name!r}: its last {'page' if late == 1 else f'{late:,} pages'} have no "
            "tables and headings, since looking for them takes long; raise seconds of ParseLimits "
            f"(now {reading.limits.seconds:g})"
        )
    return pages


def _join_hyphens(pages: Sequence[Page]) -> None:
    hyphens = Hyphens([page.text for page in pages])
    for page in pages:
        page.text = hyphens.joined(page.text)
        for line in page.lines:
            line.text = hyphens.joined(line.text)
            if line.table:
                line.table = [[hyphens.joined(cell) for cell in row] for row in line.table]


def _drop_contents(
    pages: Sequence[Page], bookmarks: Mapping[int, Sequence[tuple[int, str]]]
) -> list[Dropped]:
    """Take the lines of the table of contents from ``pages``: those that name a bookmark of a
    later page, with dotted leaders and a page number."""
    goals = {title.casefold(): page for page, marks in bookmarks.items() for _, title in marks}
    dropped = []
    for index, page in enumerate(pages if goals else ()):
        kept = []
        for line in page.lines:
            if not line.table and goals.get(_contents_title(line.text), -1) > index:
                dropped.append(Dropped(index, line.text, "table of contents"))
            else:
                kept.append(line)
        page.lines = kept
    return dropped


def _contents_title(line: str) -> str:
    """What a line of a table of contents names; "" of other lines."""
    text = one_line(line)
    before = text.rstrip("0123456789ivxlc")
    title = before.rstrip(" .\u2024\u2025\u2026·")
    return title.casefold() if before != text and len(before) - len(title) >= 4 else ""


def _read_scans(reading: Reading, document: Any, pages: list[Page], *, with_form: bool) -> None:
    """Read the pictures among ``pages`` by character recognition, if that is asked for."""
    scans = [at for at, page in enumerate(pages) if page.is_picture and not words(page.text)]
    if not scans or not reading.options.get("ocr"):
        return
    from triptych_parsers.ocr import drawn, read_pages

    def draw(index: int) -> Any:
        return drawn(page_of(document, index, with_form=with_form))

    for number, text in read_pages(reading, ((at + 1, partial(draw, at)) for at in scans)).items():
        if text:
            pages[number - 1] = Page(plain_lines(text), text)


def _write(
    reading: Reading, pages: Sequence[Page], headings: Mapping[int, Sequence[tuple[int, str]]]
) -> list[str]:
    """Add the pages to the text; return what was added for each."""
    texts = []
    is_markdown = False
    for index, page in enumerate(pages):
        text, is_marked = _markdown(page.lines, headings.get(index, ()))
        texts.append(text)
        is_markdown = is_markdown or is_marked
    if is_markdown:
        reading.metadata["kind"] = "markdown"
    else:
        texts = [_squeezed(line.text for line in page.lines) for page in pages]
    for number, text in enumerate(texts, start=1):
        reading.builder.add(text, "page", number)
    return texts


def _markdown(lines: Sequence[Line], headings: Sequence[tuple[int, str]]) -> tuple[str, bool]:
    """The lines as Markdown with tables and ``headings``, and whether there are any."""
    levels = {title.casefold(): level for level, title in headings}
    shown = []
    is_marked = False
    for line in lines:
        if line.table:
            is_marked = True
            shown.append(f"\n{markdown_table(line.table)}\n")
            if not line.text:
                continue
        level = levels.pop(one_line(line.text).casefold(), 0) if levels else 0
        is_marked = is_marked or level > 0
        title = f"\n{'#' * level} {one_line(line.text)}\n"
        shown.append(title if level else markdown_safe(line.text))
    return _squeezed(shown), is_marked


def _squeezed(lines: Iterable[str]) -> str:
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")


def _lost(
    pages: Sequence[Page], texts: Sequence[str], dropped: Sequence[Dropped]
) -> Iterator[Omission]:
    """What PDFium reads on the pages, and neither their text has nor was dropped."""
    named: dict[int, list[str]] = {}
    for each in dropped:
        named.setdefault(each.page, []).append(each.text)
    for index, (page, text) in enumerate(zip(pages, texts, strict=True)):
        missing = lost(page.text, "\n".join([text, *named.get(index, ())]))
        found = omission(f"page {index + 1}", list(missing.elements()), "separated by a table")
        if found is not None:
            yield found


def _name_pictures(reading: Reading, pages: Sequence[Page]) -> None:
    """Name the pages that show something and have no text, or the whole file."""
    damaged = [number for number, page in enumerate(pages, start=1) if page.is_damaged]
    pictures = [number for number, page in enumerate(pages, start=1) if page.is_picture]
    if damaged:
        reading.omissions.append(
            Omission(place=pages_named(damaged), words=0, reason="cannot be read: damaged")
        )
    how = "character recognition is sure of none" if reading.options.get("ocr") else SCANNED
    if pictures and all(words(pages[number - 1].text) for number in pictures):
        how = "but for a few words, so --ocr leaves it"
    if any(words(page.text) and not page.is_picture for page in pages):
        if pictures:
            what = "it is a picture" if len(pictures) == 1 else "they are pictures"
            reading.omissions.append(
                Omission(place=pages_named(pictures), words=0, reason=f"no text: {what}; {how}")
            )
    elif len(pictures) == 1:
        reading.no_text = f"its page is a picture; {how}"
    elif pictures:
        reading.no_text = f"its {len(pictures):,} pages are pictures; {how}"
    elif not reading.builder.content:
        reading.no_text = "its pages are damaged" if damaged else "its pages are empty"
