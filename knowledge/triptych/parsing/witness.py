"""Comparing the text that a parser made with a plain reading of the same file.

Each parser of a format with structure has a witness: another, plainer reading of the file, which
takes all words whatever they stand in. Words that the witness has and the text lacks are named
with their place (`Omission`), or make the parser take the plain reading of that place.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice

from triptych.records.unread import Omission
from triptych.text.escapes import decode
from triptych.text.words import normalize

# Scripts without spaces are compared character by character: where lines end is no difference.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_TAGS = re.compile(r"<(?:style|script)\b[^<>]*>[^<]*|<[^<>]*>", re.IGNORECASE)
_EXAMPLE = 80
"""Code points of the words of an omission."""


def words(text: str) -> list[str]:
    """Return the runs of letters and digits in ``text``, in NFKC and without case."""
    return _WORD.findall(normalize(decode(text)).casefold())


def without_tags(text: str) -> str:
    """Return the HTML ``text`` without tags, style sheets and scripts, as a plain reading."""
    return _TAGS.sub(" ", text)


def lost(shown: str, kept: str) -> Counter[str]:
    """Return the words of ``shown`` that ``kept`` lacks, each as often as it lacks it."""
    return Counter(words(shown)) - Counter(words(kept))


class Witness:
    """Finds, place by place, the words of a file that the text ``content`` lacks.

    Each word of the text answers for one of the file: a word that a file has twice, and the text
    once, is lost once, at the later place. Ask for the places of the text itself first.
    """

    def __init__(self, content: str) -> None:
        self._left = Counter(words(content))

    def lost(self, shown: str) -> list[str]:
        """Return the words of ``shown`` that no word of the text is left for, in order."""
        left, missing = self._left, []
        for word in words(shown):
            if left[word] > 0:
                left[word] -= 1
            else:
                missing.append(word)
        return missing

    def omission(self, place: str, shown: str, reason: str) -> Omission | None:
        """Return what is lost of ``shown``, which stands at ``place``; None for nothing."""
        return omission(place, self.lost(shown), reason)


def omission(place: str, missing: list[str], reason: str) -> Omission | None:
    """Return the omission of the words ``missing`` at ``place``; None for no words."""
    if not missing:
        return None
    example = " ".join(islice(missing, _EXAMPLE // 2))[:_EXAMPLE]
    return Omission(place=place, words=len(missing), reason=reason, example=example)
