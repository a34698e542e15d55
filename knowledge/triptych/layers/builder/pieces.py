"""Cutting an input that is too long for one prompt into parts, all of which are read."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from triptych.chunking.boundaries import break_before
from triptych.chunking.sections import sections

__all__ = ["lines_in_parts", "text_in_parts"]


def text_in_parts(text: str, limit: int) -> list[str]:
    """``text``, its line ends unified, in parts of at most ``limit`` bytes of UTF-8.

    Joined, the parts are the whole. They begin at headings where those are not too far apart,
    else at the best break there is; none but the last is shorter than an eighth of the limit.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if len(text.encode()) <= limit:
        return [text]
    return list(_parts(text, max(limit, 8)))


def _parts(text: str, limit: int) -> Iterator[str]:
    starts = [section.start for section in sections(text)]
    start = 0
    while start < len(text):
        end = start + _fitting(text, start, limit)
        if end < len(text):
            heading = starts[bisect_right(starts, end) - 1] if starts else 0
            quarter = (end - start) // 4
            if heading > start + quarter:
                end = heading
            elif quarter:
                end = min(max(break_before(text, start + 2 * quarter, end), start + 1), end)
        yield text[start:end]
        start = end


def _fitting(text: str, start: int, limit: int) -> int:
    """How many code points from ``start`` on take at most ``limit`` bytes."""
    data = text[start : start + limit].encode()
    return len(data[:limit].decode(errors="ignore"))


def lines_in_parts(lines: Iterable[str], limit: int) -> list[str]:
    """The lines in parts of at most ``limit`` bytes; a line that is longer is cut as text is."""
    parts: list[str] = []
    gathered: list[str] = []
    size = 0
    for line in lines:
        for piece in text_in_parts(line, limit):
            more = len(piece.encode()) + 1
            if gathered and size + more > limit + 1:
                parts.append("\n".join(gathered))
                gathered, size = [], 0
            gathered.append(piece)
            size += more
    if gathered:
        parts.append("\n".join(gathered))
    return parts
