"""Markdown and plain text: kept as they are, but for what a converter left in them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import attrs

from triptych.chunking.kinds import MARKDOWN, kind_of
from triptych.chunking.outline import Locator
from triptych.parsing.builder import contents_lines
from triptych.parsing.decoder import DecodedText, decode_text
from triptych.parsing.front_matter import front_matter
from triptych.parsing.parsed import Decode, ParsedFile

__all__ = ["MarkdownParser", "TextParser"]

_MARKDOWN = frozenset((".markdown", ".md", ".mdown", ".mdx"))
_OTHERS = frozenset((".adoc", ".asciidoc", ".jsonl", ".log", ".ndjson", ".org", ".text", ".txt"))

# What well-known converters write between the text of a page and the next.
_COMMENT = re.compile(
    r"[ \t]*<!--\s*(?:image|formula-not-decoded|page[ _-]?break|(?:page|slide)(?:[ _]number)?"
    r"\s*[:=#]?\s*\d+|page(?:number|header|footer|break)\s*(?:=\s*\"[^\"\n]{0,200}\")?)"
    r"\s*-->[ \t]*",
    re.IGNORECASE,
)
_MAY_HOLD = re.compile("<!--|[.][ .][.]|[.] [.]|[\u2024-\u2026·]")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


@attrs.frozen(kw_only=True)
class TextParser:
    """Plain text, and every text that has no parser of its own. Front matter is metadata too."""

    decode: Decode = decode_text
    signature: str = attrs.field(default="text/3", init=False)
    endings: frozenset[str] = attrs.field(default=_OTHERS, init=False)

    def recognises(self, data: bytes) -> bool:
        """Never: the registry falls back on it."""
        return False

    def parse(self, name: str, data: bytes) -> ParsedFile | None:
        """The text, without the lines of a table of contents."""
        decoded = self.decode(data, name)
        if decoded is None:
            return None
        return _cleaned(decoded, self.signature, comments=False)


@attrs.frozen(kw_only=True)
class MarkdownParser:
    """Markdown; outside of code, converters' comments and contents lines are left out. Front matter
    is metadata too."""

    decode: Decode = decode_text
    signature: str = attrs.field(default="markdown/3", init=False)
    endings: frozenset[str] = attrs.field(default=_MARKDOWN, init=False)

    def recognises(self, data: bytes) -> bool:
        """Never: any text is Markdown."""
        return False

    def parse(self, name: str, data: bytes) -> ParsedFile | None:
        """The text, without what a converter left in it."""
        decoded = self.decode(data, name)
        if decoded is None:
            return None
        parsed = _cleaned(decoded, self.signature, comments=True)
        if kind_of(name, {}) == MARKDOWN:
            return parsed
        # Its name alone would not tell the chunker.
        return attrs.evolve(parsed, metadata={**parsed.metadata, "kind": MARKDOWN})


def _cleaned(decoded: DecodedText, signature: str, *, comments: bool) -> ParsedFile:
    """The text as it is, or without some lines: then locators lead back to the lines."""
    text, notes = decoded.text, decoded.notes
    metadata = front_matter(text)
    if _MAY_HOLD.search(text) is None:
        return ParsedFile(content=text, metadata=metadata, parser_sig=signature, notes=notes)
    kept: list[tuple[int, str]] = []
    left_out = False
    lines = list(_lines(text))
    # A fenced line, like a blank one, ends a block.
    contents = contents_lines(["" if fenced else line.rstrip("\r\n") for _, line, fenced in lines])
    for (number, line, fenced), listed in zip(lines, contents, strict=True):
        drop = not fenced and (
            listed
            or (comments and "<!--" in line and _COMMENT.fullmatch(line.rstrip("\r\n")) is not None)
        )
        left_out = left_out or drop
        if not drop:
            kept.append((number, line))
    if not left_out:
        return ParsedFile(content=text, metadata=metadata, parser_sig=signature, notes=notes)
    return ParsedFile(
        content="".join(line for _, line in kept),
        metadata=metadata,
        parser_sig=signature,
        locators=tuple(line_locators(kept)),
        notes=notes,
    )


def _lines(text: str) -> Iterator[tuple[int, str, bool]]:
    """The lines of ``text``, from 1, with their ends, and whether they are fenced code."""
    fence = ""
    for number, line in enumerate(re.findall(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+", text), start=1):
        found = _FENCE.match(line)
        inside = bool(fence)
        if found is not None:
            if not fence:
                fence = found[1]
            elif found[1].startswith(fence) and not line[found.end() :].strip():
                fence = ""
        yield number, line, inside or bool(fence)


def line_locators(kept: list[tuple[int, str]]) -> Iterator[Locator]:
    """Where each run of neighbouring lines stands; the lines with their ends and numbers."""
    at = start = first = before = 0
    for number, line in kept:
        if number != before + 1 or at == 0:
            if at > start:
                yield Locator(start=start, end=at, unit="line", number=first, counted=True)
            start, first = at, number
        at += len(line)
        before = number
    if at > start:
        yield Locator(start=start, end=at, unit="line", number=first, counted=True)
