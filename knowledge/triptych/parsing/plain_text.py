"""Markdown and plain text: kept as they are; front matter is read as metadata too."""

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
"""Code points within which it must end."""

_BLOCK = re.compile(
    r"(?P<fence>---|\+\+\+)[ \t]*(?:\r\n|\n|\r)(?P<body>.*?)(?:^|(?<=[\r\n]))"
    r"(?P=fence)[ \t]*(?:\r\n|\n|\r|\Z)",
    re.DOTALL,
)
_MOST = 100
"""Entries that are taken, so that aliases which multiply do not."""

_DEPTH = 4


def front_matter(text: str) -> dict[str, str]:
    """The entries at the head of ``text``; empty where there are none, or they are malformed.

    All values are strings, as YAML writes them. The items of a list are joined by ", ", and the
    keys of a mapping in a mapping by ".". An empty value says nothing and is left out.
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
    """Plain text, and every text that has no parser of its own. Front matter is metadata too."""

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
    """Markdown. Front matter is metadata too."""

    signature: str = attrs.field(default="markdown/4", init=False)
    endings: frozenset[str] = attrs.field(default=_MARKDOWN, init=False)

    def _read(self, name: str, decoded: DecodedText) -> ParsedFile:
        """The text, whole."""
        parsed = super()._read(name, decoded)
        # Where its name alone would not tell the chunker, metadata does.
        kind = {} if kind_of(name, {}) == MARKDOWN else {"kind": MARKDOWN}
        return attrs.evolve(parsed, metadata={**parsed.metadata, **kind})
