"""Sentences cut to a budget of tokens."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

import regex

from triptych.text.tokens import MOST_CHARACTERS, estimate_tokens

_CLAUSE: Final = regex.compile(r"[,;:—–)]\s|[，、；：）]", regex.V1)


def clip(sentence: str, max_tokens: int) -> str:
    """``sentence``, or its beginning and "…" when it is estimated above ``max_tokens`` tokens.

    The cut is after a clause if one ends in the second half of what fits, else between words,
    else between characters.
    """
    most = MOST_CHARACTERS * max_tokens
    # No text is estimated above its bytes.
    if len(sentence.encode()) <= max_tokens or estimate_tokens(sentence[: most + 1]) <= max_tokens:
        return sentence
    ends = range(1, min(len(sentence), most) + 1)
    low = bisect_left(
        ends, True, key=lambda end: estimate_tokens(sentence[:end] + "…") > max_tokens
    )
    room = sentence[:low]
    clauses = [found.start() for found in _CLAUSE.finditer(room)]
    if clauses and clauses[-1] >= low // 2:
        cut = clauses[-1]
    else:
        space = room.rfind(" ")
        cut = space if space >= low // 2 else low
    kept = room[:cut].rstrip(" ,;:—–，、；：([（")
    return (kept or room[:cut].rstrip()) + "…"
