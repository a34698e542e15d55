"""The text of headings, and the title of a document."""

import re

from triptych.chunking.blocks import HEADING_LIMIT, HEADINGS, scan
from triptych.chunking.normalize import unify_line_ends

# Most first headings are in the first lines; the rest of a large document is read only if not.
_HEAD = 16_384

_CLOSING_HASHES = re.compile(r"(?:^|[ \t])#+$")
_ATTRIBUTES = re.compile(r"(?<!\s)\s*+\{\s*+[#.:][^{}\n]*+\}$")
_LINK = re.compile(r"!?\[([^\[\]]*)\](?:\([^()\n]*\)|\[[^\[\]\n]*\])")


def heading_text(text: str, start: int, end: int) -> str:
    """Return the title of the heading in `text[start:end]`, at most 200 code points.

    Without hashes, underline, trailing `{#id}` attributes and the targets of links; runs of
    whitespace become one space; emphasis and code marks stay. "" for an empty heading.
    """
    # Blanks around a title cost nothing; a line of megabytes must not be worked on as a whole.
    block = text[start:end].strip()
    if block[0] == "#":
        title = block.lstrip("#")[: 4 * HEADING_LIMIT].strip()
        if title.endswith("#"):
            title = _CLOSING_HASHES.sub("", title).rstrip()
    else:
        title = block[: block.rfind("\n")]
    if title.endswith("}"):
        title = _ATTRIBUTES.sub("", title)
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
