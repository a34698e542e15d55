"""A text put together block by block, under a limit, with the place of each block."""

from __future__ import annotations

import re
from collections.abc import Sequence

from triptych.chunking.outline import Locator, Part
from triptych.errors import ParseError

__all__ = [
    "CONTENTS_SHARE",
    "ContentBuilder",
    "contents_lines",
    "drop_contents_lines",
    "fit",
    "is_contents_line",
    "markdown_safe",
    "one_line",
]

_LEADERS = ".\u2024\u2025\u2026·"
_PAGE = re.compile("[0-9]{1,4}|[ivxlc]{1,6}")

CONTENTS_SHARE = 0.6
"""The share of a block's lines from which on bare page numbers belong to a table of contents."""

_LIKE_MARKDOWN = re.compile(r"^([ ]{0,3})(#{1,6}(?:\s|$)|`{3}|~{3}|=+[ \t]*$|-+[ \t]*$)", re.M)
# What UTF-8 cannot hold, and the control characters that no text has.
_UNFIT = re.compile("[\ud800-\udfff\x00-\x08\x0b\x0e-\x1f\ufffe\uffff]")


class ContentBuilder:
    """Blocks, separated by a blank line; raises ParseError when they outgrow the limit."""

    def __init__(self, name: str, max_characters: int) -> None:
        self.name = name
        self.max_characters = max_characters
        self.locators: list[Locator] = []
        self.parts: list[Part] = []
        self._pieces: list[str] = []
        self.length: int = 0

    def add(
        self,
        text: str,
        unit: str = "",
        number: int = 0,
        *,
        within: str = "",
        counted: bool = False,
        gap: str = "\n\n",
    ) -> None:
        """Append a block after ``gap``; one without visible text is left out."""
        text = fit(text).strip("\r\n")
        if not text or text.isspace():
            return
        if self._pieces:
            self._pieces.append(gap)
            self.length += len(gap)
        start = self.length
        self._pieces.append(text)
        self.length += len(text)
        if self.length > self.max_characters:
            raise ParseError(
                f"{self.name!r} holds more than {self.max_characters} characters of text: split "
                "it, or raise max_characters of ParseLimits"
            )
        if unit:
            self.locators.append(
                Locator(
                    start=start,
                    end=self.length,
                    unit=unit,
                    number=number,
                    within=within,
                    counted=counted,
                )
            )

    @property
    def content(self) -> str:
        """The text so far, its last line ended."""
        return "".join([*self._pieces, "\n"]) if self._pieces else ""


def drop_contents_lines(text: str) -> str:
    """``text`` without the lines of a table of contents (`contents_lines`)."""
    lines = text.split("\n")
    dropped = contents_lines(lines)
    return "\n".join(line for line, drop in zip(lines, dropped, strict=True) if not drop)


def contents_lines(lines: Sequence[str]) -> list[bool]:
    """Which lines are those of a table of contents.

    They are the lines of `is_contents_line`. A converter may put titles and pages on lines of
    their own. Titles with leaders and bare page numbers then count, too, in a block without a blank
    line that has leaders, if such lines are at least `CONTENTS_SHARE` of it. A column of numbers
    anywhere else is kept.
    """
    found = [is_contents_line(line) for line in lines]
    start = 0
    for end in range(len(lines) + 1):
        if end < len(lines) and lines[end].strip():
            continue
        block = range(start, end)
        whole = sum(found[start:end])
        titles = [at for at in block if not found[at] and _has_leaders(lines[at].rstrip())]
        numbers = [at for at in block if _PAGE.fullmatch(lines[at].strip())]
        listed = whole + len(titles) + len(numbers)
        # A title with leaders has its page somewhere; other lines end in dots, too.
        if listed > len(numbers) >= len(titles) and listed >= CONTENTS_SHARE * len(block):
            for at in (*titles, *numbers):
                found[at] = True
        start = end + 1
    return found


def is_contents_line(line: str) -> bool:
    """Whether a line is a title, dotted leaders and a page: "Introduction ........ 12"."""
    text = line.rstrip()
    before = text.rstrip("0123456789")
    if before == text:
        before = text.rstrip("ivxlcdm")
    return 1 <= len(text) - len(before) <= 6 and _has_leaders(before)


def _has_leaders(text: str) -> bool:
    title = text.rstrip(f" \t{_LEADERS}")
    dots = sum(1 if each == "." else 3 for each in text[len(title) :] if each in _LEADERS)
    return bool(title.strip()) and dots >= 5


def markdown_safe(text: str) -> str:
    """``text`` with what would begin a Markdown heading or fence escaped by a backslash."""
    return _LIKE_MARKDOWN.sub(r"\1\\\2", text)


def fit(text: str) -> str:
    """``text`` without what no store can hold, and the control characters that no text has."""
    return _UNFIT.sub("", text)


def one_line(text: str) -> str:
    """``text`` with every run of white space as one space."""
    return " ".join(text.split())
