"""Word documents: the whole tree is walked, so that text counts whatever element holds it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

import attrs

from triptych.parsing import lost, markdown_safe, one_line, words
from triptych_parsers.ooxml import (
    ENDS,
    RELATION,
    SIGNS,
    UNSEEN,
    Element,
    Package,
    attribute,
    chosen,
    drawn_text,
    is_deleted,
    is_worse,
    lines_of,
    markdown_table,
    plain_text,
    tag,
    whole_number,
)
from triptych_parsers.worker import Reading

_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
# Word writes the names of its styles in English; some other programs write their own.
_HEADING = re.compile(
    "(?:heading|überschrift|titre|título|titolo|kop|rubrik|overskrift|nagłówek|заголовок|标题|見出し)"
    " ?([1-9])$",
    re.IGNORECASE,
)
_CONTENTS = re.compile(
    r"(toc|contents)( heading| ?\d)?$|table of (figures|contents)", re.IGNORECASE
)
_LISTED = re.compile(r"list (bullet|number|paragraph)( \d)?$", re.IGNORECASE)
_LONGEST_HEADING = 300
_LEVELS = {str(at): (at + 1) % 10 for at in range(10)}  # an outline's 9 is body text
_NOTES = {
    "footnoteReference": ("footnotes", "Footnote"),
    "endnoteReference": ("endnotes", "Endnote"),
    "commentReference": ("comments", "Comment"),
}
_PARAGRAPHS = frozenset(("p", "r", "hyperlink", "oMath", "oMathPara"))

_Place: TypeAlias = tuple[str, int]
_Block: TypeAlias = tuple[str, _Place, str]
"""Its text, where it stands, and what parts it from the block before."""


def read_docx(reading: Reading) -> None:
    """Headings, paragraphs, lists, tables, text boxes, charts, notes and comments in their order.

    Notes and comments come after the paragraph or table that refers to them. Lines of page headers
    and footers that say more than the text stand before it. Tables of contents are left out.

    Word writes where its last layout broke pages; where it did, pages are the locators, else
    the numbers of paragraphs and tables.
    """
    package = Package(reading)
    package.describe()
    body = _Body(package)
    body.blocks(package.main)
    content = "\n".join(text for text, *_ in body.found)
    shown = plain_text(package.main)
    missing = [*lost(shown, "\n".join([content, *body.contents])).elements()]
    if is_worse(len(missing), shown):
        content, missing = shown, []
        lines = enumerate(lines_of(package.main), start=1)
        body.found = [(markdown_safe(line), ("paragraph", at), "\n\n") for at, line in lines]
    known = {*words(content)}
    for line in _running_lines(package):
        if not known.issuperset(words(line.partition(": ")[2])):
            reading.builder.add(line)
    for text, place, gap in body.found:
        reading.builder.add(text, *place, gap=gap)
    package.leave_out("text", "not read", missing)
    # Its lines are headings of the text, but for lists of what has no heading.
    contents = [word for word in words("\n".join(body.contents)) if word not in known]
    contents = [word for word in contents if not word.isdecimal()]
    package.leave_out("table of contents", "left out", contents)


def _running_lines(package: Package) -> list[str]:
    """The lines of page headers and footers, each once."""
    lines: dict[str, None] = {}
    parts = package.relations(package.path)
    for reference in package.main.iter():
        if tag(reference) in ("headerReference", "footerReference"):
            kind, path = parts.get(reference.get(f"{RELATION}id", ""), ("", ""))
            for line in lines_of(package.root(path)):
                lines[f"Page {kind}: {line}"] = None
    return list(lines)


@attrs.frozen
class _Style:
    """A style with what it has of the one that it is based on."""

    name: str = ""
    level: int = 0
    """Of a heading, from 1; 0 for none."""
    listed: str = ""


class _Styles:
    """The styles of paragraphs, by id."""

    def __init__(self, root: Element | None) -> None:
        self._raw = {attribute(each, "styleId"): each for each in ([] if root is None else root)}
        self._known = {"": _Style()}

    def __getitem__(self, key: str) -> _Style:
        if key not in self._known:
            self._known[key] = _Style(level=max(_level("", key), 0))  # if it is based on itself
            element = self._raw.get(key)
            if element is not None:
                base = self[attribute(element.find(f"{_WORD}basedOn"), "val")]
                name = attribute(element.find(f"{_WORD}name"), "val")
                level = _level(name, key, _outline(element))
                self._known[key] = _Style(
                    name=base.name if _CONTENTS.match(base.name) else name,
                    level=base.level if level < 0 else level,
                    listed=name if _LISTED.match(name) else base.listed,
                )
        return self._known[key]


def _level(name: str, key: str, outline: int = -1) -> int:
    """The level of a heading by its style's name, id or outline, 0 for body text; else -1."""
    heading = _HEADING.match(name) or _HEADING.match(key)
    if heading is not None:
        return int(heading[1])
    return 1 if name.lower() == "title" else outline


def _outline(element: Element) -> int:
    """The level that a style or paragraph says it has, 0 for body text, -1 for none."""
    return _LEVELS.get(attribute(element.find(f"{_WORD}pPr/{_WORD}outlineLvl"), "val"), -1)


class _Body:
    """Collects the blocks of the main part, ``found``, and the lines of its tables of contents."""

    def __init__(self, package: Package) -> None:
        self.found: list[_Block] = []
        self.contents: list[str] = []
        self._package = package
        self._parts = package.relations(package.path)
        self._styles = _Styles(next(self._of_kind("styles"), None))
        self._notes = {
            name: {attribute(each, "id"): each for root in self._of_kind(kind) for each in root}
            for name, (kind, _) in _NOTES.items()
        }
        self._counts = dict.fromkeys(_NOTES, 0)
        breaks = (each for each in package.main.iter() if tag(each) == "lastRenderedPageBreak")
        self._paged = next(breaks, None) is not None
        self._page, self._begins, self._count, self._kind = 1, 0, 0, ""
        self._around: _Place | None = None  # of the text box that is walked over
        self._pieces: list[str] = []
        self._readings: list[str] = []
        self._ruby_end = -1
        self._after: list[Element | str] = []

    def _of_kind(self, kind: str) -> Iterator[Element]:
        roots = (self._package.root(path) for found, path in self._parts.values() if found == kind)
        return (root for root in roots if root is not None)

    def blocks(self, parent: Element) -> None:
        """Take in the paragraphs and tables in ``parent``, whatever they stand in."""
        for child in parent:
            name = tag(child)
            if name in _PARAGRAPHS:
                self._block(child)
            elif name == "tbl":
                cells = [cell for row in _inner(child, "tr") for cell in _inner(row, "tc")]
                if len(cells) == 1:  # a frame around its content
                    self.blocks(cells[0])
                else:
                    self._block(child)
            elif name == "altChunk":
                self._package.leave_out("an embedded document", "not read")
            elif name not in UNSEEN:
                self.blocks(chosen(child))

    def _block(self, element: Element) -> None:
        page = self._page
        self._after, self._begins = [], 0
        if tag(element) == "tbl":
            text, kind = self._table(element), "table"
        else:
            text, kind = self._paragraph(element)
        if self._around is None:
            self._count += 1
        counted = ("page", self._begins or page) if self._paged else ("paragraph", self._count)
        place = self._around or counted
        self._add(text, place, kind)
        for each in self._after:
            if isinstance(each, str):
                self._add(each, place, "text")
            else:
                outer, self._around = self._around, place
                self.blocks(each)
                self._around = outer

    def _add(self, text: str, place: _Place, kind: str) -> None:
        if text:
            gap = "\n" if kind == self._kind == "item" else "\n\n"
            self.found.append((text, place, gap))
            self._kind = kind

    def _paragraph(self, paragraph: Element) -> tuple[str, str]:
        """Its Markdown, "" for what is left out, and what it is."""
        text = self._text(paragraph)
        properties = paragraph.find(f"{_WORD}pPr")
        style = self._styles[attribute(paragraph.find(f"{_WORD}pPr/{_WORD}pStyle"), "val")]
        if text and _CONTENTS.match(style.name):
            self.contents.append(text)
        if not text or _CONTENTS.match(style.name):
            return "", ""
        outline = _outline(paragraph)
        level = style.level if outline < 0 else outline
        if level and len(text) <= _LONGEST_HEADING:
            return f"{'#' * min(level, 6)} {one_line(text)}", "heading"
        text = markdown_safe(text)
        listed = _LISTED.match(style.listed)
        numbered = None if properties is None else properties.find(f"{_WORD}numPr")
        if listed is None and numbered is None:
            return text, "text"
        depth = whole_number(attribute(_child(numbered, "ilvl"), "val"), 8)
        if listed is not None and listed[2]:
            depth = int(listed[2]) - 1
        mark = "1." if listed is not None and listed[1].lower() == "number" else "-"
        return f"{'  ' * depth}{mark} {one_line(text)}", "item"

    def _text(self, element: Element) -> str:
        """The text of a paragraph or cell; the readings of its characters (ruby) are at its end."""
        self._pieces, self._readings, self._ruby_end = [], [], -1
        self._inline(element)
        text = "".join(self._pieces).strip()
        return f"{text} ({' '.join(self._readings)})" if self._readings else text

    def _inline(self, element: Element) -> None:
        for child in element:
            name = tag(child)
            if name in UNSEEN or is_deleted(child):
                continue
            if name in SIGNS:
                self._pieces.append(SIGNS[name])
            elif name == "t":
                self._pieces.append(child.text or "")
                self._begins = self._begins or (self._page if child.text else 0)
            elif name == "lastRenderedPageBreak":
                self._page += 1
            elif name in _NOTES:
                self._after.append(self._note(name, attribute(child, "id")))
            elif name == "txbxContent":
                self._after.append(child)
                continue
            elif drawn := drawn_text(child, self._package, self._parts):
                self._after.append(markdown_safe(drawn))
                continue
            if name == "ruby":
                self._ruby(child)
            else:
                self._inline(chosen(child))
            if name in ENDS:
                self._pieces.append(ENDS[name])

    def _ruby(self, ruby: Element) -> None:
        """Add the characters; their reading waits, that it does not stand between them."""
        goes_on = self._ruby_end == len(self._pieces)
        self._inline(ruby)
        self._ruby_end = len(self._pieces)
        reading = "".join(plain_text(each) for each in ruby if tag(each) == "rt").strip()
        if goes_on and self._readings:
            reading = self._readings.pop() + reading
        self._readings.append(reading)

    def _note(self, name: str, key: str) -> str:
        """A footnote, endnote or comment as a paragraph, "" for none."""
        self._counts[name] += 1
        note = self._notes[name].get(key)
        text = one_line("" if note is None else plain_text(note))
        author = attribute(note, "author")
        label = f"by {author}" if author else str(self._counts[name])
        return f"{_NOTES[name][1]} {label}: {text}" if text else ""

    def _table(self, table: Element) -> str:
        """Its rows; a cell merged over several rows stands in each, one over columns in the first.

        A cell may say that it is endlessly wide: no more columns count than the table names.
        """
        rows = []
        width = len(table.findall(f"{_WORD}tblGrid/{_WORD}gridCol"))
        above: dict[int, str] = {}
        for row in _inner(table, "tr"):
            before = _child(_child(row, "trPr"), "gridBefore")
            column = whole_number(attribute(before, "val"))
            cells = [""] * min(column, width)
            here: dict[int, str] = {}
            for cell in _inner(row, "tc"):
                properties = _child(cell, "tcPr")
                merge = _child(properties, "vMerge")
                text = one_line(self._text(cell))
                if merge is not None and attribute(merge, "val") != "restart":
                    text = text or above.get(column, "")
                here[column] = text
                span = whole_number(attribute(_child(properties, "gridSpan"), "val"))
                cells += [text, *[""] * (min(span, width - len(cells)) - 1)]
                column += max(span, 1)
            above = here
            rows.append(cells)
        return markdown_table(rows)


def _child(element: Element | None, name: str) -> Element | None:
    return None if element is None else element.find(f"{_WORD}{name}")


def _inner(parent: Element, name: str) -> Iterator[Element]:
    """The rows of a table or cells of a row, whatever they stand in."""
    for child in parent:
        found = tag(child)
        if found == name and not is_deleted(child):
            yield child
        elif found not in UNSEEN and found not in ("tr", "tc", "p", "tbl"):
            yield from _inner(chosen(child), name)
