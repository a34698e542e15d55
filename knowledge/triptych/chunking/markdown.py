"""The Markdown chunker: by sections, then blocks, then sentences or lines."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple, TypeAlias
from zlib import crc32

import attrs

from triptych.chunking.blocks import LIST_ITEM, PARAGRAPH, Block, Section, sections, tables
from triptych.chunking.boundaries import (
    next_visible,
    overlap_start,
    sentences,
    trimmed_end,
    unify_line_ends,
    windows,
)
from triptych.chunking.specs import ChunkSpec, check_sizes
from triptych.text import BESIDE

HASHED = 32
_STRIDE = 256


# A span that is never cut, and its tier: how bad a cut before it is (0: not at all). A plain tuple,
# for there is one a paragraph.
Unit: TypeAlias = tuple[int, int, int]


def cut_keys(text: str, units: Sequence[Unit]) -> list[int]:
    """Return a key for the cut before each unit; the smallest key of a range is its best cut.

    A key is the tier, then a hash of the unit's first 32 code points (an edit further on moves
    no cut), then, for units that begin alike, a hash of their neighbours. The hash is CRC-32,
    scrambled by a multiplication: 0.3 µs against 0.9 µs for BLAKE2b, and a collision, one in
    four billion pairs, is a tie like any other. Ties that remain go to the first unit.
    """
    if text.isascii():  # a code point is a byte
        data = text.encode()
        heads = [data[s : e if e - s < HASHED else s + HASHED] for s, e, _ in units]
    else:
        parts = [text[s : min(e, s + HASHED)] for s, e, _ in units]
        heads = [part.encode("utf-8", "surrogatepass") for part in parts]
    keys = [
        tier << 32 | (each * 0x9E3779B1 & 0xFFFFFFFF)
        for (_, _, tier), each in zip(units, map(crc32, heads), strict=True)
    ]
    if len(set(keys)) == len(keys):
        return keys  # no two begin alike
    hashes = [0, *[key & 0xFFFFFFFF for key in keys], 0]
    return [
        key << 32 | ((before * 31 + after) * 0x85EBCA6B & 0xFFFFFFFF)
        for key, before, after in zip(keys, hashes, hashes[2:], strict=False)
    ]


def pack(text: str, units: Sequence[Unit], size: int) -> list[tuple[int, int]]:
    """Group units into runs that span at most `size` code points: (first, past the last).

    A run that is too long is cut before the unit with the smallest key among the cuts that
    leave at least size/4 on both sides, or among all when there is none; and so on with both
    sides. A unit longer than `size` is a run of its own. Because keys come from the text, an
    edit moves the cuts around it only. O(n log n) for n units whose keys are in random order.
    """
    keys = cut_keys(text, units)
    starts = [start for start, _, _ in units]
    ends = [end for _, end, _ in units]
    # Minima of whole strides keep long ranges cheap even when keys are sorted.
    minima = [min(keys[at : at + _STRIDE]) for at in range(0, len(keys), _STRIDE)]
    margin = size // 4
    runs: list[tuple[int, int]] = []
    waiting = [(0, len(units))]
    while waiting:
        first, last = waiting.pop()
        if last - first == 1 or ends[last - 1] - starts[first] <= size:
            runs.append((first, last))
            continue
        low = bisect_left(ends, starts[first] + margin, first, last) + 1
        high = bisect_right(starts, ends[last - 1] - margin, first, last)
        if low >= high:
            low, high = first + 1, last
        if high - low < _STRIDE:
            cut = keys.index(min(keys[low:high]), low, high)
        else:
            cut = _smallest(keys, minima, low, high)
        waiting.append((cut, last))
        waiting.append((first, cut))
    return runs


def _smallest(keys: list[int], minima: list[int], low: int, high: int) -> int:
    """Return the first index of the smallest key in `[low, high)`."""
    left, right = -(-low // _STRIDE), high // _STRIDE
    if right - left > 2:
        best = minima.index(min(minima[left:right]), left, right)
        ranges = (
            (low, left * _STRIDE),
            (best * _STRIDE, (best + 1) * _STRIDE),
            (right * _STRIDE, high),
        )
        low, high = min(
            (span for span in ranges if span[0] < span[1]),
            key=lambda span: min(keys[span[0] : span[1]]),
        )
    return keys.index(min(keys[low:high]), low, high)


# How bad a cut before a unit is; `pack` takes the least bad cut first.
_BETWEEN_BLOCKS = 0
_INSIDE_THOUGHT = 1  # between the items of a list, or after a paragraph that ends in a colon
_INSIDE_BLOCK_AT_GAP = 2  # before a sentence, a nested item, or after a blank line in code
_INSIDE_BLOCK = 3  # before another line, or anywhere

_WORD = re.compile(r"\w")
# A block this short without a word is a rule or the end of a container: never what a chunk begins
# with.
_MARK_LENGTH = 16
_LINE = re.compile(r"[^\n]+")
_NESTED_ITEM = re.compile(r"[^\S\n]*(?:[-+*]|\d{1,9}[.)])[ \t]")
_COLONS = ":："


@attrs.frozen(kw_only=True)
class MarkdownChunker:
    """Makes chunks of at most `size` code points from one section or several small sections.

    The first chunk of a section starts with its heading. A heading without text is joined to its
    first subsection. Adjacent sections under `size`/4 without subsections are joined if they have
    the same parent, at the top of a document too; the heading path then ends in all titles,
    `One / Two`. Any other section that fits is one chunk. A longer section is cut between
    paragraphs, list items, tables, code blocks and HTML blocks. A block larger than `size` is cut
    too: a paragraph between sentences, others between lines, and the rest at the limit. The cuts
    depend on a hash of the text at the cut (`pack`), not on counting, so that an edit changes only
    the chunks around it.

    A chunk that begins inside a table has the table's head as the last part of its heading path,
    `| Article | Count |`.

    With `overlap`, each chunk but a section's first repeats up to that many code points of the
    previous chunk, from the start of a word. Without it every visible character of the document is
    in exactly one chunk. Front matter is a separate section without a heading path. A leading byte
    order mark is in no chunk.

    ``joins=False`` does not join small sections: no chunk then crosses a heading. Documents with
    an outline, whose sections may be on several pages, are always cut so.
    """

    size: int = 800
    overlap: int = 0
    joins: bool = True

    def __attrs_post_init__(self) -> None:
        check_sizes(self.size, self.overlap)

    @property
    def signature(self) -> str:
        """The signature of algorithm, size and overlap, and of ``joins`` if it is False."""
        joins = "" if self.joins else ",joins=False"
        return f"markdown/4(size={self.size},overlap={self.overlap}{joins})"

    def chunk(self, content: str) -> list[ChunkSpec]:
        """Return the chunks of `content`, in linear time."""
        text = unify_line_ends(content)
        limit = self.size - self.overlap
        specs: list[ChunkSpec] = []
        parts = [_Part(each.path, _spans(text, each, limit)) for each in sections(text)]
        for path, spans in _joined(text, parts, limit) if self.joins else parts:
            least = first = spans[0][0]
            above = tables(text, first, spans[-1][1])[::-1] if len(spans) > 1 else []
            for start, end in spans:
                if self.overlap and start > first:
                    start = overlap_start(text, max(least, start - self.overlap), start)
                while above and above[-1][1] <= start:
                    above.pop()
                head = above[-1][2] if above and above[-1][0] < start else ""
                own = (*path, head) if head else path
                specs.append(ChunkSpec(index=len(specs), start=start, end=end, heading_path=own))
                least = start + 1
        return specs


class _Part(NamedTuple):
    """A section, or several that are joined: its path, and the spans of its chunks."""

    path: tuple[str, ...]
    spans: list[tuple[int, int]]

    def is_small(self, least: int, following: "_Part | None") -> bool:
        """Whether it is shorter than ``least`` and has no subsections."""
        path, spans = self
        start, end = spans[0]
        if not path or end - start >= least or len(spans) > 1:
            return False
        depth = len(path)
        below = following.path if following else ()
        return len(below) <= depth or below[:depth] != path


def _joined(text: str, parts: Sequence[_Part], size: int) -> Iterator[_Part]:
    """Join small sections in a row under one parent.

    Only neighbours decide, never the size of the document: at a limit on that, one more word
    would change every chunk.
    """
    run: list[_Part] = []
    least = size // 4
    for part, following in zip_longest(parts, parts[1:]):
        small = part.is_small(least, following)
        beside = small and run and run[-1].path[:-1] == part.path[:-1]
        if run and not beside:
            yield from _packed(text, run, size)
            run = []
        if small:
            run.append(part)
        else:
            yield part
    if run:
        yield from _packed(text, run, size)


def _packed(text: str, run: Sequence[_Part], size: int) -> Iterator[_Part]:
    """Join small sections to chunks; the last part of a path names all of them."""
    units = [(*part.spans[0], _BETWEEN_BLOCKS) for part in run]
    for first, last in pack(text, units, size):
        titles = dict.fromkeys(part.path[-1] for part in run[first:last])
        path = (*run[first].path[:-1], BESIDE.join(titles))
        yield _Part(path, [(units[first][0], units[last - 1][1])])


def _spans(text: str, section: Section, size: int) -> list[tuple[int, int]]:
    end = section.blocks[-1][2] if section.blocks else section.lead_end
    if end - section.start <= size:
        return [(section.start, end)]
    units = _units(text, section, size)
    return [(units[first][0], units[last - 1][1]) for first, last in pack(text, units, size)]


def _units(text: str, section: Section, size: int) -> list[Unit]:
    units: list[Unit] = []
    lead = section.start if section.lead_end >= 0 else -1
    if lead >= 0 and section.lead_end - lead > size // 2:
        spans = windows(text, lead, section.lead_end, size)
        units.extend((*span, _INSIDE_BLOCK) for span in spans)
        lead = -1
    tier = _BETWEEN_BLOCKS
    before: Block | None = None
    for block in section.blocks:
        kind, start, end = block
        if before is not None:
            first, _, own = units[-1]
            is_mark = end - start <= _MARK_LENGTH and not _WORD.search(text, start, end)
            if is_mark and end - first <= size:
                units[-1] = first, end, own
                continue
            listed = kind == before[0] == LIST_ITEM
            tier = _INSIDE_THOUGHT if listed or text[before[2] - 1] in _COLONS else 0
        # A piece begins at what is visible, which may be further on than its block does.
        room = size if lead < 0 else size - (max(next_visible(text, start), start) - lead)
        alone = lead >= 0 and (room < size // 4 or (end - start <= size and kind != PARAGRAPH))
        if end - (start if lead < 0 else lead) <= size:
            units.append((start, end, tier))
        elif alone:
            # Whole blocks matter more than a heading that stands alone, as one far off does.
            units.append((lead, section.lead_end, tier))
            lead = -1
            if end - start <= size:
                units.append((start, end, _INSIDE_THOUGHT))
            else:
                units.extend(_pieces(text, block, _INSIDE_THOUGHT, size))
        else:
            units.extend(_pieces(text, block, tier, room))
        if lead >= 0:
            units[0] = (lead, *units[0][1:])
            lead = -1
        before = block
    if lead >= 0:
        units.append((lead, section.lead_end, tier))
    return units


def _pieces(text: str, block: Block, tier: int, size: int) -> Iterator[Unit]:
    """Cut a block that is too large: sentences or lines, and at the limit what is left."""
    kind, start, end = block
    by_lines = kind != PARAGRAPH or bool(tables(text, start, end))
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
            yield first, trimmed_end(text, first, last), tier
            continue
        for window in windows(text, first, last, size):
            yield (*window, tier)
            tier = _INSIDE_BLOCK
