"""PDF by PDFium (the package pypdfium2), page by page."""

from __future__ import annotations

import re
from collections import Counter
from importlib import import_module
from typing import Any

import attrs

from triptych.errors import ParseError
from triptych.parsing.builder import drop_contents_lines, markdown_safe, one_line
from triptych.parsing.limits import ParseLimits
from triptych.parsing.parsed import ParsedFile
from triptych_backends.parsing.worker import Reading
from triptych_backends.parsing.worker_process import run_isolated

__all__ = ["PdfParser"]

_HEADER_WITHIN = 1024  # readers look for the header so far into a file
_MOST_PAGES = 20_000
_MOST_BOOKMARKS = 5_000
_FEWEST_PAGES = 4  # with fewer, a line that repeats may be a coincidence
_SHARE = 0.6
# PDFium's mark for a hyphen that only the end of a line has made.
_SOFT_HYPHEN = re.compile(r"[\x02\ufffe](?:\r?\n)?")


@attrs.frozen(kw_only=True)
class PdfParser:
    """PDF files, in a worker process. Pages are the locators, bookmarks become headings."""

    limits: ParseLimits = attrs.field(factory=ParseLimits)
    signature: str = attrs.field(default="pdf/2", init=False)
    endings: frozenset[str] = attrs.field(default=frozenset((".pdf",)), init=False)

    def recognises(self, data: bytes) -> bool:
        """Whether it begins as a PDF does."""
        return data.startswith(b"%PDF-")

    def parse(self, name: str, data: bytes) -> ParsedFile:
        """The text of the pages; scanned pages have none, which a note tells."""
        if b"%PDF-" not in data[:_HEADER_WITHIN]:
            raise ParseError(
                f"{name!r} is not a PDF: it does not begin with %PDF-. Name it rightly"
            )
        return run_isolated(
            "triptych_backends.parsing.pdf:read_pdf",
            name,
            data,
            self.limits,
            signature=self.signature,
            extra="pdf",
        )


def read_pdf(reading: Reading) -> None:
    """The worker's job."""
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
    title = one_line(document.get_metadata_dict().get("Title", ""))
    pages, length, failed = [], 0, []
    for index in range(len(document)):
        try:
            page = document[index]
            text_page = page.get_textpage()
            text = text_page.get_text_range()
            text_page.close()
            page.close()
        except pypdfium2.PdfiumError:
            failed.append(index + 1)
            text = ""
        pages.append(_cleaned(text))
        length += len(text)
        if length > reading.limits.max_characters:
            break  # the builder tells it below
    headings = _bookmarks(document)
    _drop_running_lines(pages)
    matched = False
    shown = []
    for index, text in enumerate(pages):
        marked, found = _with_headings(text, headings.get(index, []))
        matched = matched or found
        shown.append(marked)
    for number, text in enumerate(shown if matched else pages, start=1):
        reading.builder.add(text, "page", number)
    if matched:
        reading.metadata["kind"] = "markdown"
    if title:
        reading.metadata["title"] = title[:300]
    empty = [number for number, text in enumerate(pages, start=1) if not text.strip()]
    if failed:
        reading.notes.append(f"{name!r}: left out, because it cannot be read: {_count(failed)}")
    if empty:
        reading.notes.append(
            f"{name!r}: no text on {_count(empty)}; if they are scanned, put the file through "
            "character recognition first"
        )


def _count(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:5]))
    if len(numbers) == 1:
        return f"page {shown}"
    return f"pages {shown}" + (f" and {len(numbers) - 5} more" if len(numbers) > 5 else "")


def _cleaned(text: str) -> str:
    text = _SOFT_HYPHEN.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return drop_contents_lines(text)


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


def _drop_running_lines(pages: list[str]) -> None:
    """Take page headers, footers and numbers from ``pages``: the first or last line of most.

    A line with words that is all of its page is the page's text, and stays.
    """
    whole = {
        index
        for index, text in enumerate(pages)
        if "\n" not in text.strip("\n") and any(each.isalpha() for each in text)
    }
    for place in (0, -1):
        edges = []
        for text in pages:
            lines = text.strip("\n").split("\n")
            edges.append(re.sub(r"\d+", "0", one_line(lines[place]))[:200])
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
