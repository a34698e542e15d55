r"""Finding the blocks, sections and titles of a Markdown document in one pass.

Follows CommonMark 0.31 where it decides what is a heading and what belongs together; it is not
a parser. Departures, each for the sake of chunks: list items, MkDocs admonitions and tabs own
every following line that is indented by two spaces or more; a setext heading has at most 200
code points; a line of Unicode whitespace is blank.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TypeAlias

import attrs

from triptych.chunking.boundaries import trimmed_end, unify_line_ends

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
# Most paragraphs are such lines up to a blank one. They are found first: no line that starts with a
# letter begins another block or ends a paragraph.
_LETTERED = r"[^\W\d_][^\n]*+"
_BLOCK = rf"""
    (?:[^\S\n]*+\n)*+
    (?:
      (?P<plain>{_LETTERED}(?:\n{_LETTERED})*+)(?=\n{_BLANK}|\Z)
    | (?P<atx>[ ]{{0,3}}(?P<marks>\#{{1,6}})(?:[ \t][^\n]*+)?$)
      (?:\n(?:[^\S\n]*+\n)*+(?P<below>{_LETTERED}(?:\n{_LETTERED})*+)(?=\n{_BLANK}|\Z))?
    | (?P<end>[^\S\n]*+\Z)
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

    `text` must have unified line ends (`triptych.chunking.boundaries`).
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
        if group == "plain":
            start, position = found.span(1)
            # Asking here spares most blocks a call.
            padded = text[position - 1].isspace()
            yield PARAGRAPH, start, trimmed_end(text, start, position) if padded else position
            continue
        if group == "atx" or group == "below":  # a heading, perhaps with a plain paragraph below it
            start, position = found.span(2)
            padded = text[position - 1].isspace()
            level = len(found[3])
            yield level, start, trimmed_end(text, start, position) if padded else position
            if group == "below":
                start, position = found.span(4)
                padded = text[position - 1].isspace()
                yield PARAGRAPH, start, trimmed_end(text, start, position) if padded else position
            continue
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
            if group == "fence":
                position = _fence_end(text, found["fence"].lstrip(), position)
            elif group == "html":
                position = _html_end(text, found["html"].lstrip(), position)
        yield kind, start, trimmed_end(text, start, position)


# Most first headings are in the first lines; the rest of a large document is read only if not.
_HEAD = 16_384

_CLOSING_HASHES = re.compile(r"(?:^|[ \t])#+$")
# Of MkDocs, Pandoc and kramdown: `{#id .class}`, `{: #id }`, `{-}`, `{key=value}`, and of MDX.
_ATTRIBUTES = re.compile(
    r"(?<!\s)\s*+\{(?:\s*+(?:[#.:]|[\w-]++=)[^{}\n]*+|\s*+-\s*+|/\*[ ]*#[^{}\n]*+)\}$"
)
# Most headings: words with one space between them, and no sign that means something.
_PLAIN_HEADING = re.compile(r"#++[ \t]++([^\s\[#}]++(?: [^\s\[#}]++)*+)")
_LINK = re.compile(r"!?\[([^\[\]]*)\](?:\([^()\n]*\)|\[[^\[\]\n]*\])")


def _without_attributes(title: str) -> str:
    return _ATTRIBUTES.sub("", title) if title.endswith("}") else title


def heading_text(text: str, start: int, end: int) -> str:
    """Return the title of the heading in `text[start:end]`, at most 200 code points.

    Without hashes, underline, trailing `{#id}` attributes and the targets of links; runs of
    whitespace become one space; emphasis and code marks stay. "" for an empty heading.
    """
    if end - start <= HEADING_LIMIT and (plain := _PLAIN_HEADING.fullmatch(text, start, end)):
        return plain[1]
    # Blanks around a title cost nothing; a line of megabytes must not be worked on as a whole.
    block = text[start:end].strip()
    if block[0] == "#":
        title = block.lstrip("#")[: 4 * HEADING_LIMIT].strip()
        if title.endswith(("#", "}")):
            title = _without_attributes(_CLOSING_HASHES.sub("", title).rstrip())
            title = _CLOSING_HASHES.sub("", title)
    else:
        title = _without_attributes(block[: block.rfind("\n")].rstrip())
    if "[" in title:
        title = _LINK.sub(r"\1", title)
    return " ".join(title.split())[:HEADING_LIMIT].rstrip()


def _first_heading(text: str) -> tuple[str | None, int]:
    for kind, start, end in scan(text):
        if kind in HEADINGS:
            title = heading_text(text, start, end)
            if title:
                return title, end
    return None, len(text)


def first_heading(content: str) -> str | None:
    """Return the title of the first Markdown heading that has one, or None.

    Headings inside code, comments and front matter do not count. Reads the first 16,384 code
    points, and everything only when they hold none.
    """
    if len(content) > _HEAD:
        title, end = _first_heading(unify_line_ends(content[:_HEAD]))
        # A heading that touches the end may go on, or be no heading at all.
        if title is not None and end < _HEAD - 1:
            return title
    return _first_heading(unify_line_ends(content))[0]


@attrs.define
class Section:
    """A run of blocks under one heading.

    `lead_end` is where its heading lines end, -1 without; `path` holds the headings above.
    """

    path: tuple[str, ...] = ()
    start: int = -1
    lead_end: int = -1
    blocks: list[Block] = attrs.field(factory=list)


def sections(text: str) -> Iterator[Section]:
    """Yield the sections of `text`; every visible character is in exactly one.

    `text` must have unified line ends. Front matter is a section of its own.
    """
    section = Section()
    above: list[tuple[int, tuple[str, ...]]] = []  # the level and path of each heading above
    for block in scan(text):
        kind, start, end = block
        if kind == PARAGRAPH and section.start >= 0:
            section.blocks.append(block)
        elif kind in HEADINGS:
            # A bare heading is carried into its first subsection only: it must stay a prefix
            # of the path.
            carried = section.lead_end >= 0 and not section.blocks and kind > above[-1][0]
            if section.start >= 0 and not carried:
                yield section
            while above and above[-1][0] >= kind:
                above.pop()
            path, title = above[-1][1] if above else (), heading_text(text, start, end)
            above.append((kind, (*path, title) if title else path))
            section = Section(above[-1][1], section.start if carried else start, end)
        elif kind == FRONT_MATTER:
            yield Section((), start, -1, [block])
        else:
            if section.start < 0:
                section.start = start
            section.blocks.append(block)
    if section.start >= 0:
        yield section


_RULE_CELL = r"[ \t]*+:?-++:?[ \t]*+"
_TABLE = re.compile(
    r"^(?P<head>[^\n|]*+\|[^\n]*+)\n"
    rf"(?=[^\n|]*+\|)[ \t>]*+\|?{_RULE_CELL}(?:\|{_RULE_CELL})*+\|?[ \t]*+$"
    r"(?:\n[^\n|]*+\|[^\n]*+)*+",
    re.MULTILINE,
)
_BAR = re.compile(r"(?<!\\)\|")
_HTML_TABLE = re.compile(
    r"<table\b(?:[^<]|<(?!table\b|/tr\b|/thead\b))*+</(?:tr|thead)\b", re.IGNORECASE
)
_HTML_NAME = re.compile(r"</?th\b[^<>]*+>", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*+>")


def tables(text: str, start: int, end: int) -> list[tuple[int, int, str]]:
    """Return the tables in `text[start:end]`: where each begins and ends, and its head.

    A table is one of Markdown, or of HTML with ``<th>``. The head is in one form,
    `| Article | Count |`, of at most 200 code points: what exceeds them is "…". It is "" if it has
    no letters or digits.
    """
    found = []
    if text.find("|", start, end) >= 0:
        for each in _TABLE.finditer(text, start, end):
            cells = _BAR.split(each["head"].strip(" \t>"))
            cells = cells[not cells[0] : len(cells) - (not cells[-1])]
            found.append((each.start(), each.end(), _head(cells)))
    # The search for one character is many times as fast.
    close, html = start, text.find("<", start, end) >= 0 and text.find("</", start, end) >= 0
    for each in _HTML_TABLE.finditer(text, start, end) if html else ():
        if close < each.end():
            close = text.find("</table", each.end(), end)
            close = end if close < 0 else close
        names = [_TAG.sub(" ", name) for name in _HTML_NAME.split(each[0])[1::2]]
        found.append((each.start(), close, _head(names)))
    return sorted(found)


def _head(cells: Sequence[str]) -> str:
    head = f"| {' | '.join(' '.join(cell.split()) for cell in cells)} |"
    if len(head) > HEADING_LIMIT:
        cut = head.rfind(" | ", 0, HEADING_LIMIT - 3)
        head = f"{head[: cut if cut > 0 else HEADING_LIMIT - 6]} | … |"
    return head if any(map(str.isalnum, head)) else ""
