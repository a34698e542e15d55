"""The Markdown chunker: sections, then blocks, then sentences or lines; edits stay local."""

import re
from collections.abc import Iterator

import attrs

from triptych.chunking.blocks import (
    FRONT_MATTER,
    HEADINGS,
    LIST_ITEM,
    PARAGRAPH,
    Block,
    scan,
)
from triptych.chunking.boundaries import (
    next_visible,
    sentences,
    splits_character,
    trimmed_end,
    windows,
)
from triptych.chunking.headings import heading_text
from triptych.chunking.normalize import unify_line_ends
from triptych.chunking.packing import Unit, pack
from triptych.chunking.specs import ChunkSpec, check_sizes

ALGORITHM = "markdown/1"

# How bad a cut before a unit is; `pack` takes the least bad cut first.
_BETWEEN_BLOCKS = 0
_INSIDE_THOUGHT = 1  # between the items of a list, or after a paragraph that ends in a colon
_INSIDE_BLOCK_AT_GAP = 2  # before a sentence, a nested item, or after a blank line in code
_INSIDE_BLOCK = 3  # before another line, or anywhere

_SPACE = re.compile(r"\s")
_WORD = re.compile(r"\w")
_MARK_LENGTH = 16
_LINE = re.compile(r"[^\n]+")
_NESTED_ITEM = re.compile(r"[^\S\n]*(?:[-+*]|\d{1,9}[.)])[ \t]")
_TABLE = re.compile(r"[^\n]*\n[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\||$)", re.MULTILINE)
_COLONS = (":", "：")


@attrs.define
class _Section:
    """A run of blocks under one heading; `lead_end` is where its heading lines end."""

    path: tuple[str, ...] = ()
    start: int = -1
    lead_end: int = -1
    blocks: list[Block] = attrs.field(factory=list)


@attrs.frozen(kw_only=True)
class MarkdownChunker:
    """Chunks of at most `size` code points that never reach over a heading.

    A chunk begins with the heading of its section, where it is the section's first. A heading
    without text of its own joins its first subsection. A section that fits is one chunk. One
    that does not is cut between its paragraphs, list items, tables, code blocks and HTML
    blocks, each of which stays whole unless it alone is larger than `size`: paragraphs are then
    cut between sentences, the others between lines, and what is still too large at the limit.
    Where a section is cut is decided by a hash of the text at the cut (`triptych.chunking.
    packing`), not by counting, so that an edit changes the chunks around it and no others.

    With `overlap`, each chunk but a section's first also repeats up to that many code points of
    the one before, from the start of a word on; without, every visible character of the
    document is in exactly one chunk. Front matter is a section of its own, without a heading
    path. A leading byte order mark is in no chunk.
    """

    size: int = 800
    overlap: int = 0

    def __attrs_post_init__(self) -> None:
        check_sizes(self.size, self.overlap)

    @property
    def signature(self) -> str:
        """The signature of algorithm, size and overlap."""
        return f"{ALGORITHM}(size={self.size},overlap={self.overlap})"

    def chunk(self, content: str) -> list[ChunkSpec]:
        """Return the chunks of `content`, in linear time."""
        text = unify_line_ends(content)
        limit = self.size - self.overlap
        specs: list[ChunkSpec] = []
        for section in _sections(text):
            least = section.start
            for start, end in _spans(text, section, limit):
                if self.overlap and start > section.start:
                    start = _overlap_start(text, max(least, start - self.overlap), start)
                specs.append(
                    ChunkSpec(index=len(specs), start=start, end=end, heading_path=section.path)
                )
                least = start + 1
        return specs


def _sections(text: str) -> Iterator[_Section]:
    section = _Section()
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
            section = _Section(
                tuple([title for _, title in above if title]),
                section.start if carried else start,
                end,
            )
        elif kind == FRONT_MATTER:
            yield _Section((), start, -1, [block])
        else:
            if section.start < 0:
                section.start = start
            section.blocks.append(block)
    if section.start >= 0:
        yield section


def _spans(text: str, section: _Section, size: int) -> list[tuple[int, int]]:
    end = section.blocks[-1][2] if section.blocks else section.lead_end
    if end - section.start <= size:
        return [(section.start, end)]
    units = _units(text, section, size)
    return [(units[first].start, units[last - 1].end) for first, last in pack(text, units, size)]


def _units(text: str, section: _Section, size: int) -> list[Unit]:
    units: list[Unit] = []
    lead = section.start if section.lead_end >= 0 else -1
    if lead >= 0 and section.lead_end - lead > size // 2:
        spans = windows(text, lead, section.lead_end, size)
        units.extend(Unit(*span, _INSIDE_BLOCK) for span in spans)
        lead = -1
    tier = _BETWEEN_BLOCKS
    before: Block | None = None
    for block in section.blocks:
        kind, start, end = block
        if before is not None and end - units[-1].start <= size and _is_mark(text, start, end):
            units[-1] = units[-1]._replace(end=end)
            continue
        if before is not None:
            listed = kind == before[0] == LIST_ITEM
            tier = _INSIDE_THOUGHT if listed or text.endswith(_COLONS, 0, before[2]) else 0
        room = size if lead < 0 else size - (start - lead)
        if end - start <= room:
            units.append(Unit(start, end, tier))
        elif end - start <= size and kind != PARAGRAPH:
            # Whole blocks matter more than a heading that stands alone.
            units.append(Unit(lead, section.lead_end, tier))
            units.append(Unit(start, end, _INSIDE_THOUGHT))
            lead = -1
        else:
            units.extend(_pieces(text, block, tier, room))
        if lead >= 0:
            units[0] = units[0]._replace(start=lead)
            lead = -1
        before = block
    if lead >= 0:
        units.append(Unit(lead, section.lead_end, tier))
    return units


def _is_mark(text: str, start: int, end: int) -> bool:
    """Whether a block is a rule or the end of a container: never what a chunk begins with."""
    return end - start <= _MARK_LENGTH and not _WORD.search(text, start, end)


def _pieces(text: str, block: Block, tier: int, size: int) -> Iterator[Unit]:
    """Cut a block that is too large: sentences or lines, and at the limit what is left."""
    kind, start, end = block
    by_lines = kind != PARAGRAPH or _TABLE.match(text, start, end) is not None
    if by_lines:
        spans = [found.span() for found in _LINE.finditer(text, start, end)]
    else:
        spans = sentences(text, start, end)
    before = start
    for first, last in spans:
        if text[first:last].isspace():
            continue
        if first > start:
            at_gap = (
                not by_lines
                or first - before > 1
                or (kind == LIST_ITEM and _NESTED_ITEM.match(text, first) is not None)
            )
            tier = _INSIDE_BLOCK_AT_GAP if at_gap else _INSIDE_BLOCK
        before = last
        if last - first <= size:
            yield Unit(first, trimmed_end(text, first, last), tier)
            continue
        for window in windows(text, first, last, size):
            yield Unit(*window, tier)
            tier = _INSIDE_BLOCK


def _overlap_start(text: str, earliest: int, start: int) -> int:
    """Return the start of the first word at or after `earliest`, at most `start`.

    Where there is no space before `start`, as in Chinese, the first whole character.
    """
    if earliest > 0 and not text[earliest - 1].isspace():
        space = _SPACE.search(text, earliest, start)
        if space is not None:
            earliest = space.start()
    while earliest < start and splits_character(text, earliest):
        earliest += 1
    return min(next_visible(text, earliest), start)
