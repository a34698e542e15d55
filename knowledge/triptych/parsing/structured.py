"""JSON and YAML, unchanged, with their larger members as parts; and notebooks."""

from __future__ import annotations

import json
import re
from itertools import count
from typing import Any

import attrs

from triptych.chunking.outline import Part
from triptych.errors import ParseError
from triptych.parsing.contract import (
    ContentBuilder,
    ParsedFile,
    ParseLimits,
    TextFileParser,
    kept_as_lines,
    timed,
)
from triptych.parsing.decoder import DecodedText
from triptych.parsing.witness import omission, without_tags, words

LEAST = 240
"""Shorter members (code points, with their key) stay with their neighbours."""

_MAX_PARTS = 20_000
_TITLE = 80
# A token; strings and numbers possessively, so that what is broken fails at once.
_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9A-Fa-f]{4})*+")
    |(?P<mark>[{}\[\]:,])
    |(?P<value>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?(?![\w.])
      |(?:true|false|null|NaN|-?Infinity)(?!\w))""",  # as Python's json writes them
    re.VERBOSE,
)
_BETWEEN = re.compile(r"(?:[ \t\r\n\ufeff]++|//[^\r\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/)*+")


@attrs.frozen(kw_only=True)
class JsonParser(TextFileParser):
    """JSON, including files with comments, trailing commas, NaN and Infinity."""

    limits: ParseLimits = attrs.field(factory=ParseLimits)
    signature: str = attrs.field(default="json/2", init=False)
    endings: frozenset[str] = attrs.field(
        default=frozenset((".geojson", ".json", ".jsonc")), init=False
    )

    def _read(self, name: str, decoded: DecodedText) -> ParsedFile:
        """The text as it is; locators are its lines, headings the keys above."""
        parts = scan_json(decoded.text, name, self.limits)
        return kept_as_lines(decoded, self.signature, parts)


@attrs.define
class _Open:
    """An object or array that has not been closed: its members are being read."""

    closing: str
    count: int = 0
    key: str = ""
    start: int = -1  # where its current member begins
    mark: int = 0  # how many parts there were when that began


def scan_json(text: str, name: str, limits: ParseLimits) -> list[Part]:
    """Check that ``text`` is JSON, in linear time; its members of at least `LEAST` code points.

    Raises:
        ParseError: it is not, or nests too deep, or takes too long.
    """
    parts: list[Part] = []
    around: list[_Open] = []
    at = _skip(text, 0)
    if at == len(text):
        raise ParseError(f"{name!r} holds no JSON value: it is empty")
    wanted = "value"  # or "key", "colon", "after"
    for _ in timed(count(), name, limits.seconds):
        at = _skip(text, at)
        if at == len(text):
            if around or wanted != "after":
                raise _malformed(text, name, at, "it ends too early")
            return parts
        found = _TOKEN.match(text, at)
        if found is None:
            raise _malformed(text, name, at, f"{text[at : at + 20]!r} is not JSON")
        kind, token = found.lastgroup, found[0] if found.lastgroup == "mark" else ""
        end = found.end()
        top = around[-1] if around else None
        if top is not None and token == top.closing and wanted != "colon":
            if wanted == "after":
                _close_member(parts, top, at, len(around) - 1)
            elif wanted == "value" and top.closing == "}":
                raise _malformed(text, name, at, "a value is missing")
            around.pop()
            wanted = "after"
        elif wanted == "key" and kind == "string":
            assert top is not None  # keys are in objects
            top.key, top.start, top.mark = found[0], at, len(parts)
            wanted = "colon"
        elif wanted == "colon" and token == ":":
            wanted = "value"
        elif wanted == "value" and (kind != "mark" or token in "{["):
            if top is not None and top.closing == "]":
                top.start, top.mark = at, len(parts)
            if kind == "mark":
                if len(around) >= limits.max_depth:
                    raise ParseError(
                        f"{name!r} nests deeper than {limits.max_depth} levels: flatten it, "
                        "or raise max_depth of ParseLimits"
                    )
                around.append(_Open("}" if token == "{" else "]"))
                wanted = "key" if token == "{" else "value"
            else:
                wanted = "after"
        elif wanted == "after" and token == "," and top is not None:
            _close_member(parts, top, at, len(around) - 1)
            wanted = "key" if top.closing == "}" else "value"
        else:
            raise _malformed(text, name, at, f"{found[0][:20]!r} does not fit there")
        at = end
    raise AssertionError  # the count has no end


def _close_member(parts: list[Part], held: _Open, end: int, depth: int) -> None:
    held.count += 1
    if held.start < 0:
        return
    if end - held.start >= LEAST and len(parts) < _MAX_PARTS:
        title = f"[{held.count - 1}]" if held.closing == "]" else _title(held.key)
        parts.insert(held.mark, Part(start=held.start, end=end, title=title, depth=depth))
    else:
        # Not long enough, so that nothing in it is either.
        del parts[held.mark :]
    held.start = -1


def _title(key: str) -> str:
    return str(json.loads(key)).encode("utf-8", "replace").decode()[:_TITLE]


def _skip(text: str, at: int) -> int:
    found = _BETWEEN.match(text, at)
    return at if found is None else found.end()


def _malformed(text: str, name: str, at: int, what: str) -> ParseError:
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    return ParseError(
        f"{name!r} is not proper JSON: at line {line}, column {column}, {what}. Repair it, or put "
        "it under a name that ends in .txt"
    )


# A key at the margin. Whatever belongs to it, block scalars too, is indented, a list aside.
_KEY = re.compile(
    r"""^(?:"([^"\r\n]{1,200})"|'([^'\r\n]{1,200})'|([^\s\#\-?:,\[\]{}&*!|>'"%@`][^\r\n:\#]{0,200}?))
    [ \t]*:(?=[ \t\r\n]|\Z)""",
    re.VERBOSE | re.MULTILINE,
)


@attrs.frozen(kw_only=True)
class YamlParser(TextFileParser):
    """YAML as text. It is not validated; aliases and tags have no effect."""

    signature: str = attrs.field(default="yaml/1", init=False)
    endings: frozenset[str] = attrs.field(default=frozenset((".yaml", ".yml")), init=False)

    def _read(self, name: str, decoded: DecodedText) -> ParsedFile:
        """The text as it is; locators are its lines, headings its top-level keys."""
        text = decoded.text
        found = [
            (match.start(), (match[1] or match[2] or match[3]).strip())
            for match in _KEY.finditer(text)
        ]
        ends = [*[start for start, _ in found[1:]], len(text)][: len(found)]
        parts = [
            Part(start=start, end=end, title=title[:80])
            for (start, title), end in zip(found, ends, strict=True)
            if end - start >= LEAST
        ]
        return kept_as_lines(decoded, self.signature, parts[:_MAX_PARTS])


_LEVELS = ("1", "2", "3", "4", "5", "6")  # of format 3's headings; numbers are read as text
_FORMS = ("text/html", "html", "text/markdown", "text/latex", "text/plain", "text")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_FENCES = re.compile(r"`{3,}")


@attrs.frozen(kw_only=True)
class NotebookParser(TextFileParser):
    """Notebooks (nbformat 4, and 3's worksheets): Markdown, raw and code cells.

    Outputs are left out, and their words are counted.
    """

    limits: ParseLimits = attrs.field(factory=ParseLimits)
    signature: str = attrs.field(default="notebook/2", init=False)
    endings: frozenset[str] = attrs.field(default=frozenset((".ipynb",)), init=False)

    def _read(self, name: str, decoded: DecodedText) -> ParsedFile:
        """The cells as Markdown; the locator of each is its number, from 1."""
        text = decoded.text.removeprefix("\ufeff")
        scan_json(text, name, self.limits)
        try:
            # Numbers are of no use here, and long ones take quadratic time.
            book = json.loads(text, parse_int=str, parse_float=str)
        except ValueError as error:
            raise ParseError(f"{name!r} is not proper JSON: {error}") from error
        builder = ContentBuilder(name, self.limits.max_characters)
        language = _language(book)
        outputs: list[str] = []
        for number, cell in enumerate(_cells(book, name), start=1):
            outputs += _outputs(cell)
            source = _source_text(cell.get("source", cell.get("input", "")))
            if not source.strip():
                continue
            if cell.get("cell_type") == "code":
                ticks = max((len(run) for run in _FENCES.findall(source)), default=2) + 1
                fence = "`" * ticks
                source = f"{fence}{language}\n{source.strip(chr(10))}\n{fence}"
            elif cell.get("cell_type") == "heading" and cell.get("level") in _LEVELS:
                source = f"{'#' * int(cell['level'])} {source.strip()}"
            builder.add(source, "cell", number)
        left_out = omission("outputs", words("\n".join(outputs)), "notebooks are read without them")
        return builder.parsed(
            self.signature, notes=decoded.notes, omissions=[left_out] if left_out else []
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


def _outputs(cell: dict[str, Any]) -> list[str]:
    """What a reader sees below a code cell, of each output in its first form that is text."""
    found = []
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        if not isinstance(output, dict):
            continue
        data = output.get("data")
        forms = data if isinstance(data, dict) else output
        if any(str(kind).startswith("image/") for kind in forms):
            continue  # its text is not shown
        kind = next((each for each in _FORMS if _source_text(forms.get(each)).strip()), "")
        text = _source_text(forms.get(kind))
        found.append(without_tags(text) if "html" in kind else text)
        lines = output.get("traceback")
        found += [_source_text(line) for line in lines] if isinstance(lines, list) else []
    return [_COLOUR.sub("", text) for text in found]


def _source_text(source: Any) -> str:
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
