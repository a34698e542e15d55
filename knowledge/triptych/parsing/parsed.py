"""What a parser makes of a file, and the contract of parsers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

import attrs

from triptych.chunking.outline import Locator, Part, write_outline
from triptych.parsing.decoder import DecodedText

if TYPE_CHECKING:
    from triptych.records import NewDocument
    from triptych.records.metadata import Metadata

Decode: TypeAlias = Callable[[bytes, str], DecodedText | None]
"""From a file's bytes and name to its text; None where it is none."""


@attrs.frozen(kw_only=True, slots=True)
class ParsedFile:
    """A file's text, and how to find one's way back from it.

    ``content`` is Markdown where the file has structure; then ``metadata["kind"]`` says so.
    ``locators`` lead from spans of it to pages, lines, cells or slides; ``parts`` are what
    chunks do not reach over. Both are in the order of the text, and ``outline`` holds them for
    the document, "" where there are none. ``notes`` tell what was not done, and what to do
    about it.

    Raises:
        ValidationError: locators or parts are out of order, or reach outside of the content.
    """

    content: str
    metadata: Metadata = attrs.field(factory=dict)
    parser_sig: str = ""
    locators: tuple[Locator, ...] = ()
    parts: tuple[Part, ...] = ()
    notes: tuple[str, ...] = ()
    original_sha256: str = ""
    outline: str = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        outline = write_outline(self.content, self.locators, self.parts)
        object.__setattr__(self, "outline", outline)

    def document(
        self,
        name: str,
        metadata: Metadata | None = None,
        *,
        if_version: int | None = None,
    ) -> NewDocument:
        """The document to put; ``metadata`` goes over what the parser found."""
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

    Deterministic, and bounded in time and memory whatever the bytes are: the limits it needs are
    given when it is made. May be called from any thread.
    """

    @property
    def signature(self) -> str:
        """Names the format, the parser's version and every option: "csv/1".

        Another signature says that files are to be read again: the results may differ.
        """
        ...

    @property
    def endings(self) -> frozenset[str]:
        """The endings of its files, in lower case, with the dot."""
        ...

    def recognises(self, data: bytes) -> bool:
        """Whether ``data``, of a name that tells nothing, can only be of this format."""
        ...

    def parse(self, name: str, data: bytes) -> ParsedFile | None:
        """The text of ``data``; None where it is binary, and of no format of this parser.

        ``name`` is the file's, for its ending and for messages.

        Raises:
            ParseError: it is malformed, encrypted, or beyond a limit.
            NotAvailableError: a library is missing; the message names the extra.
        """
        ...
