"""Snippets: the window of a text that covers most of a query."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import Final

from triptych.text.english import irregular_forms
from triptych.text.escapes import views

_OCCURRENCES: Final = 32
"""Occurrences of one term that are looked at: more would not make a better window."""

_TERMS: Final = 256
"""Terms that are looked for, the first: no window shows more."""

_SNAP: Final = 24
"""Code points within which a window's edge looks for white space."""


def snippet(text: str, query_terms: Sequence[str], *, length: int = 240) -> tuple[int, int]:
    """Return ``(start, end)`` of the window of ``text`` that covers most of ``query_terms``.

    ``query_terms`` are what :meth:`Analyzer.analyze_query` gives; they are looked for as they are
    spelt, at the start of a word, so a stem finds its words. The irregular forms of English terms
    are looked for as whole words. Of several windows that cover equally many terms the earliest
    wins; without any occurrence it is the text's start. Edges move to white space where some is
    near. ``end - start`` is at most ``length`` code points.

    Raises:
        ValueError: ``length`` is less than 1.
    """
    if length < 1:
        raise ValueError(f"length must be at least 1, not {length}")
    if len(text) <= length:
        return 0, len(text)
    found = _found(text, query_terms)
    if not found:
        return 0, _snap_end(text, 0, length)
    first, last = _best_window(found, length)
    # The words before the first hit help reading as much as those after the last.
    lead = (length - (last - first)) // 2
    start = max(0, min(first - lead, len(text) - length))
    start = _snap_start(text, start, first)
    return start, _snap_end(text, last, min(start + length, len(text)))


def matches(text: str, query_terms: Sequence[str]) -> list[tuple[int, int, int]]:
    """Return ``(start, end, number of the term)`` of the words that ``query_terms`` stand for.

    They are found as `snippet` finds them, in order, each to the end of its word.
    """
    found = _found(text, query_terms)
    whole = []
    for start, end, number in found:
        # Only in scripts with spaces does a word go on as long as there are letters.
        while text[end - 1].isascii() and end < len(text) and text[end].isalnum():
            end += 1
        whole.append((start, end, number))
    return whole


def _found(text: str, terms: Sequence[str]) -> list[tuple[int, int, int]]:
    """Return (start, end, number of the term) of what is found in any reading of ``text``."""
    readings = views(text)
    if len(readings) == 1 and not readings[0].replaced:
        return _occurrences(_fold_in_place(text), terms)
    found: set[tuple[int, int, int]] = set()
    for view in readings:
        for start, end, number in _occurrences(_fold_in_place(view.text), terms):
            found.add((*view.place(start, end), number))
    return sorted(found)


def _fold_in_place(text: str) -> str:
    # Positions must stay those of the text, so a character whose lower case is longer stays as is.
    folded = text.lower()
    if len(folded) == len(text):
        return folded
    return "".join(low if len(low := character.lower()) == 1 else character for character in text)


def _occurrences(folded: str, terms: Sequence[str]) -> list[tuple[int, int, int]]:
    """Return (start, end, number of the term) of what is found, sorted."""
    found: list[tuple[int, int, int]] = []
    for number, (term, without_y, inside_words, forms) in enumerate(_sought(tuple(terms))):
        if (first := folded.find(term)) < 0 and without_y:
            term, first = without_y, folded.find(without_y)
        if first >= 0:
            _add_places(found, folded, term, first, number, inside_words)
        for form in forms:
            if (first := folded.find(form)) >= 0:
                places: list[tuple[int, int, int]] = []
                _add_places(places, folded, form, first, number)
                found += [each for each in places if not folded[each[1] : each[1] + 1].isalnum()]
    found.sort()
    return found


@lru_cache(maxsize=64)
def _sought(terms: tuple[str, ...]) -> Sequence[tuple[str, str, bool, tuple[str, ...]]]:
    """What is looked for: each term, what it is where that is not there, whether it may stand
    inside words, and its irregular forms. All hits of a search ask for the same."""
    return [
        (
            term,
            # The stemmers write a final y as i: happy, happi.
            term[:-1] if len(term) > 2 and term[-1] == "i" else "",
            not term.isascii(),
            irregular_forms(term),
        )
        for term in islice(dict.fromkeys(terms), _TERMS)
    ]


def _add_places(
    found: list[tuple[int, int, int]],
    folded: str,
    text: str,
    first: int,
    number: int,
    inside_words: bool = False,
) -> None:
    """Add to ``found`` the occurrences of ``text`` from ``first`` on, those inside words left
    out."""
    position, left, width = first, _OCCURRENCES, len(text)
    while position >= 0 and left:
        if inside_words or position == 0 or not folded[position - 1].isalnum():
            found.append((position, position + width, number))
        position, left = folded.find(text, position + 1), left - 1


def _best_window(found: list[tuple[int, int, int]], length: int) -> tuple[int, int]:
    """Return start and end of the earliest window of hits that holds most distinct terms."""
    held: dict[int, int] = {}
    best, best_start, best_end = 0, 0, 0
    left = 0
    for start, end, term in found:
        held[term] = held.get(term, 0) + 1
        while end - found[left][0] > length and found[left][0] < start:
            leaving = found[left][2]
            left += 1
            if held[leaving] == 1:
                del held[leaving]
            else:
                held[leaving] -= 1
        if len(held) > best:
            best, best_start, best_end = len(held), found[left][0], end
    return best_start, min(best_end, best_start + length)


def _snap_start(text: str, start: int, limit: int) -> int:
    if start == 0 or text[start - 1].isspace():
        return start
    for position in range(start, min(start + _SNAP, limit)):
        if text[position].isspace():
            return position + 1
    return start


def _snap_end(text: str, limit: int, end: int) -> int:
    if end == len(text) or text[end].isspace():
        return end
    for position in range(end - 1, max(end - _SNAP, limit, 1) - 1, -1):
        if text[position].isspace():
            return position
    return end
