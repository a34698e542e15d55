"""The part of a text that a person is shown: its lines around the matches, wrapped at words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise

from rich.cells import cell_len
from rich.text import Text

from triptych_adapters.cli.output import visible

MATCH_STYLE = "bold magenta"
_ELLIPSIS = "…"
_WORD = re.compile(r"\S+")
_LEAD = re.compile(r"[ \t]*+(?:[-*+>] |\d{1,3}[.)] )?")
_INK = re.compile(r"[^ \t\r\n]")
_GOES_ON = re.compile(r" {0,4}(?!\* |\(?[a-z][.)] )[a-z(`*\"]")  # no item of a list
_PROSE_WORDS = 7
_USUAL_WIDTH = 76
_BROKEN_AT = 60
"""Characters from which on a line may have been broken because it was full."""

_Line = tuple[int, int, int]
"""Where a line begins and ends in the text, and its indent."""


def excerpt(content: str, terms: Sequence[str], *, width: int, lines: int = 5) -> list[Text]:
    """Return at most ``lines`` lines of ``content`` that hold most of ``terms``, highlighted.

    Each line is at most ``width`` cells wide. The lines stand together in the content, blank ones
    left out, with the matches in their middle. Where something was cut off, ``…`` says so. Without
    a match they are the first ones.
    """
    from triptych.text import matches

    text = _flowing(visible(content))
    found = matches(text, terms)
    # Room for an ellipsis before and after.
    spans = list(_wrapped(text, max(width - 2 * (len(_ELLIPSIS) + 1), 1)))
    if not spans:
        return []
    first, last = _best(spans, found, lines)
    shown = []
    for at in range(first, last):
        start, end, indent = spans[at]
        line = Text(text[start:end])
        for begins, ends, _ in found:
            if begins < end and ends > start:
                line.stylize(MATCH_STYLE, max(begins, start) - start, min(ends, end) - start)
        cut = f"{_ELLIPSIS} " if at == first and first > 0 else ""
        line = Text.assemble(" " * indent + cut, line)
        if at == last - 1 and last < len(spans):
            line = Text.assemble(line, f" {_ELLIPSIS}")
        shown.append(line)
    return shown


def match_offset(content: str, terms: Sequence[str]) -> int:
    """Where the match stands that an excerpt of one line shows first; 0 without a match."""
    from triptych.text import matches

    text = _flowing(visible(content))
    if not (found := matches(text, terms)):
        return 0
    spans = list(_wrapped(text, _USUAL_WIDTH))
    line = spans[_best(spans, found, 1)[0]]
    at = next(begins for begins, ends, _ in found if ends > line[0])
    # What flows has other white space, and the same characters between.
    return next(islice(_INK.finditer(content), len(_INK.findall(text, 0, at)), None)).start()


def _best(
    spans: Sequence[_Line], found: Sequence[tuple[int, int, int]], lines: int
) -> tuple[int, int]:
    """The first and last of ``lines`` spans with most terms, the matched ones in the middle."""
    held = [
        {number for begins, ends, number in found if begins < end and ends > start}
        for start, end, _ in spans
    ]
    most, chosen = (0, -len(spans)), (0, 0)
    for first in range(len(spans)):
        if not held[first]:
            continue
        seen: set[int] = set()
        last = first
        for at in range(first, min(first + lines, len(spans))):
            if held[at] - seen:
                seen |= held[at]
                last = at
        # Of lines with as many terms, those that stand closest.
        if (held_here := (len(seen), first - last)) > most:
            most, chosen = held_here, (first, last)
    first, last = chosen
    before = (lines - (last - first + 1)) // 2
    first = max(0, min(first - before, len(spans) - lines))
    return first, min(first + lines, len(spans))


def _wrapped(text: str, width: int) -> Iterator[_Line]:
    """The lines of ``text`` when none may be wider than ``width`` cells.

    What goes on from the line before hangs below its text.
    """
    position = 0
    for line in text.splitlines(keepends=True):
        lead = _LEAD.match(line)
        hang = min(lead.end() if lead else 0, width // 4)
        indent = min(len(line) - len(line.lstrip(" \t")), width // 4)
        start = end = -1
        for word in _WORD.finditer(line):
            for begins, ends in _pieces(line, word.start(), word.end(), width - hang):
                if start >= 0 and indent + cell_len(line[start:ends]) > width:
                    yield position + start, position + end, indent
                    start, indent = -1, hang
                start = begins if start < 0 else start
                end = ends
        if start >= 0:
            yield position + start, position + end, indent
        position += len(line)


def _pieces(line: str, start: int, end: int, width: int) -> Iterator[tuple[int, int]]:
    """A word, or parts of one that is too wide: as in scripts without spaces."""
    while cell_len(line[start:end]) > width:
        cut = start + 1
        room = width - cell_len(line[start])
        while cut < end and (room := room - cell_len(line[cut])) >= 0:
            cut += 1
        yield start, cut
        start = cut
    yield start, end


def _flowing(text: str) -> str:
    """``text`` with the lines of a paragraph joined, where its writer broke them at a width."""
    lines = text.split("\n")
    joined = lines[:1]
    for before, line in pairwise(lines):
        goes_on = _GOES_ON.match(line) and len(before.split()) >= _PROSE_WORDS
        if goes_on and len(before) >= _BROKEN_AT and not before.startswith(("#", "|", "    ")):
            joined[-1] = f"{joined[-1].rstrip()} {line.lstrip()}"
        else:
            joined.append(line)
    return "\n".join(joined)
