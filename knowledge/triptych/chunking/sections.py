"""The sections of a Markdown document: its blocks, by the heading they stand under."""

import re
from collections.abc import Iterator

import attrs

from triptych.chunking.blocks import FRONT_MATTER, HEADINGS, Block, scan
from triptych.chunking.headings import heading_text

_TABLE = re.compile(r"[^\n]*+\n[ \t]*+(?:\|[ \t]*+)?:?-++:?[ \t]*+(?:\||$)", re.MULTILINE)


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
    above: list[tuple[int, str]] = []
    for block in scan(text):
        kind, start, end = block
        if kind in HEADINGS:
            # A bare heading is carried into its first subsection only: it must stay a prefix
            # of the path.
            carried = section.lead_end >= 0 and not section.blocks and kind > above[-1][0]
            if section.start >= 0 and not carried:
                yield section
            while above and above[-1][0] >= kind:
                above.pop()
            above.append((kind, heading_text(text, start, end)))
            section = Section(
                tuple([title for _, title in above if title]),
                section.start if carried else start,
                end,
            )
        elif kind == FRONT_MATTER:
            yield Section((), start, -1, [block])
        else:
            if section.start < 0:
                section.start = start
            section.blocks.append(block)
    if section.start >= 0:
        yield section


def is_table(text: str, start: int, end: int) -> bool:
    """Whether the paragraph in `text[start:end]` is a table: its second line says so."""
    return _TABLE.match(text, start, end) is not None
