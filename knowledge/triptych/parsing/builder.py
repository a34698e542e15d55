"""A text put together block by block, under a limit, with the place of each block."""

from __future__ import annotations

import re

from triptych.chunking.outline import Locator, Part
from triptych.errors import ParseError

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


def markdown_safe(text: str) -> str:
    """``text`` with what would begin a Markdown heading or fence escaped by a backslash."""
    return _LIKE_MARKDOWN.sub(r"\1\\\2", text)


def fit(text: str) -> str:
    """``text`` without what no store can hold, and the control characters that no text has."""
    return _UNFIT.sub("", text)


def one_line(text: str) -> str:
    """``text`` with every run of white space as one space."""
    return " ".join(text.split())
