"""Markdown and plain text: kept as they are."""

from __future__ import annotations

import attrs

from triptych.chunking.kinds import MARKDOWN, kind_of
from triptych.parsing.decoder import decode_text
from triptych.parsing.front_matter import front_matter
from triptych.parsing.parsed import Decode, ParsedFile

_MARKDOWN = frozenset((".markdown", ".md", ".mdown", ".mdx"))
_OTHERS = frozenset((".adoc", ".asciidoc", ".jsonl", ".log", ".ndjson", ".org", ".text", ".txt"))


@attrs.frozen(kw_only=True)
class TextParser:
    """Plain text, and every text that has no parser of its own. Front matter is metadata too."""

    decode: Decode = decode_text
    signature: str = attrs.field(default="text/4", init=False)
    endings: frozenset[str] = attrs.field(default=_OTHERS, init=False)

    def recognises(self, data: bytes) -> bool:
        """Never: the registry falls back on it."""
        return False

    def parse(self, name: str, data: bytes) -> ParsedFile | None:
        """The text, whole."""
        decoded = self.decode(data, name)
        if decoded is None:
            return None
        return ParsedFile(
            content=decoded.text,
            metadata=front_matter(decoded.text),
            parser_sig=self.signature,
            notes=decoded.notes,
        )


@attrs.frozen(kw_only=True)
class MarkdownParser:
    """Markdown. Front matter is metadata too."""

    decode: Decode = decode_text
    signature: str = attrs.field(default="markdown/4", init=False)
    endings: frozenset[str] = attrs.field(default=_MARKDOWN, init=False)

    def recognises(self, data: bytes) -> bool:
        """Never: any text is Markdown."""
        return False

    def parse(self, name: str, data: bytes) -> ParsedFile | None:
        """The text, whole."""
        parsed = TextParser(decode=self.decode).parse(name, data)
        if parsed is None:
            return None
        # Where its name alone would not tell the chunker, metadata does.
        kind = {} if kind_of(name, {}) == MARKDOWN else {"kind": MARKDOWN}
        return attrs.evolve(parsed, metadata={**parsed.metadata, **kind}, parser_sig=self.signature)
