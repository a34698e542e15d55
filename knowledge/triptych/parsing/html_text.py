"""HTML pages: the main content as Markdown, without navigation and scripts."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping

import attrs

from triptych.errors import ParseError
from triptych.parsing.contract import (
    ContentBuilder,
    ParsedFile,
    ParseLimits,
    TextFileParser,
    markdown_safe,
    one_line,
    timed,
)
from triptych.parsing.decoder import DecodedText, is_html
from triptych.parsing.html_tokens import END, START, Token, tokens


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_VOID = _words(
    """
    area base br col embed hr img input link meta param source track wbr
    """
)
_DROPPED = _words(
    """
    aside button canvas dialog footer iframe menu nav noembed noframes noscript object
    script select style svg template textarea xmp audio video map datalist
    """
)
_DROPPED_ROLES = _words(
    """
    alert alertdialog banner complementary contentinfo dialog menu menubar navigation search
    toolbar tooltip
    """
)
_DROPPED_CLASSES = _words(
    """
    ad ads advert advertisement breadcrumb breadcrumbs cookie cookie-banner cookie-consent
    footer headerlink menu nav navbar navigation newsletter noprint pagination related
    related-posts share sharing sidebar skip-link social sr-only table-of-contents toc
    toctree-wrapper visually-hidden
    """
)
_INLINE = _words(
    """
    a abbr acronym b bdi bdo big cite code data del dfn em font i img input ins kbd label
    mark q rp rt ruby s samp small span strike strong sub sup time tt u var wbr picture
    """
)
# What a start tag closes by itself, as the standard's optional end tags say.
_CLOSES = {
    "li": ("li",),
    "dt": ("dt", "dd"),
    "dd": ("dt", "dd"),
    "tr": ("td", "th", "tr"),
    "td": ("td", "th"),
    "th": ("td", "th"),
    "tbody": ("td", "th", "tr", "thead", "tbody"),
    "tfoot": ("td", "th", "tr", "thead", "tbody"),
    "option": ("option",),
}
_SCOPES = {
    "li": ("ul", "ol"),
    "dt": ("dl",),
    "dd": ("dl",),
    "tr": ("table",),
    "td": ("table",),
    "th": ("table",),
    "tbody": ("table",),
    "tfoot": ("table",),
    "option": ("select",),
}
_CODE = frozenset(("code", "kbd", "samp", "tt"))
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_CLASS = re.compile(r"[\w-]+")


@attrs.frozen(kw_only=True, slots=True)
class Block:
    """A piece of a page, the line it begins on, and in what it stands.

    ``region`` is 2 in ``<main>``, 1 in ``<article>``, else 0; ``level`` a heading's, else 0;
    ``tight`` that it follows the block before without a blank line.
    """

    text: str
    line: int
    kind: str = ""
    level: int = 0
    region: int = 0
    prefix: str = ""
    tight: bool = False


class BlockReader:
    """Reads the blocks of one page; ``by_class`` leaves out what a class says is navigation."""

    def __init__(self, name: str, text: str, limits: ParseLimits, *, by_class: bool = True) -> None:
        self.name = name
        self.text = text
        self._limits = limits
        self._by_class = by_class
        self.blocks: list[Block] = []
        self.title: str = ""
        self._open: list[str] = []
        self._count: Counter[str] = Counter()
        self._dropped_at = 0  # the depth at which what is left out began, 0 for none
        self._pieces: list[str] = []
        self._line = 0
        self._marker = ""
        self._numbers: list[int] = []
        self._row: list[str] | None = None
        self._row_line = 0
        self._rows = 0
        self._ends = [found.end() for found in re.finditer(r"\r\n?|\n", text)]

    def read(self) -> None:
        """Fill ``blocks`` and ``title``.

        Raises:
            ParseError: elements nest too deep.
        """
        for token in timed(tokens(self.text), self.name, self._limits.seconds):
            if token.kind == START:
                self._start(token)
            elif token.kind == END:
                self._end(token.value)
            else:
                self._add(token)
        self._flush()
        self._end_row()

    # Tags

    def _start(self, token: Token) -> None:
        name = token.value
        if name in _VOID:
            if not self._dropped_at:
                if name == "br":
                    self._pieces.append("\n")
                elif name == "hr":
                    self._flush()
                elif name == "img":
                    self._pieces.append(" ")
            return
        self._imply_ends(name)
        if not self._dropped_at and name not in _INLINE:
            self._flush()
        if token.closed and (self._count["svg"] or self._count["math"]):
            return  # an empty element: HTML's own have no such form
        if len(self._open) >= self._limits.max_depth:
            raise ParseError(
                f"{self.name!r} nests elements deeper than {self._limits.max_depth} levels: "
                "fix it, or raise max_depth of ParseLimits"
            )
        self._open.append(name)
        self._count[name] += 1
        if self._dropped_at:
            return
        if name != "title" and self._is_dropped(name, token.attributes):
            self._dropped_at = len(self._open)
        elif name in ("ul", "ol"):
            self._numbers.append(0 if name == "ol" else -1)
        elif name == "li":
            self._marker = self._item_marker()
        elif name == "table":
            self._rows = 0
        elif name == "tr" and self._count["table"] == 1:
            self._row, self._row_line = [], self._line_of(token.position)
        elif name in ("td", "th") and self._row is not None and self._count["table"] == 1:
            self._row.append("")
        elif name in _CODE and not self._count["pre"]:
            self._pieces.append("`")

    def _imply_ends(self, name: str) -> None:
        closes, scopes = _CLOSES.get(name, ()), _SCOPES.get(name, ())
        while self._open and any(self._count[each] for each in closes):
            # Only what stands inside the nearest list or table, at its end.
            top = self._open[-1]
            if top in scopes or (top not in closes and top not in _INLINE and top != "p"):
                return
            self._pop()
        if name not in _INLINE and self._open and self._open[-1] == "p":
            self._pop()

    def _end(self, name: str) -> None:
        if name in _VOID or not self._count[name]:
            return
        while self._pop() != name:
            pass

    def _pop(self) -> str:
        name = self._open[-1]
        dropped = bool(self._dropped_at)
        if not dropped:
            if name in _CODE and not self._count["pre"]:
                self._pieces.append("`")
            elif name not in _INLINE:
                self._flush()
            if name in ("tr", "table") and self._count["table"] == 1:
                self._end_row()
            elif name in ("ul", "ol") and self._numbers:
                self._numbers.pop()
        if self._dropped_at == len(self._open):
            self._dropped_at = 0
        self._open.pop()
        self._count[name] -= 1
        return name

    def _is_dropped(self, name: str, attributes: Mapping[str, str]) -> bool:
        if name in ("body", "html", "main", "article"):
            return False
        inner = self._count["article"] or self._count["main"]
        hidden = "hidden" in attributes or attributes.get("aria-hidden") == "true"
        classes = _CLASS.findall(
            f"{attributes.get('class', '')} {attributes.get('id', '')}".lower()
        )
        return (
            name in _DROPPED
            or (name == "header" and not inner)
            or hidden
            or attributes.get("role", "").lower() in _DROPPED_ROLES
            or (self._by_class and not _DROPPED_CLASSES.isdisjoint(classes))
        )

    # Text

    def _add(self, token: Token) -> None:
        if self._open and self._open[-1] == "title" and not self._count["svg"]:
            self.title = self.title or token.value
            return
        if self._dropped_at or not token.value:
            return
        if not self._line and not token.value.isspace():
            blanks = len(token.value) - len(token.value.lstrip())
            self._line = self._line_of(
                token.position + (blanks if token.value[:1].isspace() else 0)
            )
        self._pieces.append(token.value if self._count["pre"] else re.sub(r"\s+", " ", token.value))

    def _flush(self) -> None:
        """End the block that is being read."""
        if not self._pieces:
            return
        text, line = "".join(self._pieces), self._line
        self._pieces, self._line = [], 0
        pre = self._count["pre"] > 0
        text = text.strip("\r\n") if pre else _lines(text)
        if not text.strip(" \t\r\n`"):
            return
        if self._row is not None and self._count["table"]:
            cell = one_line(text)
            if self._row:
                self._row[-1] = f"{self._row[-1]} {cell}".lstrip()
            else:
                self._row.append(cell)
            return
        level = next((_HEADINGS[name] for name in reversed(self._open) if name in _HEADINGS), 0)
        marker, self._marker = self._marker, ""
        indent = "  " * (len(self._numbers) - 1 if self._numbers else 0)
        quoted = "> " if self._count["blockquote"] and not self._numbers and not pre else ""
        previous = self.blocks[-1] if self.blocks else None
        listed = bool(marker) and previous is not None and previous.kind == "item"
        self.blocks.append(
            Block(
                text=text,
                line=line,
                kind="pre" if pre else "item" if marker else "",
                level=level,
                region=2 if self._count["main"] else 1 if self._count["article"] else 0,
                prefix="" if level or pre else quoted or (indent + marker),
                tight=listed,
            )
        )

    def _item_marker(self) -> str:
        if self._numbers and self._numbers[-1] >= 0:
            self._numbers[-1] += 1
            return f"{self._numbers[-1]}. "
        return "- "

    def _end_row(self) -> None:
        if not self._row or not any(self._row):
            self._row = None
            return
        cells = [cell.replace("|", "\\|") for cell in self._row]
        self._row = None
        text = f"| {' | '.join(cells)} |" if len(cells) > 1 else cells[0]
        if len(cells) > 1 and self._rows == 0:
            text += f"\n|{' --- |' * len(cells)}"
        self.blocks.append(
            Block(
                text=text,
                line=self._row_line,
                kind="row",
                region=2 if self._count["main"] else 1 if self._count["article"] else 0,
                tight=self._rows > 0,
            )
        )
        self._rows += 1

    def _line_of(self, position: int) -> int:
        return bisect_right(self._ends, position) + 1


def _lines(text: str) -> str:
    """``text`` with single spaces, its line breaks kept (they are the page's own ``<br>``)."""
    return "\n".join(" ".join(line.split()) for line in text.strip().split("\n"))


_LEAST_MAIN = 200
_LEAST_LEFT = 50
_SHARE = 0.25


@attrs.frozen(kw_only=True)
class HtmlParser(TextFileParser):
    """Parses HTML pages: ``<main>`` or ``<article>`` if it has most of the text, else the whole
    page.

    It drops scripts, styles, form controls, ``<nav>``, ``<aside>``, ``<footer>``, page headers,
    hidden elements, and elements with a role or class of navigation. Headings, lists, tables and
    code become Markdown; links and pictures become their text.
    """

    limits: ParseLimits = attrs.field(factory=ParseLimits)
    signature: str = attrs.field(default="html/2", init=False)
    endings: frozenset[str] = attrs.field(
        default=frozenset((".htm", ".html", ".xhtml")), init=False
    )

    def recognises(self, data: bytes) -> bool:
        """Return whether ``data`` starts like an HTML page."""
        return is_html(data)

    def _read(self, name: str, decoded: DecodedText) -> ParsedFile:
        """The main content; locators are the lines of the file."""
        text = decoded.text
        reader = BlockReader(name, text, self.limits)
        reader.read()
        if sum(len(block.text) for block in reader.blocks) < _LEAST_LEFT:
            # A class that usually is navigation's may be what all of a page stands in.
            reader = BlockReader(name, text, self.limits, by_class=False)
            reader.read()
        builder = ContentBuilder(name, self.limits.max_characters)
        for block in _main(reader.blocks):
            gap = "\n" if block.tight else "\n\n"
            builder.add(_markdown(block), "line", block.line, gap=gap)
        title = one_line(reader.title)[:300]
        return builder.parsed(self.signature, {"title": title} if title else {}, decoded.notes)


def _main(blocks: list[Block]) -> list[Block]:
    """The blocks in ``<main>`` or else ``<article>``, if they hold enough; else all."""
    total = sum(len(block.text) for block in blocks)
    for least in (2, 1):
        inner = [block for block in blocks if block.region >= least]
        size = sum(len(block.text) for block in inner)
        if size >= _LEAST_MAIN or (size and size >= _SHARE * total):
            return inner
    return blocks


def _markdown(block: Block) -> str:
    text = block.text
    if block.kind == "pre":
        ticks = max((len(run) for run in re.findall(r"`{3,}", text)), default=2) + 1
        return f"{'`' * ticks}\n{text}\n{'`' * ticks}"
    if block.kind == "row":
        return text
    if block.level:
        return f"{'#' * block.level} {one_line(text)}"
    text = markdown_safe(text)
    return block.prefix + text.replace("\n", "\n" + " " * len(block.prefix))
