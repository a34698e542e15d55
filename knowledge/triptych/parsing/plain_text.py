"""Markdown and plain text, unchanged; front matter is also read as metadata."""

from __future__ import annotations

import attrs

from triptych.chunking.kinds import MARKDOWN, kind_of
from triptych.parsing.contract import ParsedFile, TextFileParser
from triptych.parsing.decoder import DecodedText
from triptych.parsing.frontmatter import read_front_matter

_MARKDOWN = frozenset((".markdown", ".md", ".mdown", ".mdx"))
_OTHERS = frozenset((".adoc", ".asciidoc", ".jsonl", ".log", ".ndjson", ".org", ".text", ".txt"))


@attrs.frozen(kw_only=True)
class TextParser(TextFileParser):
    """Plain text, and any text without a specific parser. Front matter becomes metadata."""

    signature: str = attrs.field(default="text/6", init=False)
    endings: frozenset[str] = attrs.field(default=_OTHERS, init=False)

    def _read(self, name: str, decoded: DecodedText) -> ParsedFile:
        """The text, whole."""
        metadata, notes = read_front_matter(decoded.text)
        return ParsedFile(
            content=decoded.text,
            metadata=metadata,
            parser_sig=self.signature,
            notes=(*decoded.notes, *(f"{name!r}: {note}" for note in notes)),
        )


@attrs.frozen(kw_only=True)
class MarkdownParser(TextParser):
    """Markdown. Front matter becomes metadata."""

    signature: str = attrs.field(default="markdown/6", init=False)
    endings: frozenset[str] = attrs.field(default=_MARKDOWN, init=False)

    def _read(self, name: str, decoded: DecodedText) -> ParsedFile:
        """The text, whole."""
        parsed = super()._read(name, decoded)
        # Where its name alone would not tell the chunker, metadata does.
        kind = {} if kind_of(name, {}) == MARKDOWN else {"kind": MARKDOWN}
        return attrs.evolve(parsed, metadata={**parsed.metadata, **kind})
