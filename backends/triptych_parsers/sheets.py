"""Workbooks: what a person sees in the cells, charts, text boxes and comments of each sheet."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from itertools import chain
from xml.etree import ElementTree

from triptych.parsing import Witness, add_rows, markdown_safe, one_line, words
from triptych_parsers.number_formats import shown_number, usual_format
from triptych_parsers.ooxml import (
    CHART,
    NUMBERING,
    RELATION,
    Element,
    Package,
    attribute,
    drawn_texts,
    plain_text,
    tag,
    whole_number,
)
from triptych_parsers.worker import Reading

_MOST_ROWS = 1_048_576  # a sheet's; a file may claim a row far after
_MOST_COLUMNS = 16_384
_MERGED = re.compile(rb"<(?:\w+:)?mergeCell\s[^<>]*?ref\s*=\s*[\"']([A-Z]+)(\d+):([A-Z]+)(\d+)")
_CELL = re.compile(r"\$?([A-Z]{1,3})\$?(\d{1,7})$")
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_PRINTED = tuple(
    f"{page}{part}" for page in ("odd", "even", "first") for part in ("Header", "Footer")
)
_CODES = re.compile(r'&(?:"[^"]*"|K[0-9A-Fa-f]{6}|\d+|[A-Z])')


def read_xlsx(reading: Reading) -> None:
    """Each sheet under a heading, a paragraph a row, then its charts, text boxes and comments.

    Numbers and dates are as the sheet shows them; of a formula the value last worked out, or the
    formula if the file has none. A cell merged over several rows stands in each.
    """
    package = Package(reading)
    package.describe()
    book = _Book(package)
    parts = package.relations(package.path)
    sheets = [each for each in package.main.iter() if tag(each) == "sheet"]
    for each in sheets:
        _, path = parts.get(each.get(f"{RELATION}id", ""), ("", ""))
        name, data = one_line(each.get("name", "")), package.data(path) or b""
        rows = _merged(book.rows(data, name), data)
        beside = [*_beside(package, path)]
        first = next(rows, None)
        if first is not None or beside:
            reading.builder.add(f"# {name}")
        if first is not None:
            add_rows(reading.builder, chain((first,), rows), within=f"sheet {name}")
        for number, text in beside:
            reading.builder.add(text, "row", number, within=f"sheet {name}")
    witness = Witness(reading.builder.content)
    for reason, found in (("a column without values", book.texts), ("page header", book.printed)):
        for name, lines in found.items():
            package.leave_out(f"sheet {name}", reason, witness.lost("\n".join(lines)))


class _Book:
    """The strings and formats that the sheets of a workbook share."""

    def __init__(self, package: Package) -> None:
        self.texts: dict[str, list[str]] = {}
        """By sheet, the cells that are text."""
        self.printed: dict[str, list[str]] = {}
        """By sheet, the headers and footers of its pages."""
        self._strings: list[str] = []
        for path in package.targets(package.path, "sharedStrings"):
            for each in _streamed(package.data(path) or b"<sst/>", "si"):
                self._strings.append(_text(each))
        self._from_1904 = any(
            attribute(each, "date1904") in ("1", "true", "on")
            for each in package.main.iter()
            if tag(each) == "workbookPr"
        )
        self._formats: list[str] = []
        for path in package.targets(package.path, "styles"):
            root = package.root(path)
            own = {} if root is None else root.findall("{*}numFmts/{*}numFmt")
            codes = {each.get("numFmtId"): each.get("formatCode", "") for each in own}
            for each in () if root is None else root.findall("{*}cellXfs/{*}xf"):
                number = each.get("numFmtId", "")
                self._formats.append(codes.get(number, usual_format(whole_number(number))))

    def rows(self, data: bytes, sheet: str) -> Iterator[tuple[int, list[str]]]:
        """The rows of a sheet that hold anything, with their numbers; cells begin at column A."""
        number = 0
        texts = self.texts.setdefault(sheet, [])
        printed = self.printed.setdefault(sheet, [])
        for row in _streamed(data, "row", *_PRINTED) if data else ():
            if tag(row) != "row":
                line = _CODES.sub(" ", row.text or "")
                printed += [] if NUMBERING.issuperset(words(line)) else [line]
                continue
            number = whole_number(row.get("r", ""), _MOST_ROWS + 1) or number + 1
            if number > _MOST_ROWS:
                return
            cells: list[str] = []
            for cell in row:
                found = _CELL.match(cell.get("r", ""))
                column = _column(found[1]) if found else len(cells)
                shown = self._shown(cell, texts) if column < _MOST_COLUMNS else ""
                if shown:
                    cells += [""] * (column + 1 - len(cells))
                    cells[column] = shown
            if cells:
                yield number, cells

    def _shown(self, cell: Element, texts: list[str]) -> str:
        kind, value, formula = cell.get("t", "n"), "", ""
        for each in cell:
            name = tag(each)
            if name == "is":
                value = _text(each)
            elif name == "v":
                value = value or each.text or ""
            elif name == "f":
                formula = f"={each.text or ''}"
        if not value:
            return formula
        if kind == "n":
            style = whole_number(cell.get("s", ""))
            code = self._formats[style] if style < len(self._formats) else ""
            return shown_number(value, code, from_1904=self._from_1904)
        if kind == "b":
            return "TRUE" if value == "1" else "FALSE"
        if kind == "d":
            return value.replace("T", " ").removesuffix(" 00:00:00")
        if kind == "s":
            index = whole_number(value)
            value = self._strings[index] if index < len(self._strings) else ""
        texts.append(value)
        return value


def _streamed(data: bytes, *names: str) -> Iterator[Element]:
    """The elements of these names, each emptied after it was used."""
    for _, element in ElementTree.iterparse(io.BytesIO(data)):
        if tag(element) in names:
            yield element
            element.clear()


def _text(element: Element) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), plain_text(element))


def _column(letters: str) -> int:
    """The index of a column from 0: of "A" 0, of "AA" 26."""
    index = 0
    for letter in letters:
        index = index * 26 + ord(letter) - 64
    return index - 1


def _merged(rows: Iterator[tuple[int, list[str]]], data: bytes) -> Iterator[tuple[int, list[str]]]:
    """``rows``, with the text of each merged cell in all of its rows that hold anything else."""
    begins: dict[int, list[tuple[int, int]]] = {}
    for first, top, _, bottom in _MERGED.findall(data):
        if int(top) < int(bottom):
            begins.setdefault(int(top), []).append((_column(first.decode()), int(bottom)))
    active: dict[int, tuple[int, str]] = {}
    for number, cells in rows:
        for column, (bottom, text) in [*active.items()]:
            if number > bottom:
                del active[column]
            else:
                cells += [""] * (column + 1 - len(cells))
                cells[column] = cells[column] or text
        for column, bottom in begins.get(number, ()):
            if column < len(cells) and cells[column]:
                active[column] = (bottom, cells[column])
        yield number, cells


def _beside(package: Package, path: str) -> Iterator[tuple[int, str]]:
    """The titles of a sheet's charts, its text boxes and comments, each with its row."""
    for kind, place in package.relations(path).values():
        root = package.root(place) if kind in ("drawing", "comments") else None
        if root is None:
            continue
        if kind == "comments":
            for each in root.iter():
                found = _CELL.match(each.get("ref", "")) if tag(each) == "comment" else None
                text = one_line(plain_text(each)) if found else ""
                if found and text:
                    yield whole_number(found[2]), f"Comment on {found[0]}: {text}"
            continue
        parts = package.relations(place)
        for anchor in root:
            row = whole_number(anchor.findtext("{*}from/{*}row", "")) + 1
            for text in drawn_texts(anchor, package, parts):
                # The values of a chart are those of cells.
                shown = text.partition("\n\n")[0] if text.startswith(CHART) else text
                yield row, "" if shown == CHART else markdown_safe(shown)
