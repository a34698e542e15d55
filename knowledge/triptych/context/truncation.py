"""Where a text may end: after a sentence, a paragraph, an item of a list, a line of code."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Final

import regex

from triptych.text.sentences import sentence_spans

__all__ = ["cut_to_fit", "ends"]

_BLANK_LINE: Final = regex.compile(r"(?<!\s)[^\S\n]*+\n[^\S\n]*+\n\s*+")
_LINE: Final = regex.compile(r"[^\r\n]+")
_FENCE: Final = regex.compile(r"[^\S\n]{0,3}(?:```|~~~)")
# What begins something new, so that the line before it is at an end.
_NEW: Final = regex.compile(
    r"[^\S\n]*(?:[-+*•]|\d{1,9}[.)]|#{1,6}|\||>)[^\S\n]|[^\S\n]*(?:```|~~~|///)"
)


def ends(text: str) -> list[int]:
    """Where ``text`` may be cut, ascending; its own end is the last.

    Behind every sentence, before every blank line, before the items of lists and tables, and
    after every line of fenced code. A text that offers nothing of this but its end may be cut
    after any line.
    """
    found: set[int] = set()
    fenced = False
    lines = [(line.start(), line.end()) for line in _LINE.finditer(text)]
    for at, (start, end) in enumerate(lines):
        is_fence = _FENCE.match(text, start) is not None
        fenced = fenced is not is_fence
        following = lines[at + 1][0] if at + 1 < len(lines) else len(text)
        # A fence that opens is not an end: what it fences would be missing.
        opens = is_fence and fenced
        if not opens and (fenced or is_fence or _NEW.match(text, following)):
            found.add(end)
    start = 0
    blocks = [(gap.start(), gap.end()) for gap in _BLANK_LINE.finditer(text)]
    for stop, following in [*blocks, (len(text), len(text))]:
        found.update(end for _, end in sentence_spans(text, start, stop))
        start = following
    whole, blank = len(text.rstrip()), len(text) - len(text.lstrip())
    inner = {end for end in found if blank < end < whole}
    if not inner:
        inner = {end for _, end in lines if end < whole}
    return [*sorted(inner), whole]


def cut_to_fit(text: str, fits: Callable[[str], bool]) -> int:
    """The furthest of `ends` at which ``text`` fits, 0 if it fits at none.

    ``fits`` is asked for a handful of them, as if what is shorter always fits too.
    """
    places = ends(text)
    fitting = bisect_left(places, True, key=lambda at: not fits(text[:at]))
    return places[fitting - 1] if fitting else 0
