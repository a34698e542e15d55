"""Splitting text into sentences, and shingles for comparing texts."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from triptych.text.patterns import late

# Full stops that need no space after them, as Chinese and Japanese write them; closing quotes
# and brackets belong to the sentence they end. A row of full stops is looked at once, from its
# beginning, or a long one would take quadratic time.
_END: Final = late(
    r"[。！？；｡]+[\p{Pf}\p{Pe}\"']*+\s*+"
    r"|(?<![\s\p{STerm}])\p{STerm}++[\p{Pf}\p{Pe}\"'*`]*+\s++(?=[^\s\p{Ll},;:)\]])",
)
_ABBREVIATION: Final = late(
    r"(?:\b(?:e\.g|i\.e|etc|vs|cf|al|approx|Mr|Mrs|Ms|Dr|Prof|Sr|Jr|St|Fig|Figs|Eq|No|Nos|Vol|Ch"
    r"|Sec|Ed|Inc|Ltd|Co|Corp|bzw|z\.B|d\.h|usw|Nr|Art|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov"
    r"|Dec)|(?<![\w.])\p{Lu})\.\s+\Z",
)
_LONGEST_ABBREVIATION: Final = 10


def sentence_spans(text: str, start: int = 0, end: int | None = None) -> list[tuple[int, int]]:
    """Return the sentences of ``text[start:end]`` in order, as spans of ``text``.

    Sentences end at full stops, question and exclamation marks before white space and no small
    letter, at Chinese and Japanese ones always; not after an abbreviation. The white space
    around a sentence is in no span; text without a full stop is one sentence. Line ends mean
    nothing here: paragraphs are for the caller to tell apart.
    """
    end = len(text) if end is None else end
    spans = []
    for found in _END.finditer(text, start, end):
        stop = found.end()
        if not _ABBREVIATION.search(text, max(start, stop - _LONGEST_ABBREVIATION), stop):
            spans.append((start, stop))
            start = stop
    spans.append((start, end))
    return [span for first, last in spans if (span := _stripped(text, first, last))]


def split_sentences(text: str) -> list[str]:
    """Return the sentences of ``text`` in order, stripped: `sentence_spans` as text."""
    return [text[start:end] for start, end in sentence_spans(text)]


def _stripped(text: str, start: int, end: int) -> tuple[int, int] | None:
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    kept = len(piece.strip())
    return (start, start + kept) if kept else None


_WIDTH: Final = 5
# A word, or a character of a script without blanks between words.
_TOKEN: Final = late(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}]|[\p{L}\p{M}\p{N}]+")


def shingles(text: str) -> frozenset[Hashable]:
    """Every five neighbouring words of ``text``, in any case; marks and mark-up do not count.

    Characters stand for words in scripts without blanks. A text of fewer words is one shingle,
    a text without any is the set of its stripped self. Source: Broder (1997), On the resemblance
    and containment of documents.
    """
    words = [found.group().casefold() for found in _TOKEN.finditer(text)]
    if not words:
        return frozenset([text.strip()])
    return frozenset(
        tuple(words[at : at + _WIDTH]) for at in range(max(1, len(words) - _WIDTH + 1))
    )
