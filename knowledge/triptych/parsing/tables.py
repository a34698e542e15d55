"""Converting tables to text: a paragraph for each row, each cell after its column's name."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import TypeAlias

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
from triptych.parsing.table_heads import MAX_TITLES, find_head
from triptych.parsing.witness import omission, words

_SNIFFED = 65_536
_QUOTED = re.compile(r'"[^"]*+"')
_OPENING = re.compile(r'(?:"?(?i:sep)=(\t|[^\w\s"])"?(?:\r\n?|\n))?(?:#[^\r\n]*+(?:\r\n?|\n))*+')
_SAMPLE = 50
"""The rows of a table that are read before its first is written: they show what is a head."""

Row: TypeAlias = tuple[int, Sequence[str]]


def column_letters(index: int) -> str:
    """The name of a column, from 0, as spreadsheets have it: A, B, …, Z, AA."""
    letters = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def add_rows(
    builder: ContentBuilder, rows: Iterable[Row], *, unit: str = "row", within: str = ""
) -> list[str]:
    """Add ``rows``, each with its number in the file, as "column: value" lines.

    The head names the columns (`find_head`); a column without a name has a letter. Titles above the
    head are text of their own. After a blank row a table with another head may begin. White space
    in a cell becomes one space; empty cells, and rows that repeat the head, are left out.

    Return the names of columns without a value, which are not in the text.
    """
    table = _Table(builder, unit, within)
    held: list[Row] = []
    for block in _blocks(rows, unit):
        sample = [*held, *islice(block, _SAMPLE)]
        held = []
        if len(sample) < MAX_TITLES and all(sum(map(bool, cells)) == 1 for _, cells in sample):
            held = sample  # the titles of a table, or rows of this one
            continue
        for row in chain(table.begin(sample), block):
            table.add(*row)
    for row in table.begin(held):
        table.add(*row)
    return table.unused()


def _blocks(rows: Iterable[Row], unit: str) -> Iterator[Iterator[Row]]:
    """The rows between blank ones; all together where most have a blank one before them."""

    def filled() -> Iterator[tuple[int, Row]]:
        block = last = 0
        for number, texts in rows:
            cells = [one_line(cell) if cell else "" for cell in texts]  # most of wide rows
            if not any(cells):
                block += 1
                continue
            if unit == "row" and number > last + 1:  # who reads sheets may leave blank rows out
                block += 1
            last = number
            yield block, (number, cells)

    source = filled()
    first = list(islice(source, _SAMPLE))
    if 2 * len({block for block, _ in first}) > len(first) + 1:
        first, source = [(0, row) for _, row in first], ((0, row) for _, row in source)
    for _, block in groupby(chain(first, source), key=itemgetter(0)):
        yield (row for _, row in block)


class _Table:
    """The table that rows are added to: its head, the names of its columns, its first rows."""

    def __init__(self, builder: ContentBuilder, unit: str, within: str) -> None:
        self._write = partial(builder.add, unit=unit, within=within)
        self._head: Sequence[str] = ()
        self._names: list[str] = []
        self._first: list[Sequence[str]] = []
        self._empty: dict[int, str] = {}
        self._unused: list[str] = []

    def begin(self, sample: list[Row]) -> list[Row]:
        """Begin another table if ``sample`` has a head; return the rows that are not written."""
        rows = [cells for _, cells in sample]
        head = find_head(rows, self._first)
        if head is None:
            self._first = self._first or rows
            return sample
        for number, title in sample[: head.start]:
            self._write(markdown_safe("\n".join(filter(None, title))), number=number)
        self._unused = self.unused()
        self._empty = {at: name for at, name in enumerate(head.names) if name}
        self._head, self._first = rows[head.end - 1], rows[head.end :]
        self._names = [name or column_letters(at) for at, name in enumerate(head.names)]
        return sample[head.end :]

    def add(self, number: int, cells: Sequence[str]) -> None:
        """Write a row, unless it is the head again."""
        if cells == self._head:
            return
        names = self._names
        while len(names) < len(cells):
            names.append(column_letters(len(names)))
        for at, cell in enumerate(cells) if self._empty else ():
            if cell:
                self._empty.pop(at, None)
        lines = [f"{name}: {cell}" for name, cell in zip(names, cells, strict=False) if cell]
        self._write(markdown_safe("\n".join(lines)), number=number)

    def unused(self) -> list[str]:
        """The names of the columns without a value."""
        return [*self._unused, *self._empty.values()]


@attrs.frozen(kw_only=True)
class CsvParser(TextFileParser):
    """Tables separated by commas, semicolons, tabs or bars; each row becomes a paragraph."""

    limits: ParseLimits = attrs.field(factory=ParseLimits)
    signature: str = attrs.field(default="csv/2", init=False)
    endings: frozenset[str] = attrs.field(default=frozenset((".csv", ".tsv")), init=False)

    def _read(self, name: str, decoded: DecodedText) -> ParsedFile:
        """The rows; each row's locator is the line that it begins on."""
        text = decoded.text.removeprefix("\ufeff")
        builder = ContentBuilder(name, self.limits.max_characters)
        above, delimiter = _opening(text, name.lower().endswith(".tsv"))
        for number, line in enumerate(above, 1):
            if line.startswith("#"):
                builder.add(markdown_safe(line), "line", number)
        rows = timed(_rows(name, text, above, delimiter), name, self.limits.seconds)
        unused = add_rows(builder, rows, unit="line")
        lost = omission("names of columns", words(" ".join(unused)), "no row has a value there")
        # Rows are paragraphs: the Markdown chunker keeps them whole.
        return builder.parsed(self.signature, notes=decoded.notes, omissions=[lost] if lost else [])


def _opening(text: str, tabs: bool) -> tuple[list[str], str]:
    """The lines above the rows, which are comments or Excel's "sep=;", and the delimiter."""
    opening = _OPENING.match(text)
    assert opening is not None
    lines = list(io.StringIO(opening[0], newline=""))
    sniffed = text[opening.end() :][:_SNIFFED]
    delimiter = opening[1] or ("\t" if tabs else _delimiter(sniffed))
    first = sniffed.partition("\n")[0]
    commented = bool(lines) and lines[-1].startswith("#")
    same = commented and lines[-1].count(delimiter) == first.count(delimiter) > 0
    if same and re.search(r"\d", first):  # the head, as NumPy writes it
        lines.pop()
    return lines, delimiter


def _rows(name: str, text: str, above: Sequence[str], delimiter: str) -> Iterator[Row]:
    # A cell may be as long as the file: the module's own limit is for all of the process.
    file = io.StringIO(text[sum(map(len, above)) :], newline="")
    reader = csv.reader(file, delimiter=delimiter, strict=False)
    before = len(above)
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ParseError(
                f"{name!r} is not a proper table (line {len(above) + reader.line_num}: {error}): "
                "check the quotes around its cells"
            ) from error
        yield before + 1, row
        before = len(above) + reader.line_num


def _delimiter(head: str) -> str:
    """The separator that parts most of the first lines into the same number of cells."""
    lines = [line for line in _QUOTED.sub("", head).splitlines()[:20] if line.strip()]

    def score(delimiter: str) -> tuple[int, int]:
        counts = [line.count(delimiter) for line in lines]
        usual = max(set(counts), key=lambda count: (counts.count(count), count), default=0)
        return (counts.count(usual) if usual else 0, usual)

    return max((",", ";", "\t", "|"), key=score)
