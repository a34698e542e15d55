"""Tokenizing HTML into tags and text in linear time.

A subset of the tokenizer of the HTML standard (section 13.2.5): what does not close before the
end of the file (a tag, a comment) ends it there, so that nothing is looked for twice. The
standard library's html.parser was quadratic on such input in many of its versions.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping

import attrs

START, END, TEXT = "start", "end", "text"

_TAG = re.compile(
    r"<(/?)([a-zA-Z][^\s/>]*+)((?:[^=>]++|=\s*+(?:\"[^\"]*+\"|'[^']*+'|(?![\"'])|.))*+)>", re.S
)
_ATTRIBUTE = re.compile(
    r"([^\s=>\"'/]++)(?:\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s>]++)))?", re.S
)
NO_MARKUP = frozenset(
    ("iframe", "noembed", "noframes", "script", "style", "textarea", "title", "xmp")
)
"""Elements that hold text alone, up to their end tag; without one, all but code ends at a tag."""

_UNSHOWN = frozenset(("script", "style"))
_XHTML = re.compile(
    r"\A\s*<\?xml\b|<!doctype\b[^>]*\bxhtml\b"
    r"|<html\b[^>]*\bxmlns\s*=\s*[\"']http://www\.w3\.org/1999/xhtml[\"']",
    re.I,
)
_HEAD = 2_048
_PREFIX = re.compile(r"(?:x?html|h|m|mml|math|svg):", re.I)
_DECODED = frozenset(("textarea", "title"))
_MAX_ATTRIBUTES = 65_536


@attrs.frozen(slots=True)
class Token:
    """A start tag (``value`` its name), an end tag, or a run of text, and where it begins.

    ``closed`` is true for a start tag that ends with a slash of its own.
    """

    kind: str
    value: str
    position: int
    attributes: Mapping[str, str] = attrs.field(factory=dict)
    closed: bool = False


def is_xhtml(name: str, text: str) -> bool:
    """Whether browsers would read the file as XML, where any element may be self-closed."""
    return name.lower().endswith(".xhtml") or bool(_XHTML.search(text[:_HEAD]))


def tokens(text: str, *, xhtml: bool = False) -> Iterator[Token]:
    """The tags and the text of ``text``, names in lower case, character references decoded."""
    at = 0
    unclosed: set[str] = set()
    while at < len(text):
        opening = text.find("<", at)
        if opening < 0:
            opening = len(text)
        if opening > at:
            yield Token(TEXT, html.unescape(text[at:opening]), at)
        if opening == len(text):
            return
        at = opening
        mark = text[at + 1 : at + 2]
        if (mark.isascii() and mark.isalpha()) or mark == "/":
            found = _TAG.match(text, at)
            if found is None:
                if mark == "/" and not text[at + 2 : at + 3].isalpha():
                    at = text.find(">", at) + 1
                    if at > 0:
                        continue
                return
            name = found[2].lower()
            if xhtml:
                name = _PREFIX.sub("", name, count=1) if ":" in name else name
            start = at
            at = found.end()
            if found[1]:
                yield Token(END, name, start)
                continue
            closed = _is_closed(found[3])
            yield Token(START, name, start, _attributes(found[3]), closed)
            if name in NO_MARKUP and not closed:
                end = -1 if name in unclosed else _end_of(name, text, at)
                if end < 0:
                    unclosed.add(name)
                    end = len(text) if name in _UNSHOWN else text.find("<", at) % (len(text) + 1)
                inner = text[at:end]
                yield Token(TEXT, html.unescape(inner) if name in _DECODED else inner, at)
                at = end
        elif xhtml and text.startswith("<![CDATA[", at):
            end = text.find("]]>", at) % (len(text) + 1)
            yield Token(TEXT, text[at + len("<![CDATA[") : end], at)
            at = end + len("]]>")
        elif mark in ("!", "?"):
            at = _behind_declaration(text, at)
        else:
            # Signs in a row are one text: a page of them would be a token each.
            end = at + 1
            while text.startswith("<<", end):
                end += 1
            yield Token(TEXT, text[at:end], at)
            at = end


def _end_of(name: str, text: str, at: int) -> int:
    close = re.compile(rf"</{re.escape(name)}(?=[\s/>])", re.I).search(text, at)
    return -1 if close is None else close.start()


def _is_closed(attributes: str) -> bool:
    """Whether a tag ends with a slash that is not part of a value without quotes."""
    if not attributes.endswith("/"):
        return False
    before = attributes[:-1]
    return before[-1:] in "\"' \t\r\n\f" or "=" not in before.rsplit(None, 1)[-1]


def _behind_declaration(text: str, at: int) -> int:
    """Behind a comment, doctype or processing instruction; the end where it does not close."""
    if not text.startswith("<!--", at):
        end = text.find(">", at)
        return len(text) if end < 0 else end + 1
    # "<!-->" and "<!--->" are whole comments: the end may share dashes with the beginning.
    end = text.find("-->", at + 2)
    return len(text) if end < 0 else end + 3


def _attributes(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for match in _ATTRIBUTE.finditer(text[:_MAX_ATTRIBUTES]):
        value = match[2] or match[3] or match[4] or ""
        found.setdefault(match[1].lower(), html.unescape(value))
    return found
