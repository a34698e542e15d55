"""Parsing PDF with PDFium (the package pypdfium2), page by page, with tables and headings."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import partial
from importlib import import_module
from statistics import median
from typing import Any

import attrs

from triptych.errors import ParseError
from triptych.parsing.contract import ParsedFile, ParseLimits, markdown_safe, one_line
from triptych_backends.parsing.pdf_layout import Line, PageLayout, markdown_table, read_layout
from triptych_backends.parsing.pdf_tables import Glyph
from triptych_backends.parsing.worker import Reading, run_isolated

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


def sized_headings(pages: Sequence[PageLayout]) -> dict[int, list[tuple[int, str]]]:
    """By page, from 0, the levels and texts of the lines that are larger than the body's.

    The body's size is that of most letters. A line within a paragraph is none, however large its
    letters: where most of a file is small print, its text is larger. The largest headings have
    level 1; there are at most four levels.
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
        shown = [line for line in page.lines if line.glyphs]
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


_HEADER_WITHIN = 1024  # readers look for the header so far into a file
_MOST_PAGES = 20_000
_MOST_BOOKMARKS = 5_000
_FEWEST_PAGES = 4  # with fewer, a line that repeats may be a coincidence
_SHARE = 0.6
# PDFium's mark for a hyphen that only the end of a line has made.
_LAYOUT_SHARE = 0.5
"""Of the time for a file, what tables and headings may take; the text comes first."""
# Where a table stands, while lines are dropped and made headings. No text has this character.
_MARK = re.compile("\x0e([0-9]+)\x0e")
_SOFT_HYPHEN = re.compile(r"[\x02\ufffe](?:\r?\n)?")


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
        return "pdf/5+ocr/1" if self.ocr else "pdf/5"

    def recognises(self, data: bytes) -> bool:
        """Return whether ``data`` starts like a PDF."""
        return data.startswith(b"%PDF-")

    def parse(self, name: str, data: bytes) -> ParsedFile:
        """Return the text of the pages; scanned pages have none, and a note says so."""
        if b"%PDF-" not in data[:_HEADER_WITHIN]:
            raise ParseError(f"{name!r} is not a PDF: it does not start with %PDF-. Rename it")
        return run_isolated(
            "triptych_backends.parsing.pdf:read_pdf",
            name,
            data,
            self.limits,
            signature=self.signature,
            extra="ocr" if self.ocr else "pdf",
            ocr=self.ocr,
        )


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


SCANNED = 'where it is scanned, --ocr reads it (extra "ocr")'


def read_pdf(reading: Reading) -> None:
    """The worker's job."""
    pypdfium2 = import_module("pypdfium2")  # it has no types
    name = reading.name
    document, with_form = opened(reading)
    title = one_line(document.get_metadata_dict().get("Title", ""))
    pages: list[str] = []
    layouts: list[PageLayout] = []
    tables: list[str] = []
    length, failed, unread = 0, [], 0
    bookmarks = _bookmarks(document)
    goals = {title.casefold(): page for page, marks in bookmarks.items() for _, title in marks}
    end = time.monotonic() + _LAYOUT_SHARE * reading.limits.seconds
    for index in range(len(document)):
        try:
            page = page_of(document, index, with_form=with_form)
            text_page = page.get_textpage()
            text = text_page.get_text_range()
            if time.monotonic() < end:
                layouts.append(read_layout(page, text_page, text))
                text = _with_marks(layouts[-1], tables)
            else:
                unread += 1
            text_page.close()
            page.close()
        except pypdfium2.PdfiumError:
            failed.append(index + 1)
            text = ""
        later = {title for title, page in goals.items() if page > index}
        pages.append(_cleaned(text, later))
        length += len(text)
        if length > reading.limits.max_characters:
            break  # the builder tells it below
    empty = [at for at, text in enumerate(pages, 1) if at not in failed and not text.strip()]
    headings = bookmarks or sized_headings(layouts)
    _drop_running_lines(pages, headings)
    _read_scans(reading, document, pages, empty, with_form=with_form)
    matched = False
    shown = []
    for index, text in enumerate(pages):
        marked, found = _with_headings(text, headings.get(index, []))
        matched = matched or found
        shown.append(marked)
    matched = matched or bool(tables)
    for number, text in enumerate(shown if matched else pages, start=1):
        reading.builder.add(_MARK.sub(lambda found: tables[int(found[1])], text), "page", number)
    if matched:
        reading.metadata["kind"] = "markdown"
    if title:
        reading.metadata["title"] = title[:300]
    empty = [number for number, text in enumerate(pages, start=1) if not text.strip()]
    if unread:
        reading.notes.append(
            f"{name!r}: its last {_pages(unread)} have no tables and headings, since looking for "
            f"them takes long; raise seconds of ParseLimits (now {reading.limits.seconds:g})"
        )
    if failed:
        reading.notes.append(f"{name!r}: left out, because it cannot be read: {_count(failed)}")
    if empty:
        reading.notes.append(
            f"{name!r}: no text on {_count(empty)}: "
            + ("character recognition finds none" if reading.options.get("ocr") else SCANNED)
        )


def _read_scans(
    reading: Reading, document: Any, pages: list[str], empty: Sequence[int], *, with_form: bool
) -> None:
    """Read the ``empty`` pages, from 1, by character recognition, if that is asked for."""
    if not empty or not reading.options.get("ocr"):
        return
    from triptych_backends.parsing.ocr import drawn, read_pages

    def draw(number: int) -> Any:
        return drawn(page_of(document, number - 1, with_form=with_form))

    for number, text in read_pages(reading, ((at, partial(draw, at)) for at in empty)).items():
        pages[number - 1] = text


def _pages(count: int) -> str:
    return "page" if count == 1 else f"{count:,} pages"


def _count(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:5]))
    if len(numbers) == 1:
        return f"page {shown}"
    return f"pages {shown}" + (f" and {len(numbers) - 5} more" if len(numbers) > 5 else "")


def _cleaned(text: str, later: Set[str]) -> str:
    """``text`` without the lines of the table of contents: those that name a bookmark of a
    ``later`` page, with dotted leaders and a page number."""
    text = _SOFT_HYPHEN.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return "\n".join(line for line in text.split("\n") if not _is_contents_line(line, later))


def _is_contents_line(line: str, titles: Set[str]) -> bool:
    text = one_line(line)
    before = text.rstrip("0123456789ivxlc")
    title = before.rstrip(" .\u2024\u2025\u2026·")
    return before != text and len(before) - len(title) >= 4 and title.casefold() in titles


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
    """A page; of a form, with the values of its fields as text."""
    page = document[index]
    if with_form:
        page.flatten()
        page.close()  # what is flattened shows once the page is loaded again
        page = document[index]
    return page


def _with_marks(layout: PageLayout, tables: list[str]) -> str:
    """The lines of a page, a mark where a table stands; the tables go to ``tables``."""
    lines = []
    for number, line in enumerate(layout.lines):
        text = line.text.replace("\x0e", "")
        if number in layout.tables:
            tables.append(markdown_table(layout.tables[number]))
            lines.append(f"\n\x0e{len(tables) - 1}\x0e\n" + text)
        elif text or line.glyphs or not lines or lines[-1]:
            lines.append(text)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")


def _bookmarks(document: Any) -> dict[int, list[tuple[int, str]]]:
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


def _with_headings(text: str, headings: list[tuple[int, str]]) -> tuple[str, bool]:
    """``text`` as Markdown, the lines that a bookmark names made headings; whether any is."""
    levels = {title.casefold(): level for level, title in headings}
    lines = []
    found = False
    for line in markdown_safe(text).split("\n"):
        level = levels.pop(one_line(line).casefold(), 0) if levels else 0
        found = found or level > 0
        lines.append(f"\n{'#' * level} {one_line(line)}\n" if level else line)
    return "\n".join(lines), found


def _drop_running_lines(
    pages: list[str], headings: Mapping[int, Sequence[tuple[int, str]]]
) -> None:
    """Take page headers, footers and numbers from ``pages``: the first or last line of most.

    A line with words that is all of its page is the page's text, and stays; so do ``headings``.
    """
    titles = {(page, title.casefold()) for page, found in headings.items() for _, title in found}
    whole = {
        index
        for index, text in enumerate(pages)
        if "\n" not in text.strip("\n") and any(each.isalpha() for each in text)
    }
    for place in (0, -1):
        edges: list[str] = []
        for text in pages:
            lines = text.strip("\n").split("\n")
            edge = one_line(lines[place])
            titled = (len(edges), edge.casefold()) in titles
            edges.append("" if titled else re.sub(r"\d+", "0", edge)[:200])
        counts = Counter(edge for edge in edges if edge)
        if not counts:
            return
        usual, count = counts.most_common(1)[0]
        if count < max(_FEWEST_PAGES, _SHARE * len(pages)):
            continue
        # A header is first seen on the page whose title it is.
        kept = edges.index(usual) if place == 0 else -1
        for index, edge in enumerate(edges):
            if edge == usual and index != kept and index not in whole:
                lines = pages[index].strip("\n").split("\n")
                del lines[place]
                pages[index] = "\n".join(lines)
