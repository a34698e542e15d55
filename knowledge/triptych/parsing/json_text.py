"""JSON: kept as it is, its larger members found so that chunks are cut between them."""

from __future__ import annotations

import json
import re
from itertools import count

import attrs

from triptych.chunking.outline import Locator, Part
from triptych.errors import ParseError
from triptych.parsing.clock import timed
from triptych.parsing.decoder import decode_text
from triptych.parsing.limits import ParseLimits
from triptych.parsing.parsed import Decode, ParsedFile

LEAST = 240
"""Members that are shorter (code points, with their key) stay with their neighbours."""

_MAX_PARTS = 20_000
_TITLE = 80
# A token; strings and numbers possessively, so that what is broken fails at once.
_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9A-Fa-f]{4})*+")
    |(?P<mark>[{}\[\]:,])
    |(?P<value>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?(?![\w.])
      |(?:true|false|null)(?!\w))""",
    re.VERBOSE,
)
_BETWEEN = re.compile(r"(?:[ \t\r\n\ufeff]++|//[^\r\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/)*+")


@attrs.frozen(kw_only=True)
class JsonParser:
    """JSON, also with comments and commas before a closing bracket, as settings files have."""

    decode: Decode = decode_text
    limits: ParseLimits = attrs.field(factory=ParseLimits)
    signature: str = attrs.field(default="json/1", init=False)
    endings: frozenset[str] = attrs.field(
        default=frozenset((".geojson", ".json", ".jsonc")), init=False
    )

    def recognises(self, data: bytes) -> bool:
        """Never: a name must say so."""
        return False

    def parse(self, name: str, data: bytes) -> ParsedFile | None:
        """The text as it is; locators are its lines, headings the keys above."""
        decoded = self.decode(data, name)
        if decoded is None:
            return None
        text = decoded.text
        parts = scan_json(text, name, self.limits)
        locator = Locator(start=0, end=len(text), unit="line", number=1, counted=True)
        return ParsedFile(
            content=text,
            parser_sig=self.signature,
            locators=(locator,) if text else (),
            parts=tuple(parts),
            notes=decoded.notes,
        )


@attrs.define
class _Open:
    """An object or array that has not been closed: its members are being read."""

    closing: str
    count: int = 0
    key: str = ""
    start: int = -1  # where its current member begins
    mark: int = 0  # how many parts there were when that began


def scan_json(text: str, name: str, limits: ParseLimits) -> list[Part]:
    """Check that ``text`` is JSON, in linear time; its members of at least `LEAST` code points.

    Raises:
        ParseError: it is not, or nests too deep, or takes too long.
    """
    parts: list[Part] = []
    around: list[_Open] = []
    at = _skip(text, 0)
    if at == len(text):
        raise ParseError(f"{name!r} holds no JSON value: it is empty")
    wanted = "value"  # or "key", "colon", "after"
    for _ in timed(count(), name, limits.seconds):
        at = _skip(text, at)
        if at == len(text):
            if around or wanted != "after":
                raise _malformed(text, name, at, "it ends too early")
            return parts
        found = _TOKEN.match(text, at)
        if found is None:
            raise _malformed(text, name, at, f"{text[at : at + 20]!r} is not JSON")
        kind, token = found.lastgroup, found[0] if found.lastgroup == "mark" else ""
        end = found.end()
        top = around[-1] if around else None
        if top is not None and token == top.closing and wanted != "colon":
            if wanted == "after":
                _close_member(parts, top, at, len(around) - 1)
            elif wanted == "value" and top.closing == "}":
                raise _malformed(text, name, at, "a value is missing")
            around.pop()
            wanted = "after"
        elif wanted == "key" and kind == "string":
            assert top is not None  # keys are in objects
            top.key, top.start, top.mark = found[0], at, len(parts)
            wanted = "colon"
        elif wanted == "colon" and token == ":":
            wanted = "value"
        elif wanted == "value" and (kind != "mark" or token in "{["):
            if top is not None and top.closing == "]":
                top.start, top.mark = at, len(parts)
            if kind == "mark":
                if len(around) >= limits.max_depth:
                    raise ParseError(
                        f"{name!r} nests deeper than {limits.max_depth} levels: flatten it, "
                        "or raise max_depth of ParseLimits"
                    )
                around.append(_Open("}" if token == "{" else "]"))
                wanted = "key" if token == "{" else "value"
            else:
                wanted = "after"
        elif wanted == "after" and token == "," and top is not None:
            _close_member(parts, top, at, len(around) - 1)
            wanted = "key" if top.closing == "}" else "value"
        else:
            raise _malformed(text, name, at, f"{found[0][:20]!r} does not fit there")
        at = end
    raise AssertionError  # the count has no end


def _close_member(parts: list[Part], held: _Open, end: int, depth: int) -> None:
    held.count += 1
    if held.start < 0:
        return
    if end - held.start >= LEAST and len(parts) < _MAX_PARTS:
        title = f"[{held.count - 1}]" if held.closing == "]" else _title(held.key)
        parts.insert(held.mark, Part(start=held.start, end=end, title=title, depth=depth))
    else:
        # Not long enough, so that nothing in it is either.
        del parts[held.mark :]
    held.start = -1


def _title(key: str) -> str:
    return str(json.loads(key)).encode("utf-8", "replace").decode()[:_TITLE]


def _skip(text: str, at: int) -> int:
    found = _BETWEEN.match(text, at)
    return at if found is None else found.end()


def _malformed(text: str, name: str, at: int, what: str) -> ParseError:
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    return ParseError(
        f"{name!r} is not proper JSON: at line {line}, column {column}, {what}. Repair it, or put "
        "it under a name that ends in .txt"
    )
