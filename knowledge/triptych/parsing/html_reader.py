"""Reading the tags and text of an HTML page as blocks, with all that no browser hides."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter

import attrs

from triptych.errors import ParseError
from triptych.parsing.contract import ParseLimits, one_line, timed
from triptych.parsing.html_blocks import Block, Piece
from triptych.parsing.html_signs import FRAME, SIGNED, UNSHOWN, Region, sign, words_of
from triptych.parsing.html_tables import Cell, Items, Row, Table, span
from triptych.parsing.html_tokens import END, NO_MARKUP, START, Token, is_xhtml, tokens

_VOID = words_of(
    "area base br col embed hr img input link meta param source track wbr basefont frame"
)
# All others stand within a line, as an element that a browser does not know does.
_BLOCKS = words_of(
    """
    address article aside blockquote body caption center dd details dialog dir div dl dt fieldset
    figcaption figure footer form frameset h1 h2 h3 h4 h5 h6 head header hgroup html iframe legend
    li listing main menu nav noframes noscript ol optgroup p pre search section summary table tbody
    td text tfoot th thead title tr ul xmp
    """
)
# Beside others of their kind without white space, they are still words apart.
_APART = words_of("button select option textarea svg mi mn mo mtext ms")
_UNSHOWN_IN_SVG = words_of("title desc metadata defs symbol")
# The optional end tags of the standard: what a start tag closes, and within which element.
_IMPLIED = (
    ("li", "li", "ul ol menu"),
    ("dt dd", "dt dd", "dl"),
    ("tr", "td th tr", "table"),
    ("td th", "td th", "table"),
    ("thead tbody tfoot", "td th tr thead tbody", "table"),
    ("option", "option", "select"),
    ("rb rt rp", "rb rt rp", "ruby"),
)
_CLOSES = {
    name: (closed.split(), scopes.split())
    for names, closed, scopes in _IMPLIED
    for name in names.split()
}
_IN_TABLES = words_of("table caption thead tbody tfoot tr td th")
_CODE = frozenset(("code", "kbd", "samp", "tt"))
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_WORDED = re.compile(r"[^\W\d_]{3}")
_FORMULA = re.compile(r"[\\{}^_=<>]")


@attrs.define(slots=True, eq=False)
class _Numbers:
    """The numbers of a list: of the next item, 0 for one without numbers."""

    coming: int
    step: int = 1
    from_end: bool = False
    items: int = 0
    blocks: list[tuple[Block, str, int]] = attrs.field(factory=list)

    def marker(self, value: str) -> tuple[str, int]:
        """Return the marker of the next item, and its position, from 0."""
        self.items += 1
        if self.step == 0:
            return "- ", 0
        number = _int(value, self.coming)
        self.coming = number + self.step
        return f"{number}. ", self.items - 1

    def end(self) -> None:
        """Number the blocks of a list that counts down to 1."""
        if self.from_end:
            for block, indent, at in self.blocks:
                block.prefix = f"{indent}{self.items - at}. "


def _int(text: str, default: int) -> int:
    return int(text) if re.fullmatch(r"\s*-?[0-9]{1,9}\s*", text) else default


class BlockReader:
    """Reads the blocks and tables of one page, and the regions that may be beside its text."""

    def __init__(self, name: str, text: str, limits: ParseLimits) -> None:
        self.name = name
        self.text = text
        self.items: Items = []
        self.regions: list[Region] = []
        self.title: str = ""
        self.scripts: int = 0
        self.frames: bool = False
        self._limits = limits
        self._xhtml = is_xhtml(name, text)
        self._open: list[str] = []
        self._count: Counter[str] = Counter()
        self._unshown = 0  # the depth at which what no browser shows began, 0 for none
        self._link = self._main = self._article = 0  # such depths, too
        self._articles = 0
        self._inside: list[tuple[int, Region | None]] = []
        self._pieces: list[Piece] = []
        self._readings: list[Piece] = []
        self._said = self._ruby_said = 0
        self._formulas: list[tuple[str, int]] = []
        self._marker: tuple[str, int] = ("", 0)
        self._lists: list[_Numbers] = []
        self._tables: list[Table] = []
        self._cells: list[int] = []
        self._sinks: list[Items] = [self.items]
        self._scopes: list[Counter[str]] = [Counter()]  # the elements open in each cell
        self._ends = [found.end() for found in re.finditer(r"\r\n?|\n", text)]

    def read(self) -> None:
        """Fill ``items``, ``regions`` and ``title``.

        Raises:
            ParseError: elements nest too deep.
        """
        found = tokens(self.text, xhtml=self._xhtml)
        for token in timed(found, self.name, self._limits.seconds):
            if token.kind == START:
                self._start(token)
            elif token.kind == END:
                self._end(token.value)
            else:
                self._add(token)
        while self._open:
            self._pop()
        self._flush()
        for region in reversed(self.regions):
            if region.parent is not None:
                region.parent.hold(region.size, region.linked, region.prose, headed=region.headed)

    # Tags

    def _start(self, token: Token) -> None:
        name, attributes = token.value, token.attributes
        if name in _VOID:
            self._void(token)
            return
        self._imply_ends(name)
        if not self._unshown and name in _BLOCKS:
            self._flush()
        if name == "script":
            self.scripts += 1
        if token.closed and (
            self._xhtml or name in NO_MARKUP or self._count["svg"] or self._count["math"]
        ):
            return
        depth = len(self._open) + 1
        if depth > self._limits.max_depth:
            raise ParseError(
                f"{self.name!r} nests elements deeper than {self._limits.max_depth} levels: "
                "fix it, or raise max_depth of ParseLimits"
            )
        self._open.append(name)
        self._count[name] += 1
        self._scopes[-1][name] += 1
        if self._unshown:
            return
        if (name in UNSHOWN and "shadowrootmode" not in attributes) or (
            name in _UNSHOWN_IN_SVG and self._count["svg"]
        ):
            self._unshown = depth
            return
        if attributes or name in SIGNED:
            self._enter(name, token, depth)
        if name in _CODE and not self._in_pre:
            self._put("`")
        elif name in _APART:
            self._put(" ")
        elif name == "a" and "href" in attributes:
            self._link = depth
        elif name == "math":
            self._formulas.append((attributes.get("alttext", ""), self._said))
        elif name == "ruby" and self._readings and self._said != self._ruby_said:
            self._readings[-1].parts.append(" ")
        elif name in ("ul", "ol", "menu"):
            down = "reversed" in attributes
            self._lists.append(
                _Numbers(
                    coming=_int(attributes.get("start", ""), 1),
                    step=0 if name != "ol" else -1 if down else 1,
                    from_end=down and "start" not in attributes,
                )
            )
        elif name == "li":
            numbers = self._lists[-1] if self._lists else _Numbers(1, 0)
            self._marker = numbers.marker(attributes.get("value", ""))
        elif name == "frameset":
            self.frames = True
        elif name in _IN_TABLES:
            self._start_in_table(name, token, depth)

    def _void(self, token: Token) -> None:
        if self._unshown:
            return
        if token.value == "br":
            self._put("\n")
        elif token.value == "hr":
            self._flush()
        elif token.value in ("img", "input"):
            self._put_label(token, "alt" if token.value == "img" else "")

    def _enter(self, name: str, token: Token, depth: int) -> None:
        """Note a region or area that the element begins."""
        role = token.attributes.get("role", "").lower()
        around = self._region
        if not self._main and (name == "main" or role == "main"):
            self._main = depth
        elif not self._article and (name == "article" or role == "article"):
            self._article = depth
            self._articles += 1
            # No header or footer of a page holds an article, but one that was not closed does.
            around = around if around is not None and around.kind == FRAME else None
        else:
            around = None
        if around is not None:
            self._inside.append((depth, around.hiding))
        inner = bool(self._main or self._article)
        scoped = bool(
            self._count["blockquote"]
            or self._count["figure"]
            or (name == "header" and (inner or self._count["section"]))
            or (name == "button" and (self._count["summary"] or self._count["p"]))
        )
        found = sign(name, token.attributes, scoped=scoped)
        if found is not None:
            region = Region(place=found[0], kind=found[1], inner=inner, parent=self._region)
            self.regions.append(region)
            self._inside.append((depth, region))
        if role == "img":
            self._put_label(token, "aria-label")

    def _start_in_table(self, name: str, token: Token, depth: int) -> None:
        attributes = token.attributes
        if name == "table":
            role = attributes.get("role", "").lower()
            article = self._articles if self._article else 0
            self._tables.append(Table(main=bool(self._main), article=article, role=role))
        elif self._tables:
            table = self._tables[-1]
            table.data = table.data or name in ("caption", "th")
            if name == "tr" or (name in ("td", "th") and not table.rows):
                table.rows.append(Row(self.line_of(token.position)))
            if name in ("td", "th"):
                cell = Cell([], span(attributes, "rowspan"), span(attributes, "colspan"))
                table.rows[-1].cells.append(cell)
                self._sinks.append(cell.items)
                self._scopes.append(Counter())
                self._cells.append(depth)

    def _imply_ends(self, name: str) -> None:
        closes, scopes = _CLOSES.get(name, ((), ()))
        while self._open and any(self._count[each] for each in closes):
            # Only what stands inside the nearest list or table, at its end.
            top = self._open[-1]
            if top in scopes or (top not in closes and top in _BLOCKS and top != "p"):
                return
            self._pop()
        if name in _BLOCKS and self._open and self._open[-1] == "p":
            self._pop()

    def _end(self, name: str) -> None:
        within = self._count if name in _IN_TABLES else self._scopes[-1]
        if name in _VOID or not within[name]:
            return
        while self._pop() != name:
            pass

    def _pop(self) -> str:
        name, depth = self._open[-1], len(self._open)
        if not self._unshown:
            self._leave(name)
        if self._cells and self._cells[-1] == depth:
            self._cells.pop()
            self._sinks.pop()
            self._scopes.pop()
        while self._inside and self._inside[-1][0] == depth:
            self._inside.pop()
        self._unshown = 0 if self._unshown == depth else self._unshown
        self._link = 0 if self._link == depth else self._link
        self._main = 0 if self._main == depth else self._main
        self._article = 0 if self._article == depth else self._article
        self._open.pop()
        self._count[name] -= 1
        self._scopes[-1][name] -= 1
        return name

    def _leave(self, name: str) -> None:
        if name in _CODE and not self._in_pre:
            self._put("`")
        elif name in _APART:
            self._put(" ")
        elif name in _BLOCKS:
            self._flush()
        if name == "math" and self._formulas:
            label, said = self._formulas.pop()
            if self._said == said or (_WORDED.search(label) and not _FORMULA.search(label)):
                self._put(label, len(self.text))
            elif self._pieces and self._pieces[-1].parts[-1] == " ":
                self._pieces[-1].parts.pop()
        elif name == "ruby":
            self._ruby_said = self._said
        elif name == "li":
            self._marker = ("", 0)
        elif name in ("ul", "ol", "menu") and self._lists:
            self._lists.pop().end()
        elif name == "table" and self._tables:
            table = self._tables.pop()
            if table.rows:
                self._sinks[-1].extend(table.items())

    # Text

    @property
    def _region(self) -> Region | None:
        return self._inside[-1][1] if self._inside else None

    @property
    def _in_pre(self) -> bool:
        return bool(self._count["pre"] or self._count["listing"] or self._count["xmp"])

    @property
    def _level(self) -> int:
        return next((_HEADINGS[name] for name in reversed(self._open) if name in _HEADINGS), 0)

    def _add(self, token: Token) -> None:
        if self._open and self._open[-1] == "title" and not self._count["svg"]:
            self.title = self.title or token.value
            return
        if self._unshown or not token.value:
            return
        if self._in_pre:
            self._put(token.value, token.position)
        elif self._pieces or not token.value.isspace():
            self._put(re.sub(r"\s+", " ", token.value), token.position, token.value)

    def _put(self, text: str, position: int = -1, source: str = "") -> None:
        """Add ``text`` to the block; with a ``position`` it is text of the page."""
        reading = self._count["rt"] or self._count["rtc"]
        pieces = self._readings if reading else self._pieces
        region = self._region
        if not pieces or pieces[-1].region is not region or (pieces[-1].label and pieces[-1].parts):
            pieces.append(Piece(region))
        piece = pieces[-1]
        piece.parts.append(text)
        if position >= 0 and not text.isspace():
            source = source or text
            if not piece.line:
                piece.line = self.line_of(position + len(source) - len(source.lstrip()))
            self._said += 0 if reading else len(text)
        if self._link:
            piece.linked += len(text)

    def _put_label(self, token: Token, attribute: str) -> None:
        """Add the text that stands for a picture."""
        label = one_line(token.attributes.get(attribute, ""))
        if label and not self._readings:
            self._pieces.append(Piece(self._region, label=True))
        self._put(f" {label} ", token.position)

    def _flush(self) -> None:
        """End the block that is being read; readings of its ruby follow its text in brackets, so
        that its characters stay together."""
        readings, self._readings = self._readings, []
        for piece in readings:
            text = " ".join(piece.text.split())
            if text:
                self._pieces.append(Piece(piece.region, piece.line, [f" ({text})"]))
        pieces, self._pieces = self._pieces, []
        if not any(piece.line for piece in pieces):
            return
        pre, level = self._in_pre, self._level
        (marker, at), self._marker = self._marker, ("", 0)
        indent = "  " * (len(self._lists) - 1 if self._lists else 0)
        quoted = "> " if self._count["blockquote"] and not self._lists and not pre else ""
        block = Block(
            pieces=pieces,
            main=bool(self._main),
            article=self._articles if self._article else 0,
            kind="pre" if pre else "item" if marker else "",
            level=level,
            prefix="" if level or pre else quoted or (indent + marker),
        )
        block.weigh()
        sink = self._sinks[-1]
        before = sink[-1] if sink else None
        if isinstance(before, Block) and before.repeats_in(block):
            sink[-1] = block
        elif not (isinstance(before, Block) and block.repeats_in(before)):
            sink.append(block)
        if marker and self._lists:
            self._lists[-1].blocks.append((block, indent, at))

    def line_of(self, position: int) -> int:
        """Return the line of the file that ``position`` is in."""
        return bisect_right(self._ends, position) + 1
