"""Parsing files into text: the contract, the registry, and parsers that need no library.

`triptych_backends.parsing.default_parser` also has the formats that need a library.
"""

from __future__ import annotations

from triptych.chunking.outline import Locator, Part
from triptych.parsing.contract import ContentBuilder, Decode, FileParser, ParsedFile, ParseLimits
from triptych.parsing.decoder import DecodedText, decode_text
from triptych.parsing.frontmatter import front_matter
from triptych.parsing.html_text import HtmlParser
from triptych.parsing.plain_text import MarkdownParser, TextParser
from triptych.parsing.registry import FileParsers
from triptych.parsing.rst import RestructuredTextParser
from triptych.parsing.structured import JsonParser, NotebookParser, YamlParser
from triptych.parsing.tables import CsvParser
from triptych.parsing.witness import Witness
from triptych.records.unread import Omission, Unread

__all__ = [
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
    "TextParser",
    "Unread",
    "Witness",
    "YamlParser",
    "base_parsers",
    "decode_text",
    "front_matter",
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
