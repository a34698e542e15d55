"""Markdown and plain text, unchanged; front matter is also read as metadata."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from triptych.chunking.kinds import MARKDOWN, kind_of
from triptych.parsing.contract import ParsedFile, TextFileParser
from triptych.parsing.decoder import DecodedText

_LIMIT = 65_536
"""The maximum length of front matter in code points."""

_BLOCK = re.compile(
    r"(?P<fence>---|\+\+\+)[ \t]*(?:\r\n|\n|\r)(?P<body>.*?)(?:^|(?<=[\r\n]))"
    r"(?P=fence)[ \t]*(?:\r\n|\n|\r|\Z)",
    re.DOTALL,
)
_MOST = 100
"""The maximum number of entries, because aliases can multiply them."""

_DEPTH = 4


def front_matter(text: str) -> dict[str, str]:
    """Return the front matter of ``text``; empty if it has none or it is malformed.

    All values are strings, as written in YAML. Items of a list are joined by ", ", and keys of
    nested mappings by ".". Empty values are left out.
    """
    found = _BLOCK.match(text[:_LIMIT].removeprefix("\ufeff"))
    if found is None:
        return {}
    value = _toml(found["body"]) if found["fence"] == "+++" else _yaml(found["body"])
    if not isinstance(value, Mapping):
        return {}
    entries: dict[str, str] = {}
    for key, item in _flat(value, "", _DEPTH):
        if len(entries) >= _MOST:
            break
        entries[key] = item
    return entries


def _yaml(body: str) -> Any:
    import yaml

    try:
        # The base loader makes strings of all scalars: `no` is "no", and 1.10 is "1.10".
        return yaml.load(body, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None


def _toml(body: str) -> Any:
    try:
        return tomllib.loads(body)
    except (tomllib.TOMLDecodeError, RecursionError):
        return None


def _flat(value: Mapping[Any, Any], above: str, depth: int) -> Iterator[tuple[str, str]]:
    for key, item in value.items():
        name = f"{above}{key}"
        if isinstance(item, Mapping):
            if depth:
                yield from _flat(item, f"{name}.", depth - 1)
            continue
        items = item[:_MOST] if isinstance(item, list) else [item]
        parts = [_scalar(each) for each in items if not isinstance(each, Mapping | list)]
        joined = ", ".join(part for part in parts if part)
        if joined and name.isprintable():
            yield name, joined


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    # An escape in YAML or TOML can write half of a surrogate pair, which no store can hold.
    text = "" if value is None else str(value).strip()
    return text.encode("utf-8", "replace").decode()


_MARKDOWN = frozenset((".markdown", ".md", ".mdown", ".mdx"))
_OTHERS = frozenset((".adoc", ".asciidoc", ".jsonl", ".log", ".ndjson", ".org", ".text", ".txt"))


@attrs.frozen(kw_only=True)
class TextParser(TextFileParser):
    """Plain text, and any text without a specific parser. Front matter becomes metadata."""

    signature: str = attrs.field(default="text/4", init=False)
    endings: frozenset[str] = attrs.field(default=_OTHERS, init=False)

    def _read(self, name: str, decoded: DecodedText) -> ParsedFile:
        """The text, whole."""
        return ParsedFile(
            content=decoded.text,
            metadata=front_matter(decoded.text),
            parser_sig=self.signature,
            notes=decoded.notes,
        )


@attrs.frozen(kw_only=True)
class MarkdownParser(TextParser):
    """Markdown. Front matter becomes metadata."""

    signature: str = attrs.field(default="markdown/4", init=False)
    endings: frozenset[str] = attrs.field(default=_MARKDOWN, init=False)

    def _read(self, name: str, decoded: DecodedText) -> ParsedFile:
        """The text, whole."""
        parsed = super()._read(name, decoded)
        # Where its name alone would not tell the chunker, metadata does.
        kind = {} if kind_of(name, {}) == MARKDOWN else {"kind": MARKDOWN}
        return attrs.evolve(parsed, metadata={**parsed.metadata, **kind})
