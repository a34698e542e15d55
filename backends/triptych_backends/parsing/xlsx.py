"""Workbooks: the worker's job."""

from __future__ import annotations

import datetime
import io
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import chain
from typing import Any

from triptych.parsing.builder import one_line
from triptych.parsing.tables import add_rows
from triptych_backends.parsing.office import check_package
from triptych_backends.parsing.worker import Reading

_MOST_ROWS = 1_048_576  # a sheet's; a file may claim a row far after


def read_xlsx(reading: Reading) -> None:
    """Each sheet under a heading, a paragraph a row; of formulas the value last worked out."""
    openpyxl = import_module("openpyxl")  # its types are no part of it
    check_package(reading)
    book = openpyxl.load_workbook(
        io.BytesIO(reading.data), read_only=True, data_only=True, keep_links=False
    )
    title = one_line(book.properties.title or "")
    if title:
        reading.metadata["title"] = title[:300]
    reading.metadata["kind"] = "markdown"
    for sheet in book.worksheets:
        name = one_line(sheet.title)
        rows = _rows(sheet)
        first = next(rows, None)
        if first is not None:
            reading.builder.add(f"# {name}")
            add_rows(reading.builder, chain((first,), rows), within=f"sheet {name}")


def _rows(sheet: Any) -> Iterator[tuple[int, Sequence[str]]]:
    """The rows that hold anything, with their numbers in the sheet."""
    # What a sheet says of its own size may be wrong, and may be all of a million rows.
    sheet.reset_dimensions()
    for number, row in enumerate(sheet.iter_rows(values_only=True), start=1):
        if number > _MOST_ROWS:
            return
        if any(cell is not None for cell in row):
            yield number, [_shown(cell) for cell in row]


def _shown(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "TRUE" if cell else "FALSE"
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e15:
        return str(int(cell))
    if isinstance(cell, datetime.datetime):
        midnight = cell.time() == datetime.time()
        return cell.date().isoformat() if midnight else cell.isoformat(sep=" ")
    return str(cell)
