"""The seam between files and documents: what a file's bytes say."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol

import attrs

from triptych.parsing.decoding import decode_text
from triptych.parsing.files import ENDINGS
from triptych.sync.front_matter import front_matter

__all__ = ["Parsed", "ParsedText", "SyncParser", "TextFileParser"]


class Parsed(Protocol):
    """What a parser gives: a file's text, and the metadata that is written in it."""

    @property
    def content(self) -> str:
        """The text."""
        ...

    @property
    def metadata(self) -> Mapping[str, str]:
        """The metadata."""
        ...


@attrs.frozen(kw_only=True, slots=True)
class ParsedText:
    """A `Parsed`, and nothing else."""

    content: str
    metadata: Mapping[str, str] = attrs.field(factory=dict)


class SyncParser(Protocol):
    """Makes documents of files. Called from several threads at a time."""

    def takes(self, name: str) -> bool:
        """Whether a file of this name is taken without being asked for; reads nothing."""
        ...

    def signature(self, name: str) -> str:
        """What parses files of this name, with its version: another one parses them again."""
        ...

    def parse(self, name: str, data: bytes) -> Parsed | None:
        """What the file says; None when it is nothing to make a document of, binary data say.

        The same for the same arguments and signature. May raise what it likes: the file has
        failed then, and is tried again at the next sync.
        """
        ...


class TextFileParser:
    """Text in any of the usual encodings; front matter becomes metadata, and stays in the text."""

    def takes(self, name: str) -> bool:
        """Whether its ending is one of `triptych.parsing.files.ENDINGS`, in any case."""
        return os.path.splitext(name)[1].lower() in ENDINGS

    def signature(self, name: str) -> str:
        return "text/1"

    def parse(self, name: str, data: bytes) -> ParsedText | None:
        """The decoded text; None for binary data."""
        decoded = decode_text(data, name)
        if decoded is None:
            return None
        return ParsedText(content=decoded.text, metadata=front_matter(decoded.text))
