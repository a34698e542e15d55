"""Jupyter notebooks: the sources of their cells, code between fences."""

from __future__ import annotations

import json
import re
from typing import Any

import attrs

from triptych.errors import ParseError
from triptych.parsing.builder import ContentBuilder
from triptych.parsing.decoder import decode_text
from triptych.parsing.json_text import scan_json
from triptych.parsing.limits import ParseLimits
from triptych.parsing.parsed import Decode, ParsedFile

_FENCES = re.compile(r"`{3,}")


@attrs.frozen(kw_only=True)
class NotebookParser:
    """Notebooks (nbformat 4, and 3's worksheets): Markdown, raw and code cells, without output."""

    decode: Decode = decode_text
    limits: ParseLimits = attrs.field(factory=ParseLimits)
    signature: str = attrs.field(default="notebook/1", init=False)
    endings: frozenset[str] = attrs.field(default=frozenset((".ipynb",)), init=False)

    def recognises(self, data: bytes) -> bool:
        """Never: a name must say so."""
        return False

    def parse(self, name: str, data: bytes) -> ParsedFile | None:
        """The cells as Markdown; the locator of each is its number, from 1."""
        decoded = self.decode(data, name)
        if decoded is None:
            return None
        text = decoded.text.removeprefix("\ufeff")
        scan_json(text, name, self.limits)
        try:
            # Numbers are of no use here, and long ones take quadratic time.
            book = json.loads(text, parse_int=str, parse_float=str)
        except ValueError as error:
            raise ParseError(f"{name!r} is not proper JSON: {error}") from error
        builder = ContentBuilder(name, self.limits.max_characters)
        language = _language(book)
        for number, cell in enumerate(_cells(book, name), start=1):
            source = _text(cell.get("source", cell.get("input", "")))
            if not source.strip():
                continue
            if cell.get("cell_type") == "code":
                ticks = max((len(run) for run in _FENCES.findall(source)), default=2) + 1
                fence = "`" * ticks
                source = f"{fence}{language}\n{source.strip(chr(10))}\n{fence}"
            builder.add(source, "cell", number)
        return ParsedFile(
            content=builder.content,
            metadata={"kind": "markdown"},
            parser_sig=self.signature,
            locators=tuple(builder.locators),
            notes=decoded.notes,
        )


def _cells(book: Any, name: str) -> list[dict[str, Any]]:
    sheets = [book] if isinstance(book, dict) and "cells" in book else []
    if not sheets and isinstance(book, dict) and isinstance(book.get("worksheets"), list):
        sheets = [sheet for sheet in book["worksheets"] if isinstance(sheet, dict)]
    lists = [sheet.get("cells") for sheet in sheets]
    if not lists or not all(isinstance(cells, list) for cells in lists):
        raise ParseError(
            f"{name!r} is not a notebook: it has no list of cells. Save it again with Jupyter"
        )
    return [cell for cells in lists if cells for cell in cells if isinstance(cell, dict)]


def _text(source: Any) -> str:
    if isinstance(source, list):
        return "".join(line for line in source if isinstance(line, str))
    return source if isinstance(source, str) else ""


def _language(book: Any) -> str:
    """The language's name for the fences: "python" where the notebook does not tell."""
    about = book.get("metadata") if isinstance(book, dict) else None
    for key in ("language_info", "kernelspec"):
        info = about.get(key) if isinstance(about, dict) else None
        if isinstance(info, dict):
            for field in ("name", "language"):
                found = info.get(field)
                if key == "kernelspec" and field == "name":
                    continue
                if isinstance(found, str) and re.fullmatch(r"[\w+#.-]{1,30}", found):
                    return found.lower()
    return "python"
