"""Parsing files into text: the contract, the registry, and parsers that need no library.

`triptych_parsers.default_parser` also has the formats that need a library.
"""

from __future__ import annotations

from triptych.chunking.outline import Locator, Part
from triptych.parsing.contract import (
    ContentBuilder,
    Decode,
    FileParser,
    ParsedFile,
    ParseLimits,
    TextFileParser,
    fit,
    kept_as_lines,
    markdown_safe,
    one_line,
)
from triptych.parsing.decoder import DecodedText, decode_text
from triptych.parsing.files import PICTURES, name_of
from triptych.parsing.frontmatter import front_matter
from triptych.parsing.html_text import HtmlParser
from triptych.parsing.plain_text import MarkdownParser, TextParser
from triptych.parsing.registry import FileParsers
from triptych.parsing.rst import RestructuredTextParser
from triptych.parsing.structured import JsonParser, NotebookParser, YamlParser
from triptych.parsing.tables import CsvParser, add_rows
from triptych.parsing.witness import Witness, lost, omission, words
from triptych.records.unread import Omission, Unread

__all__ = [
    "PICTURES",
    "ContentBuilder",
    "CsvParser",
    "Decode",
    "DecodedText",
    "FileParser",
    "FileParsers",
    "HtmlParser",
    "JsonParser",
    "Locator",
    "MarkdownParser",
    "NotebookParser",
    "Omission",
    "ParseLimits",
    "ParsedFile",
    "Part",
    "RestructuredTextParser",
    "TextFileParser",
    "TextParser",
    "Unread",
    "Witness",
    "YamlParser",
    "add_rows",
    "base_parsers",
    "decode_text",
    "fit",
    "front_matter",
    "kept_as_lines",
    "lost",
    "markdown_safe",
    "name_of",
    "omission",
    "one_line",
    "words",
]


def base_parsers(
    *, limits: ParseLimits | None = None, decode: Decode = decode_text
) -> list[FileParser]:
    """Return the parsers of this package, without the fallback for plain text."""
    limits = limits or ParseLimits()
    return [
        MarkdownParser(decode=decode),
        RestructuredTextParser(decode=decode, limits=limits),
        HtmlParser(decode=decode, limits=limits),
        NotebookParser(decode=decode, limits=limits),
        CsvParser(decode=decode, limits=limits),
        JsonParser(decode=decode, limits=limits),
        YamlParser(decode=decode),
    ]
