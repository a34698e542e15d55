"""Sentence boundaries, by punctuation and a short list of abbreviations."""

from __future__ import annotations

from typing import Final

import regex

from triptych.layers.tokens import estimate_tokens

__all__ = ["clip", "split_sentences"]

# Full stops that need no space behind them, as Chinese and Japanese write them; closing quotes
# and brackets belong to the sentence they end.
_END: Final = regex.compile(
    r"[。！？；｡]+[\p{Pf}\p{Pe}\"']*+\s*+"
    r"|(?<!\s)\p{STerm}++[\p{Pf}\p{Pe}\"'*`]*+\s++(?=[^\s\p{Ll},;:)\]])",
    regex.V1,
)
_ABBREVIATION: Final = regex.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|cf|al|approx|Mr|Mrs|Ms|Dr|Prof|Sr|Jr|St|Fig|Figs|Eq|No|Nos|Vol|Ch"
    r"|Sec|Ed|Inc|Ltd|Co|Corp|bzw|z\.B|d\.h|usw|Nr|Art|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov"
    r"|Dec)|(?<![\w.])\p{Lu})\.\s+\Z",
    regex.V1,
)
_CLAUSE: Final = regex.compile(r"[,;:—–)]\s|[，、；：）]", regex.V1)
_LONGEST_ABBREVIATION: Final = 10


def split_sentences(text: str) -> list[str]:
    """The sentences of ``text`` in order, stripped; what has no full stop is one sentence."""
    sentences = []
    start = 0
    for end in _END.finditer(text):
        if _ABBREVIATION.search(text, max(start, end.end() - _LONGEST_ABBREVIATION), end.end()):
            continue
        sentences.append(text[start : end.end()].strip())
        start = end.end()
    sentences.append(text[start:].strip())
    return [sentence for sentence in sentences if sentence]


def clip(sentence: str, max_tokens: int) -> str:
    """``sentence``, or its beginning and "…" when it is estimated above ``max_tokens`` tokens.

    The cut is behind a clause if one ends in the second half of what fits, else between words,
    else between characters.
    """
    if estimate_tokens(sentence[: 4 * max_tokens + 1]) <= max_tokens:
        return sentence
    low, high = 0, min(len(sentence), 4 * max_tokens)
    while low < high:
        middle = (low + high + 1) // 2
        if estimate_tokens(sentence[:middle] + "…") <= max_tokens:
            low = middle
        else:
            high = middle - 1
    room = sentence[:low]
    clauses = [found.start() for found in _CLAUSE.finditer(room)]
    if clauses and clauses[-1] >= low // 2:
        cut = clauses[-1]
    else:
        space = room.rfind(" ")
        cut = space if space >= low // 2 else low
    kept = room[:cut].rstrip(" ,;:—–，、；：([（")
    return (kept or room[:cut].rstrip()) + "…"
