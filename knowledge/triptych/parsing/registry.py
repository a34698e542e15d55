"""Which parser reads a file: by the ending of its name, else by its first bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import attrs

from triptych._internal.files import open_regular
from triptych.errors import ParseError, TriptychError, ValidationError
from triptych.parsing.contract import FileParser, ParsedFile, ParseLimits


class FileParsers:
    """Parsers behind one `parse`, under one set of limits.

    Of two parsers for one ending the later one serves. A name whose ending tells nothing goes
    to the first parser that recognises the bytes, else to ``fallback``.
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
        """The endings that have a parser."""
        return frozenset(self._by_ending)

    def takes(self, name: str) -> bool:
        """Whether the ending of ``name`` has a parser."""
        return _ending(name) in self._by_ending

    def signature(self, name: str, data: bytes | None = None) -> str:
        """What reads files of this name: another signature may read them otherwise.

        Where the bytes decide, and are not given, it is that of all parsers that they decide
        between.
        """
        known = self._by_ending.get(_ending(name))
        if known is not None:
            return known.signature
        if data is not None:
            return self.parser_for(name, data).signature
        return ";".join(each.signature for each in (*self.parsers, self.fallback))

    def parser_for(self, name: str, data: bytes) -> FileParser:
        """The parser that `parse` asks."""
        known = self._by_ending.get(_ending(name))
        if known is not None:
            return known
        return next((each for each in self.parsers if each.recognises(data)), self.fallback)

    def parse(self, name: str, data: bytes) -> ParsedFile | None:
        """The text of the file ``name`` whose bytes are ``data``, with its SHA-256
        and the signature of its parser.

        None where they are binary, and of no format that there is a parser for.

        Raises:
            ParseError: it is malformed, encrypted, or beyond a limit.
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
        return attrs.evolve(
            parsed,
            original_sha256=hashlib.sha256(data).hexdigest(),
            parser_sig=self.signature(name, data),
        )

    def parse_path(self, path: Path, *, name: str | None = None) -> ParsedFile:
        """`parse` of a file on disk, of which no more is read than the limits allow.

        Args:
            name: what its ending and the messages go by, the path where it is None.

        Raises:
            ValidationError: it cannot be read; or it is binary, and of no format that there is
                a parser for. Else as `parse`.
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
    return ValidationError(
        f"{name!r} is binary, and of no format that there is a parser for: convert it to text first"
    )


def _ending(name: str) -> str:
    return PurePosixPath(name).suffix.lower()
