"""YAML: kept as it is, cut at its top-level keys. Nothing is constructed or expanded."""

from __future__ import annotations

import re

import attrs

from triptych.chunking.outline import Locator, Part
from triptych.parsing.decoder import decode_text
from triptych.parsing.parsed import Decode, ParsedFile

LEAST = 240
_MAX_PARTS = 20_000
# A key at the margin. Whatever belongs to it, block scalars too, is indented, a list aside.
_KEY = re.compile(
    r"""^(?:"([^"\r\n]{1,200})"|'([^'\r\n]{1,200})'|([^\s\#\-?:,\[\]{}&*!|>'"%@`][^\r\n:\#]{0,200}?))
    [ \t]*:(?=[ \t\r\n]|\Z)""",
    re.VERBOSE | re.MULTILINE,
)


@attrs.frozen(kw_only=True)
class YamlParser:
    """YAML as text. It is not checked: aliases and tags mean nothing here."""

    decode: Decode = decode_text
    signature: str = attrs.field(default="yaml/1", init=False)
    endings: frozenset[str] = attrs.field(default=frozenset((".yaml", ".yml")), init=False)

    def recognises(self, data: bytes) -> bool:
        """Never: a name must say so."""
        return False

    def parse(self, name: str, data: bytes) -> ParsedFile | None:
        """The text as it is; locators are its lines, headings its top-level keys."""
        decoded = self.decode(data, name)
        if decoded is None:
            return None
        text = decoded.text
        found = [
            (match.start(), (match[1] or match[2] or match[3]).strip())
            for match in _KEY.finditer(text)
        ]
        ends = [*[start for start, _ in found[1:]], len(text)][: len(found)]
        parts = [
            Part(start=start, end=end, title=title[:80])
            for (start, title), end in zip(found, ends, strict=True)
            if end - start >= LEAST
        ]
        locator = Locator(start=0, end=len(text), unit="line", number=1, counted=True)
        return ParsedFile(
            content=text,
            parser_sig=self.signature,
            locators=(locator,) if text else (),
            parts=tuple(parts[:_MAX_PARTS]),
            notes=decoded.notes,
        )
