"""Lines and bytes of chunk starts, each linear over the document."""

import re
from collections.abc import Sequence

from triptych.chunking.specs import ChunkSpec

_LINE_END = re.compile(r"\r\n?|\n")


def line_starts(content: str) -> list[int]:
    """Return where each line begins, in code points; lines end in \\n, \\r\\n or \\r.

    There is always a first line, at 0; after a final line end comes an empty last line.
    """
    return [0, *(found.end() for found in _LINE_END.finditer(content))]


def start_lines(content: str, specs: Sequence[ChunkSpec]) -> list[int]:
    """Return the line, counted from 1, that each chunk starts on, in the order of `specs`."""
    lines = [0] * len(specs)
    line, at = 1, 0
    returns = "\r" in content
    for index in _by_start(specs):
        start = specs[index].start
        if returns and content.startswith("\r\n", start - 1) and start > 0:
            start -= 1  # between the two, the line has not ended yet
        line += content.count("\n", at, start)
        if returns:
            line += content.count("\r", at, start) - content.count("\r\n", at, start)
        at = start
        lines[index] = line
    return lines


def _by_start(specs: Sequence[ChunkSpec]) -> Sequence[int]:
    if len(specs) < 2:
        return range(len(specs))
    starts = [spec.start for spec in specs]
    return sorted(range(len(starts)), key=starts.__getitem__)


def byte_offsets(content: str, specs: Sequence[ChunkSpec]) -> list[int]:
    """Return each chunk's start in bytes of UTF-8, in the order of `specs`."""
    if content.isascii():
        return [spec.start for spec in specs]
    offsets = [0] * len(specs)
    offset, at = 0, 0
    for index in _by_start(specs):
        start = specs[index].start
        offset += len(content[at:start].encode("utf-8", "surrogatepass"))
        at = start
        offsets[index] = offset
    return offsets
