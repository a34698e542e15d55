"""The contract of parsers, their limits and results."""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

import attrs

from triptych import deadlines
from triptych.chunking.outline import Locator, Part, write_outline
from triptych.errors import ParseError
from triptych.parsing.decoder import DecodedText, decode_text
from triptych.records.unread import Omission, Unread
from triptych.records.values import number

if TYPE_CHECKING:
    from triptych.records import NewDocument
    from triptych.records.metadata import Metadata


_POSITIVE = number(above=True)


@attrs.frozen(kw_only=True, slots=True)
class ParseLimits:
    """The limits for parsing one file.

    ``max_bytes`` is the size of the file, ``max_characters`` the length of the extracted text (code
    points), ``max_depth`` the nesting of JSON and HTML. For packed files (DOCX, PPTX, XLSX)
    ``max_members`` is the number of files in it, ``max_unpacked`` their size in bytes, and
    ``max_ratio`` the ratio of unpacked to packed size. ``seconds`` is the time for one file, and
    ``ocr_seconds`` what character recognition may add to it. The worker process that reads a PDF,
    office or picture file has ``memory`` bytes of address space (on Linux).
    """

    max_bytes: int = attrs.field(default=64 << 20, validator=_POSITIVE)
    max_characters: int = attrs.field(default=16_000_000, validator=_POSITIVE)
    max_depth: int = attrs.field(default=500, validator=_POSITIVE)
    max_members: int = attrs.field(default=10_000, validator=_POSITIVE)
    max_unpacked: int = attrs.field(default=512 << 20, validator=_POSITIVE)
    max_ratio: float = attrs.field(default=200, validator=_POSITIVE)
    seconds: float = attrs.field(default=60, validator=_POSITIVE)
    ocr_seconds: float = attrs.field(default=1800, validator=_POSITIVE)
    memory: int = attrs.field(default=2 << 30, validator=_POSITIVE)


_Each = TypeVar("_Each")
_STEPS = 2048


def timed(steps: Iterable[_Each], name: str, seconds: float) -> Iterator[_Each]:
    """``steps``, as long as they and what is done with them take no more than ``seconds``.

    Raises:
        ParseError: they took longer.
        CancelledError: the deadline around this call has passed.
    """
    end = time.monotonic() + seconds
    for count, each in enumerate(steps):
        if count % _STEPS == _STEPS - 1:
            deadlines.check(f"reading {name!r}")
            if time.monotonic() > end:
                raise ParseError(
                    f"{name!r} could not be read in {seconds:g} seconds: split it, or raise "
                    "seconds of ParseLimits"
                )
        yield each


_LIKE_MARKDOWN = re.compile(r"^([ ]{0,3})(#{1,6}(?:\s|$)|`{3}|~{3}|=+[ \t]*$|-+[ \t]*$)", re.M)
# What UTF-8 cannot hold, and the control characters that no text has.
_UNFIT = re.compile("[\ud800-\udfff\x00-\x08\x0b\x0e-\x1f\ufffe\uffff]")


class ContentBuilder:
    """Builds text from blocks separated by blank lines; raises ParseError beyond the limit."""

    def __init__(self, name: str, max_characters: int) -> None:
        self.name = name
        self.max_characters = max_characters
        self.locators: list[Locator] = []
        self.parts: list[Part] = []
        self._pieces: list[str] = []
        self.length: int = 0

    def add(
        self,
        text: str,
        unit: str = "",
        number: int = 0,
        *,
        within: str = "",
        counted: bool = False,
        gap: str = "\n\n",
    ) -> None:
        """Append a block after ``gap``, unless it has no visible text."""
        text = fit(text).strip("\r\n")
        if not text or text.isspace():
            return
        if self._pieces:
            self._pieces.append(gap)
            self.length += len(gap)
        start = self.length
        self._pieces.append(text)
        self.length += len(text)
        if self.length > self.max_characters:
            raise ParseError(
                f"{self.name!r} holds more than {self.max_characters} characters of text: split "
                "it, or raise max_characters of ParseLimits"
            )
        if unit:
            self.locators.append(
                Locator(
                    start=start,
                    end=self.length,
                    unit=unit,
                    number=number,
                    within=within,
                    counted=counted,
                )
            )

    @property
    def content(self) -> str:
        """The text so far, with a final line end."""
        return "".join([*self._pieces, "\n"]) if self._pieces else ""

    def parsed(
        self,
        signature: str,
        metadata: Metadata | None = None,
        notes: tuple[str, ...] = (),
        omissions: Iterable[Omission] = (),
        no_text: str = "",
    ) -> ParsedFile:
        """Return the result, Markdown, for the parser of this signature."""
        return ParsedFile(
            content=self.content,
            metadata={"kind": "markdown", **(metadata or {})},
            parser_sig=signature,
            locators=tuple(self.locators),
            parts=tuple(self.parts),
            notes=notes,
            omissions=tuple(omissions),
            no_text=no_text,
        )


def markdown_safe(text: str) -> str:
    """``text`` with what would begin a Markdown heading or fence escaped by a backslash."""
    return _LIKE_MARKDOWN.sub(r"\1\\\2", text)


def fit(text: str) -> str:
    """``text`` without what no store can hold, and the control characters that no text has."""
    return _UNFIT.sub("", text)


def one_line(text: str) -> str:
    """``text`` with every run of white space as one space."""
    return " ".join(text.split())


Decode: TypeAlias = Callable[[bytes, str], DecodedText | None]
"""Decodes a file's bytes, given its name; returns None for binary data."""


@attrs.frozen(kw_only=True, slots=True)
class ParsedFile:
    """The text of a file, with positions in the original.

    ``content`` is Markdown if the file has structure; ``metadata["kind"]`` then says so.
    ``locators`` map its spans to pages, lines, cells or slides; chunks do not cross the boundaries
    of ``parts``. Both are in the order of the text; ``outline`` is their serialized form, or "".
    ``omissions`` name the words of the file that ``content`` lacks, and ``no_text`` says why the
    content is empty or nearly empty though the file is not. Both are stored in the outline.
    ``notes`` describe what else the reader should know, such as a guessed encoding.

    Raises:
        ValidationError: locators or parts are out of order or outside the content.
    """

    content: str
    metadata: Metadata = attrs.field(factory=dict)
    parser_sig: str = ""
    locators: tuple[Locator, ...] = ()
    parts: tuple[Part, ...] = ()
    notes: tuple[str, ...] = ()
    omissions: tuple[Omission, ...] = ()
    no_text: str = ""
    original_sha256: str = ""
    outline: str = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        unread = Unread(omissions=self.omissions, no_text=self.no_text)
        outline = write_outline(self.content, self.locators, self.parts, unread)
        object.__setattr__(self, "outline", outline)

    def document(
        self, name: str, metadata: Metadata | None = None, *, if_version: int | None = None
    ) -> NewDocument:
        """Return the document to store; ``metadata`` overrides the parser's metadata."""
        from triptych.records import NewDocument

        return NewDocument(
            name=name,
            content=self.content,
            metadata={**self.metadata, **(metadata or {})},
            if_version=if_version,
            original_sha256=self.original_sha256,
            parser_sig=self.parser_sig,
            outline=self.outline,
        )


class FileParser(Protocol):
    """Turns the bytes of a file of one format into a `ParsedFile`.

    It must be deterministic and bounded in time and memory for any bytes: its constructor takes the
    limits. It may be called from any thread.
    """

    @property
    def signature(self) -> str:
        """The format, the parser's version and every option: "csv/1".

        If it changes, files are read again, because the results may differ.
        """
        ...

    @property
    def endings(self) -> frozenset[str]:
        """The extensions of its files, in lower case, with the dot."""
        ...

    def recognises(self, data: bytes) -> bool:
        """Return whether ``data``, from a file without a known extension, is in this format."""
        ...

    def parse(self, name: str, data: bytes) -> ParsedFile | None:
        """Parse ``data``; return None if it is binary and not in a format of this parser.

        ``name`` is the file's name, for its extension and for messages.

        Raises:
            ParseError: it is malformed, encrypted, or exceeds a limit.
            NotAvailableError: a library is missing; the message names the extra.
        """
        ...


@attrs.frozen(kw_only=True)
class TextFileParser(ABC):
    """What the parsers of text files share: only its name says that a file is of their format."""

    decode: Decode = decode_text

    def recognises(self, data: bytes) -> bool:
        """Never: a name must say so."""
        return False

    def parse(self, name: str, data: bytes) -> ParsedFile | None:
        """The text of ``data``; None where it is binary."""
        decoded = self.decode(data, name)
        return None if decoded is None else self._read(name, decoded)

    @abstractmethod
    def _read(self, name: str, decoded: DecodedText) -> ParsedFile: ...


def kept_as_lines(
    decoded: DecodedText,
    signature: str,
    parts: Iterable[Part],
    *,
    metadata: Metadata | None = None,
    notes: Iterable[str] = (),
) -> ParsedFile:
    """The text as it is, cut at ``parts``; its locators are its lines."""
    text = decoded.text
    locator = Locator(start=0, end=len(text), unit="line", number=1, counted=True)
    return ParsedFile(
        content=text,
        metadata=metadata or {},
        parser_sig=signature,
        locators=(locator,) if text else (),
        parts=tuple(parts),
        notes=(*decoded.notes, *notes),
    )
