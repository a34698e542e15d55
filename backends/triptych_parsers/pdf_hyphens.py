"""Hyphens at the ends of lines: which of them belong to their words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from triptych_parsers.pdf_tables import HYPHEN

# From the beginning of a word on: from each of its letters it would take quadratic time.
_MARKED = re.compile(rf"(?<![^\W_])([^\W_]*){HYPHEN}\s*(?=([^\W_]*))")
_PARTED = re.compile(rf"(?<![^\W_])[^\W_]*(?:{HYPHEN}\s*[^\W_]*)+")
_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_FIRST: Final = frozenset(("non", "self", "three", "two", "well"))
"""First parts that keep their hyphen where a file does not show the word elsewhere."""


class Hyphens:
    """Takes the hyphens out that only the ends of lines have made.

    A file that is set in lines shows most of its words elsewhere, too: ``texts`` are its pages.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._counts: Counter[str] = Counter()
        texts = list(texts)
        if any(HYPHEN in text for text in texts):
            for text in texts:
                for word in _WORD.findall(_PARTED.sub(" ", text).casefold()):
                    self._counts[word] += 1
                    if "-" in word:
                        self._counts.update(word.split("-"))

    def joined(self, text: str) -> str:
        """Return ``text`` with each `HYPHEN` as a hyphen, or gone."""
        return _MARKED.sub(self._replacement, text) if HYPHEN in text else text

    def _replacement(self, found: re.Match[str]) -> str:
        first, second = found[1], found[2]
        return f"{first}-" if self._is_kept(first, second) else first

    def _is_kept(self, first: str, second: str) -> bool:
        if not first or not second or first[-1].isdigit() or second[0].isdigit():
            return True
        low, count = first.casefold(), self._counts
        apart, joined = count[f"{low}-{second.casefold()}"], count[low + second.casefold()]
        if apart or joined:
            return apart > joined
        if low in _FIRST or (second[0].isupper() and not first.isupper()):
            return True
        # Of two words, not two syllables: "in-form" is the exception, "user-supplied" the rule.
        return len(first) != 2 and count[low] > 0 and count[second.casefold()] > 0
