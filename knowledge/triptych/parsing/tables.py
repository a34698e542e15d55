"""Converting tables to text: a paragraph for each row, each cell after its column's name."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence

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
from triptych.parsing.decoder import DecodedText

_SNIFFED = 65_536
_QUOTED = re.compile(r'"[^"]*+"')


def column_letters(index: int) -> str:
    """The name of a column, from 0, as spreadsheets have it: A, B, …, Z, AA."""
    letters = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def add_rows(
    builder: ContentBuilder,
    rows: Iterable[tuple[int, Sequence[str]]],
    *,
    unit: str = "row",
    within: str = "",
) -> None:
    """Add ``rows``, each with its number in the file, as "column: value" lines.

    The first row names the columns where each of its cells is filled, no two are alike, none is
    a number, and a second row follows; else columns are named by letters. White space in a cell
    becomes one space; empty cells are left out.
    """
    source = iter(rows)
    cleaned = ((number, [one_line(cell) for cell in cells]) for number, cells in source)
    filled = (each for each in cleaned if any(each[1]))
    first = next(filled, None)
    if first is None:
        return
    second = next(filled, None)
    names: list[str] = []
    if second is not None and _names_columns(first[1]):
        names = first[1]
    else:
        _add_row(builder, first, names, unit, within)
    if second is not None:
        _add_row(builder, second, names, unit, within)
    for row in filled:
        _add_row(builder, row, names, unit, within)


def _add_row(
    builder: ContentBuilder,
    row: tuple[int, Sequence[str]],
    names: Sequence[str],
    unit: str,
    within: str,
) -> None:
    lines = []
    for at, cell in enumerate(row[1]):
        if cell:
            name = names[at] if at < len(names) else column_letters(at)
            lines.append(f"{name}: {cell}")
    builder.add(markdown_safe("\n".join(lines)), unit, row[0], within=within)


def _names_columns(cells: Sequence[str]) -> bool:
    return all(cells) and len(set(cells)) == len(cells) and not any(map(_is_number, cells))


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "").rstrip("%"))
    except ValueError:
        return False
    return True


@attrs.frozen(kw_only=True)
class CsvParser(TextFileParser):
    """Tables separated by commas, semicolons, tabs or bars; each row becomes a paragraph."""

    limits: ParseLimits = attrs.field(factory=ParseLimits)
    signature: str = attrs.field(default="csv/1", init=False)
    endings: frozenset[str] = attrs.field(default=frozenset((".csv", ".tsv")), init=False)

    def _read(self, name: str, decoded: DecodedText) -> ParsedFile:
        """The rows; each row's locator is the line that it begins on."""
        text = decoded.text.removeprefix("\ufeff")
        delimiter = "\t" if name.lower().endswith(".tsv") else _delimiter(text[:_SNIFFED])
        builder = ContentBuilder(name, self.limits.max_characters)
        rows = timed(_rows(name, text, delimiter), name, self.limits.seconds)
        add_rows(builder, rows, unit="line")
        # Rows are paragraphs: the Markdown chunker keeps them whole.
        return builder.parsed(self.signature, notes=decoded.notes)


def _rows(name: str, text: str, delimiter: str) -> Iterator[tuple[int, Sequence[str]]]:
    # A cell may be as long as the file: the module's own limit is for all of the process.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=False)
    before = 0
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ParseError(
                f"{name!r} is not a proper table (line {reader.line_num}: {error}): check the "
                "quotes around its cells"
            ) from error
        yield before + 1, row
        before = reader.line_num


def _delimiter(head: str) -> str:
    """The separator that parts most of the first lines into the same number of cells."""
    lines = [line for line in _QUOTED.sub("", head).splitlines()[:20] if line.strip()]

    def score(delimiter: str) -> tuple[int, int]:
        counts = [line.count(delimiter) for line in lines]
        usual = max(set(counts), key=lambda count: (counts.count(count), count), default=0)
        return (counts.count(usual) if usual else 0, usual)

    return max((",", ";", "\t", "|"), key=score)
