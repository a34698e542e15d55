"""Parsers of all formats: of `triptych.parsing`, those that need a library, and third-party
ones."""

from __future__ import annotations

from pathlib import Path

from triptych.errors import ValidationError
from triptych.parsing import (
    Decode,
    FileParser,
    FileParsers,
    ParsedFile,
    ParseLimits,
    TextParser,
    base_parsers,
    decode_text,
    name_of,
)
from triptych_parsers.code import CodeParser
from triptych_parsers.office import DocxParser, PptxParser, XlsxParser
from triptych_parsers.pdf import PdfParser
from triptych_parsers.pictures import PictureParser

__all__ = [
    "ENTRY_POINTS",
    "CodeParser",
    "DocxParser",
    "PdfParser",
    "PictureParser",
    "PptxParser",
    "XlsxParser",
    "default_parser",
    "parse_file",
]

ENTRY_POINTS = "triptych.parsers"
"""The group of entry points: each is called without arguments and returns a `FileParser`."""
_OF_PARSERS = ("signature", "endings", "recognises", "parse")


def default_parser(
    *,
    limits: ParseLimits | None = None,
    decode: Decode = decode_text,
    plugins: bool = True,
    ocr: bool = False,
) -> FileParsers:
    """Return the parser of all formats: ``parse(name, data)`` returns a `ParsedFile`.

    A format's library is imported when its first file is read; if it is missing, NotAvailableError
    names the extra. Installed packages add or replace parsers with an entry point of the group
    "triptych.parsers".

    Args:
        limits: the limits for one file.
        decode: converts the bytes of a text file to text.
        plugins: whether to use the parsers of other packages.
        ocr: whether to read picture files, and the pages of a PDF without text, by character
            recognition (extra "ocr").

    Raises:
        ValidationError: an installed parser cannot be loaded or is invalid.
    """
    limits = limits or ParseLimits()
    parsers: list[FileParser] = [
        *base_parsers(limits=limits, decode=decode),
        CodeParser(limits=limits, decode=decode),
        PdfParser(limits=limits, ocr=ocr),
        DocxParser(limits=limits),
        PptxParser(limits=limits),
        XlsxParser(limits=limits),
        *([PictureParser(limits=limits)] if ocr else ()),
    ]
    if plugins:
        parsers += _installed()
    return FileParsers(parsers, fallback=TextParser(decode=decode), limits=limits)


def parse_file(
    path: str | Path, *, name: str | None = None, parser: FileParsers | None = None
) -> ParsedFile:
    """Read and parse one file; ``parse_file(path).document(name)`` is the document to store.

    Raises:
        ValidationError: the file cannot be read, or is not text.
        ParseError: it is malformed, encrypted, or exceeds a limit.
        NotAvailableError: a library is missing.
    """
    file = Path(path)
    parser = default_parser() if parser is None else parser
    return parser.parse_path(file, name=name_of(file) if name is None else name)


def _installed() -> list[FileParser]:
    """The parsers of other packages, by the name of their entry point."""
    from importlib.metadata import entry_points

    found = []
    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda each: each.name):
        try:
            parser = entry.load()()
        except Exception as error:
            raise ValidationError(
                f"the parser {entry.name!r} ({entry.value}) cannot be loaded ({error}): repair or "
                "uninstall its package"
            ) from error
        if not all(hasattr(parser, each) for each in _OF_PARSERS):
            raise ValidationError(
                f"the entry point {entry.name!r} ({entry.value}) of {ENTRY_POINTS!r} gives a "
                f"{type(parser).__name__}, which is no FileParser"
            )
        found.append(parser)
    return found
