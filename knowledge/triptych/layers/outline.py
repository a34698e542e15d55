"""The outline of a document: sections under headings with their blocks of prose.

One pass over the lines. Markdown is read for what it says, not to the letter: the aim is that
no mark-up, code or navigation passes for prose, and that plain text comes through unharmed.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Final

import attrs
import regex

from triptych.layers.inline import visible_text


class BlockKind(IntEnum):
    """What a block is, the most telling first."""

    PARAGRAPH = 0
    ITEM = 1
    ASIDE = 2
    """A quotation or an admonition."""
    POINTER = 3
    """A list item or line that is nothing but a link, and a row of a table."""


@attrs.frozen(kw_only=True, slots=True)
class Block:
    """One paragraph, item or note, as raw lines joined by line feeds."""

    kind: BlockKind
    text: str


@attrs.frozen(kw_only=True, slots=True)
class Section:
    """A heading's visible text and level (1 to 6) with the blocks directly under it.

    What stands before the first heading is a section with the level 0 and no title.
    """

    level: int
    title: str
    blocks: tuple[Block, ...]


_HEADING: Final = regex.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$", regex.V1)
_CLOSING_MARKS: Final = regex.compile(
    r"(?<![ \t])(?:[ \t]++#++|[ \t]*+\{[ \t]*+[:.#][^{}]*+\})[ \t]*+$", regex.V1
)
_UNDERLINE: Final = regex.compile(r" {0,3}(=+|-+)[ \t]*$", regex.V1)
_FENCE: Final = regex.compile(r"[ \t]*(`{3,}|~{3,})([^`]*)$", regex.V1)
_RULE: Final = regex.compile(r"[ \t]*([-*_=~+.#])[ \t]*(?:\1[ \t]*){2,}+$", regex.V1)
_ITEM: Final = regex.compile(
    r"([ \t]*)(?:[-*+•]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?(.*)$", regex.V1
)
_QUOTE: Final = regex.compile(r" {0,3}>[ ]?", regex.V1)
_TABLE_ROW: Final = regex.compile(r"[ \t]*(?:\||[+][-=+]+[ \t]*$|:?-+:?[ \t]*\|)", regex.V1)
_DEFINITION: Final = regex.compile(r" {0,3}\[[^\[\]]+\]:[ \t]*\S", regex.V1)
# Directives of site generators: MkDocs admonitions and tabs, includes, reStructuredText.
_DIRECTIVE: Final = regex.compile(
    r"[ \t]*(?:/{3,}[ \t]*\w*|:{3,}|!{3}[ \t]|\?{3}\+?[ \t]|={3}[ \t]+\"|\{[*%#]|\.\.[ \t]|--8<--"
    r"|%{1,2}[ \t\w])",
    regex.V1,
)
_ADMONITION: Final = regex.compile(
    r"[ \t]*(?:/{3}[ \t]*|:{3,}[ \t]*\{?|!{3}[ \t]+|\?{3}\+?[ \t]+|\.\.[ \t]+)"
    r"(?:admonition|attention|caution|check|danger|details|error|example|hint|important|info|note"
    r"|question|seealso|success|tip|todo|warning)\b",
    regex.V1 | regex.IGNORECASE,
)
_ADMONITION_END: Final = regex.compile(r"[ \t]*(?:/{3}|:{3,})[ \t]*$", regex.V1)
_RAW_ELEMENT: Final = regex.compile(
    r"[ \t]*<(script|style|pre|svg|table|textarea|iframe|template)\b", regex.V1 | regex.IGNORECASE
)
_ONLY_LINKS: Final = regex.compile(
    r"[\s|•·,/*_-]*(?:!?\[(?:[^\[\]]|\[[^\[\]]{0,200}\])*+\](?:\([^()]*+\)|\[[^\[\]]*+\])[\s|•·,/*_-]*|"
    r"<?https?://\S+[\s|•·,/*_-]*)++$",
    regex.V1,
)
_CONTENTS: Final = regex.compile(
    r"(?:table of )?contents|toc|on this page|目录|目錄|目次|本页内容|inhalt(?:sverzeichnis)?"
    r"|sommaire|table des matières|índice|sumário|indice|содержание|оглавление|차례|목차",
    regex.V1 | regex.IGNORECASE,
)
_FRONT_MATTER: Final = {"---": ("---", "..."), "+++": ("+++",)}
_LONGEST_FRONT_MATTER: Final = 400
_LONGEST_LINE: Final = 20_000
"""Code points of one line that are read; what lies after is data rather than prose."""

_MOST_BLOCKS: Final = 100_000
_MOST_LINES: Final = 300_000


def read_outline(content: str) -> tuple[Section, ...]:
    """The sections of ``content`` in order; those without heading and blocks are left out.

    Left out of all blocks: front matter, fenced and indented code, comments, scripts, styles,
    link definitions, rules, directives and tables of contents. Reading ends after
    300,000 lines or 100,000 headings and blocks.
    """
    reader = _Reader()
    for number, line in enumerate(_lines(content)):
        reader.feed(line)
        if number > _MOST_LINES or reader.size > _MOST_BLOCKS:
            break
    return reader.finish()


def _lines(content: str) -> Iterator[str]:
    lines = content.removeprefix("\ufeff").splitlines()
    start = _front_matter(lines)
    for line in lines[start:]:
        yield line[:_LONGEST_LINE]


def _front_matter(lines: list[str]) -> int:
    """The number of lines that are front matter: a fence, keys, and a fence again."""
    if not lines or (fences := _FRONT_MATTER.get(lines[0].rstrip())) is None:
        return 0
    for number, line in enumerate(lines[1:_LONGEST_FRONT_MATTER], start=1):
        if line.rstrip() in fences:
            body = lines[1:number]
            return number + 1 if any(":" in entry or "=" in entry for entry in body) else 0
    return 0


class _Reader:
    """The state between two lines."""

    def __init__(self) -> None:
        self.size = 0
        self._sections: list[Section] = []
        self._level = 0
        self._title = ""
        self._blocks: list[Block] = []
        self._pending: list[str] = []
        self._kind = BlockKind.PARAGRAPH
        self._fence = ""
        self._until = ""
        self._aside = False
        self._after_blank = True
        self._in_list = False

    def feed(self, line: str) -> None:
        """Read one line."""
        if self._skipped(line):
            return
        if line[:1].isalpha():
            # No mark-up begins with a letter; most lines do.
            after_blank, self._after_blank = self._after_blank, False
            self._prose(line, quoted=False, after_blank=after_blank)
            return
        quote = _QUOTE.match(line)
        if quote is not None:
            line = line[quote.end() :]
            while (quote_again := _QUOTE.match(line)) is not None:
                line = line[quote_again.end() :]
        if not line or line.isspace():
            self._flush()
            self._after_blank = True
            return
        after_blank, self._after_blank = self._after_blank, False
        fence = _FENCE.match(line)
        if fence is not None:
            self._flush()
            # Behind "> " a fence may end with the quotation, unclosed: its lines are quoted too.
            self._fence = fence[1]
            return
        if self._opens_skipped(line) or self._is_heading(line, quoted=quote is not None):
            return
        if _DIRECTIVE.match(line):
            self._flush()
            if _ADMONITION.match(line):
                self._aside = True
            elif _ADMONITION_END.match(line):
                self._aside = False
            return
        if _DEFINITION.match(line) or _RULE.match(line):
            self._flush()
            return
        self._prose(line, quoted=quote is not None, after_blank=after_blank)

    def _prose(self, line: str, *, quoted: bool, after_blank: bool) -> None:
        if self._pending and line[0].isalpha():
            self._pending.append(line.strip())
            return
        item = _ITEM.match(line)
        if item is not None:
            self._flush()
            self._in_list = True
            self._start(BlockKind.ASIDE if quoted or self._aside else BlockKind.ITEM, item[2])
        elif _TABLE_ROW.match(line):
            self._flush()
            self._start(BlockKind.POINTER, line.strip().strip("|"))
            self._flush()
        elif self._pending:
            self._pending.append(line.strip())
        elif after_blank and line.startswith(("    ", "\t")) and not (self._in_list or self._aside):
            self._after_blank = True
        else:
            self._in_list = self._in_list and line[0].isspace()
            kind = BlockKind.ASIDE if quoted or self._aside else BlockKind.PARAGRAPH
            self._start(kind, line.strip())

    def finish(self) -> tuple[Section, ...]:
        """All sections, after the last line."""
        self._end_section()
        return tuple(self._sections)

    def _skipped(self, line: str) -> bool:
        if self._fence:
            bare = _QUOTE.sub("", line, count=1).strip()
            if bare.startswith(self._fence) and not bare.strip(self._fence[0]):
                self._fence = ""
                self._after_blank = True
            return True
        if self._until:
            if self._until in line.lower():
                self._until = ""
            return True
        return False

    def _opens_skipped(self, line: str) -> bool:
        stripped = line.lstrip()
        if stripped.startswith("<!--"):
            self._flush()
            closed = stripped.find("-->")
            if closed < 0:
                self._until = "-->"
            elif stripped[closed + 3 :].strip():
                return False
            return True
        element = _RAW_ELEMENT.match(line)
        if element is None:
            return False
        self._flush()
        closing = f"</{element[1].lower()}"
        if closing not in line.lower():
            self._until = closing
        return True

    def _is_heading(self, line: str, *, quoted: bool) -> bool:
        heading = _HEADING.match(line)
        if heading is not None:
            self._flush()
            if not quoted:
                self._open_section(len(heading[1]), heading[2] or "")
            return True
        underline = _UNDERLINE.match(line)
        if underline is None or quoted or len(self._pending) != 1:
            return False
        if self._kind is not BlockKind.PARAGRAPH:
            return False
        title = self._pending.pop()
        self._open_section(1 if underline[1][0] == "=" else 2, title)
        return True

    def _open_section(self, level: int, raw_title: str) -> None:
        self._end_section()
        self.size += 1
        title = raw_title
        for _ in range(2):
            title = _CLOSING_MARKS.sub("", title)
        self._level, self._title = level, visible_text(title)
        self._aside = self._in_list = False
        self._after_blank = True

    def _end_section(self) -> None:
        self._flush()
        if not _CONTENTS.fullmatch(self._title) and (self._title or self._blocks):
            self._sections.append(
                Section(level=self._level, title=self._title, blocks=tuple(self._blocks))
            )
        self._blocks = []

    def _start(self, kind: BlockKind, text: str) -> None:
        self._kind = kind
        self._pending = [text]

    def _flush(self) -> None:
        if not self._pending:
            return
        lines, self._pending = self._pending, []
        self.size += 1
        text = "\n".join(lines)
        if _ONLY_LINKS.match(text):
            self._blocks += [Block(kind=BlockKind.POINTER, text=line) for line in lines]
        else:
            self._blocks.append(Block(kind=self._kind, text=text))
