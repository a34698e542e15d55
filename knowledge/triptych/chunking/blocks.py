r"""The blocks of a Markdown document, found in one pass.

Follows CommonMark 0.31 where it decides what is a heading and what belongs together; it is not
a parser. Departures, each for the sake of chunks: list items, MkDocs admonitions and tabs own
every following line that is indented by two spaces or more; a setext heading has at most 200
code points; a line of Unicode whitespace is blank.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import TypeAlias

from triptych.chunking.boundaries import trimmed_end

HEADING_LIMIT = 200
# Front matter is found within this many code points or not at all, so that the search is cheap.
FRONT_MATTER_LIMIT = 65_536


# What a block is: plain integers, for there is one a paragraph. A heading's kind is its level.
PARAGRAPH = 0
HEADINGS = range(1, 7)
LIST_ITEM = 7
LINES = 8  # code, HTML, block quotes: split at line ends when too large
FRONT_MATTER = 9

# A block's kind and its span in code points, without surrounding blank lines.
Block: TypeAlias = tuple[int, int, int]


_HTML_NAMES = (
    "address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details|"
    "dialog|dir|div|dl|dt|fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]|head|"
    "header|hr|html|iframe|legend|li|link|main|menu|menuitem|nav|noframes|ol|optgroup|option|p|"
    "param|search|section|summary|table|tbody|td|tfoot|th|thead|title|tr|track|ul"
)
# CommonMark's HTML blocks 1 to 5, which run to a closing mark through blank lines and headings.
_HTML_OPEN = r"(?:<(?:(?i:script|pre|style|textarea)(?=[\s>])|!--|\?|![A-Za-z]|!\[CDATA\[))"
_HTML_TAG = rf"(?:</?(?i:{_HTML_NAMES})(?=[\s>]|/>))"
_HTML_ALONE = r"(?:</?[A-Za-z][\w-]*(?:[ \t][^<>\n]*)?/?>[ \t]*$)"
_BLANK = r"[^\S\n]*+(?:\n|\Z)"
_RULE = r"(?:(?:-[ \t]*+){3,}+$|(?:_[ \t]*+){3,}+$|(?:\*[ \t]*+){3,}+$)"
_HEADING = r"\#{1,6}(?:[ \t]|$)"
_FENCE = r"(?:`{3,}+[^`\n]*+$|~{3,}+)"
_ADMONITION = r"""(?:!!![ ]|\?\?\?\+?[ ]|===[+!]?[ ]")"""
_ITEM = rf"(?:(?:[-+*]|\d{{1,9}}[.)])(?:[ \t]|$)|{_ADMONITION})"
_UNDERLINE = r"(?:=++|-++)[ \t]*$"
# What ends a paragraph without a blank line before it. The look at one character comes first:
# most lines start with a letter.
_INTERRUPT = (
    rf"(?:{_BLANK}|[ ]{{0,3}}(?=[\#`~>\-+*_1=<])(?:{_HEADING}|{_FENCE}|>|[-+*][ \t]+\S"
    rf"|1[.)][ \t]+\S|{_RULE}|{_UNDERLINE}|{_HTML_OPEN}|{_HTML_TAG}))"
)
_ITEM_INTERRUPT = (
    rf"(?:{_BLANK}|[ ]?(?=[\#`~>\-+*_\d=<!?])"
    rf"(?:{_HEADING}|{_FENCE}|>|{_ITEM}|{_RULE}|{_HTML_OPEN}|{_HTML_TAG}))"
)
_BLOCK = rf"""
    (?:[^\S\n]*+\n)*+
    (?:
      (?P<end>[^\S\n]*+\Z)
    | (?P<atx>[ ]{{0,3}}\#{{1,6}})(?:[ \t][^\n]*+)?$
    | (?P<fence>[ ]{{0,3}}(?:`{{3,}}+(?=[^`\n]*+$)|~{{3,}}+))
    | (?P<html>[ ]{{0,3}}{_HTML_OPEN})
    | (?P<rule>[ ]{{0,3}}{_RULE})
    | (?P<item>[ ]{{0,3}}{_ITEM})[^\n]*+
      (?:\n(?!{_ITEM_INTERRUPT})[^\n]*+
        |\n(?:[^\S\n]*+\n)*+(?:[ ]{{2}}|\t)[^\n]*+)*+
    | (?P<code>[ ]{{4}}|[ ]{{0,3}}\t)[^\n]*+(?:\n(?:[^\S\n]*+\n)*+(?:[ ]{{4}}|\t)[^\n]*+)*+
    | (?P<quote>[ ]{{0,3}}>)[^\n]*+(?:\n(?:[ ]{{0,3}}(?:>|=++[ \t]*$)|(?!{_INTERRUPT}))[^\n]*+)*+
    | (?P<tag>[ ]{{0,3}}(?:{_HTML_TAG}|{_HTML_ALONE}))[^\n]*+(?:\n(?!{_BLANK})[^\n]*+)*+
    | (?P<paragraph>[^\n]++)(?:\n(?!{_INTERRUPT})[^\n]*+)*+
      (?:\n[ ]{{0,3}}(?P<underline>=++|-++)[ \t]*$)?
    )"""


@cache
def _block() -> re.Pattern[str]:
    """`_BLOCK`, compiled at the first use: that takes longer than many a search."""
    return re.compile(_BLOCK, re.VERBOSE | re.MULTILINE)


_FENCE_LINE = re.compile(r"^ {0,3}(`{3,}+|~{3,}+)[^\S\n]*$", re.MULTILINE)
_FRONT_MATTER = re.compile(
    r"\n?(?P<body>---[ \t]*\n(?=\S)(?s:.*?)^(?:---|\.\.\.)[ \t]*$"
    r"|\+\+\+[ \t]*\n(?s:.*?)^\+\+\+[ \t]*$)",
    re.MULTILINE,
)
_HTML_CLOSE = (("<!--", "-->"), ("<?", "?>"), ("<![CDATA[", "]]>"), ("<!", ">"))
_RAW_TEXT_CLOSE = re.compile(r"</(?:script|pre|style|textarea)>", re.IGNORECASE)


_KINDS = {
    "atx": 1,
    "fence": LINES,
    "html": LINES,
    "rule": PARAGRAPH,
    "item": LIST_ITEM,
    "code": LINES,
    "quote": LINES,
    "tag": LINES,
    "paragraph": PARAGRAPH,
}


def _line_end(text: str, position: int) -> int:
    at = text.find("\n", position)
    return len(text) if at < 0 else at


def _fence_end(text: str, fence: str, position: int) -> int:
    for line in _FENCE_LINE.finditer(text, position):
        if line[1].startswith(fence):
            return line.end()
    return len(text)


def _html_end(text: str, opening: str, position: int) -> int:
    for mark, close in _HTML_CLOSE:
        if opening.startswith(mark):
            # `<!-->` is a whole comment: the closing mark may share dashes with the opening.
            at = text.find(close, position - len(opening) + 2)
            break
    else:
        found = _RAW_TEXT_CLOSE.search(text, position)
        at = -1 if found is None else found.start()
    return len(text) if at < 0 else _line_end(text, at)


def scan(text: str) -> Iterator[Block]:
    """Yield the blocks of `text` in order; every visible character is in exactly one.

    `text` must have unified line ends (`triptych.chunking.normalize`).
    """
    position = 0
    front_matter = _FRONT_MATTER.match(text, 0, FRONT_MATTER_LIMIT)
    if front_matter is not None:
        position = front_matter.end()
        start = front_matter.start("body")
        yield FRONT_MATTER, start, start + len(front_matter["body"].rstrip(" \t"))
    match = _block().match
    while (found := match(text, position)) is not None:
        group = found.lastgroup or "end"
        position = found.end()
        if group == "end":
            return
        kind: int
        if group == "underline":
            start = found.start("paragraph")
            if position - start <= HEADING_LIMIT:
                kind = 1 if found["underline"][0] == "=" else 2
            else:
                kind = PARAGRAPH
        else:
            start = found.start(group)
            kind = _KINDS[group]
            if group == "atx":
                kind = found["atx"].count("#")
            elif group == "fence":
                position = _fence_end(text, found["fence"].lstrip(), position)
            elif group == "html":
                position = _html_end(text, found["html"].lstrip(), position)
        yield kind, start, trimmed_end(text, start, position)
