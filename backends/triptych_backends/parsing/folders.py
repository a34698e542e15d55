"""Files of every format for `triptych.sync.DirectorySync`."""

from __future__ import annotations

from triptych.parsing import FileParsers
from triptych.sync import ParsedText, front_matter
from triptych_backends.parsing import default_parser

__all__ = ["FolderParser"]


class FolderParser:
    """A `triptych.sync.SyncParser` of every format that `default_parser` has.

    Text may be in any of the usual encodings, front matter becomes metadata, and what is neither
    text nor of a format known is left out.
    """

    def __init__(self, parsers: FileParsers | None = None) -> None:
        self._parsers = default_parser() if parsers is None else parsers

    def takes(self, name: str) -> bool:
        """Whether its ending is one of a format's."""
        return self._parsers.takes(name)

    def signature(self, name: str) -> str:
        """The signature of the format's parser."""
        return f"folder/1;{self._parsers.signature(name)}"

    def parse(self, name: str, data: bytes) -> ParsedText | None:
        """The file's text with the outline that leads back into it; None for binary data.

        Raises:
            ParseError: the file is malformed, encrypted, or beyond a limit.
            NotAvailableError: a library is missing.
        """
        parsed = self._parsers.parse(name, data)
        if parsed is None:
            return None
        metadata = {**front_matter(parsed.content), **parsed.metadata}
        return ParsedText(content=parsed.content, metadata=metadata)
