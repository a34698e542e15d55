"""The registry of parsers, which chooses by a file's extension, else by its first bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import attrs

from triptych.errors import ParseError, TriptychError, ValidationError
from triptych.parsing.contract import FileParser, ParsedFile, ParseLimits
from triptych.parsing.files import PICTURES
from triptych.records.unread import Unread
from triptych.resources.files import open_regular

_BLANK = b" \t\r\n\x0b\x0c\xef\xbb\xbf"


class FileParsers:
    """Several parsers with one set of limits.

    If two parsers have the same extension, the later one is used. A file with an unknown extension
    goes to the first parser that recognises the bytes, else to ``fallback``.
    """

    def __init__(
        self,
        parsers: Iterable[FileParser],
        *,
        fallback: FileParser,
        limits: ParseLimits | None = None,
    ) -> None:
        self.parsers: tuple[FileParser, ...] = tuple(parsers)
        self.fallback = fallback
        self.limits: ParseLimits = limits or ParseLimits()
        self._by_ending: dict[str, FileParser] = {}
        for parser in (fallback, *self.parsers):
            for ending in parser.endings:
                if not ending.startswith(".") or ending != ending.lower():
                    raise ValidationError(
                        f"the parser {parser.signature!r} names the ending {ending!r}: endings "
                        "are in lower case and begin with a dot"
                    )
                self._by_ending[ending] = parser

    @property
    def endings(self) -> frozenset[str]:
        """The extensions with a parser."""
        return frozenset(self._by_ending)

    def takes(self, name: str) -> bool:
        """Return whether the extension of ``name`` has a parser."""
        return _ending(name) in self._by_ending

    def signature(self, name: str, data: bytes | None = None) -> str:
        """Return the signature of the parser for files of this name.

        If the choice depends on the bytes, and they are not given, it is the combined signature of
        all candidates.
        """
        known = self._by_ending.get(_ending(name))
        if known is not None:
            return known.signature
        if data is not None:
            return self.parser_for(name, data).signature
        return ";".join(each.signature for each in (*self.parsers, self.fallback))

    def parser_for(self, name: str, data: bytes) -> FileParser:
        """Return the parser that `parse` uses."""
        known = self._by_ending.get(_ending(name))
        if known is not None:
            return known
        return next((each for each in self.parsers if each.recognises(data)), self.fallback)

    def parse(self, name: str, data: bytes) -> ParsedFile | None:
        """Parse the bytes ``data`` of the file ``name``; the result has its SHA-256 and the
        signature of its parser.

        Return None for binary data in an unknown format.

        Raises:
            ParseError: it is malformed, encrypted, or exceeds a limit.
            NotAvailableError: a library is missing; the message names the extra.
        """
        if len(data) > self.limits.max_bytes:
            raise ParseError(
                f"{name!r} has more than {self.limits.max_bytes:,} bytes: split it, or raise "
                "max_bytes of ParseLimits"
            )
        parser = self.parser_for(name, data)
        try:
            parsed = parser.parse(name, data)
        except TriptychError:
            raise
        except Exception as error:  # a parser of somebody else's may fail in any way
            raise ParseError(
                f"{name!r} cannot be read by the parser {parser.signature!r} "
                f"({type(error).__name__}: {str(error)[:200]}): check the file, for example by "
                "opening it in the program that made it"
            ) from error
        if parsed is None:
            return None
        if len(parsed.content) > self.limits.max_characters:
            raise ParseError(
                f"{name!r} holds more than {self.limits.max_characters:,} characters of text: "
                "split it, or raise max_characters of ParseLimits"
            )
        no_text = parsed.no_text
        if not no_text and not parsed.content.strip() and data.strip(_BLANK):
            no_text = "the parser found nothing to read in it"
        unread = Unread(omissions=parsed.omissions, no_text=no_text)
        return attrs.evolve(
            parsed,
            no_text=no_text,
            notes=(*parsed.notes, *([f"{name!r}: {unread}"] if unread else [])),
            original_sha256=hashlib.sha256(data).hexdigest(),
            parser_sig=self.signature(name, data),
        )

    def parse_path(self, path: Path, *, name: str | None = None) -> ParsedFile:
        """`parse` a file on disk, reading no more than the limits allow.

        Args:
            name: the name for its extension and for messages; None uses the path.

        Raises:
            ValidationError: it cannot be read, or is binary in an unknown format. Else as `parse`.
        """
        shown = str(path) if name is None else name
        try:
            with open_regular(path) as file:
                data = file.read(int(self.limits.max_bytes) + 1)
        except OSError as error:
            raise ValidationError(f"{str(path)!r} cannot be read: {error.strerror}") from error
        except ValidationError:
            raise
        except ValueError as error:  # a NUL in the path
            raise ValidationError(f"{str(path)!r} cannot be read: {error}") from error
        parsed = self.parse(shown, data)
        if parsed is None:
            raise not_text(shown)
        return parsed


def not_text(name: str) -> ValidationError:
    """The error for a binary file that was named itself."""
    what = "convert it to text first"
    if _ending(name) in PICTURES:
        what = "--ocr (ocr=True) reads pictures"
    return ValidationError(f"{name!r} is binary, in a format without a parser: {what}")


def _ending(name: str) -> str:
    return PurePosixPath(name).suffix.lower()
