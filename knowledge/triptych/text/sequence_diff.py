"""Aligning two sequences in bounded time, unlike `difflib`, which is quadratic."""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from difflib import Match
from typing import Final

from triptych import deadlines

_SMALL: Final = 1 << 17
"""Up to this product of their lengths two sequences are left to `difflib`."""
_SMALL_INSIDE: Final = 1 << 13
"""The same for the stretches between anchors, of which there may be many."""

_RUNS: Final = (1, 4, 16, 64)
_DEEPEST: Final = 6
_DOING: Final = "the comparison of two texts"


def matching_blocks(a: Sequence[str], b: Sequence[str]) -> list[Match]:
    """Blocks with ``a[m.a : m.a + m.size] == b[m.b : m.b + m.size]``, both rising, none empty.

    Small sequences are `difflib`'s. Of longer ones the equal beginning and end are taken, then
    the runs of 1, 4, 16 or 64 that are in both exactly once (B. Cohen's "patience diff"), and
    so on between those; where none is there once, each with the next place where it stands.
    Takes O(n log n) time, n the sum of the lengths.

    Raises:
        CancelledError: the deadline around the call passed.
    """
    found: list[Match] = []
    left = [(0, len(a), 0, len(b), 0)]
    while left:
        deadlines.check(_DOING)
        a_start, a_end, b_start, b_end, depth = left.pop()
        small = _SMALL_INSIDE if depth else _SMALL
        if (a_end - a_start) * (b_end - b_start) <= small:
            _by_difflib(a, b, (a_start, a_end, b_start, b_end), found)
            continue
        size = _equal(a, b, (a_start, a_end, b_start, b_end))
        if size:
            found.append(Match(a_start, b_start, size))
            a_start, b_start = a_start + size, b_start + size
        size = _equal_at_end(a, b, (a_start, a_end, b_start, b_end))
        if size:
            a_end, b_end = a_end - size, b_end - size
            found.append(Match(a_end, b_end, size))
        if (a_end - a_start) * (b_end - b_start) <= small:
            _by_difflib(a, b, (a_start, a_end, b_start, b_end), found)
            continue
        span = (a_start, a_end, b_start, b_end)
        anchors = _anchors(a, b, span) if depth < _DEEPEST else []
        if not anchors:
            continue
        for anchor in anchors:
            found.append(anchor)
            if a_start < anchor.a and b_start < anchor.b:
                left.append((a_start, anchor.a, b_start, anchor.b, depth + 1))
            a_start, b_start = anchor.a + anchor.size, anchor.b + anchor.size
        left.append((a_start, a_end, b_start, b_end, depth + 1))
    return _joined(sorted(found))


def unified_diff(a: Sequence[str], b: Sequence[str], a_name: str, b_name: str) -> str:
    """The change of lines as ``diff -u`` tells it, three lines of context around; "" if equal.

    Each line comes with its line feed. One without, which can only be the last, is marked.

    Raises:
        CancelledError: the deadline around the call passed.
    """
    groups = list(_Aligned(a, b).get_grouped_opcodes())
    lines = [f"--- {a_name}\n", f"+++ {b_name}\n"] if groups else []
    for group in groups:
        a_range = _range(group[0][1], group[-1][2])
        lines.append(f"@@ -{a_range} +{_range(group[0][3], group[-1][4])} @@\n")
        for tag, a_from, a_to, b_from, b_to in group:
            if tag == "equal":
                lines.extend(f" {line}" for line in a[a_from:a_to])
                continue
            lines.extend(f"-{line}" for line in a[a_from:a_to])
            lines.extend(f"+{line}" for line in b[b_from:b_to])
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


class _Aligned(difflib.SequenceMatcher[str]):
    """`difflib`'s groups of changes around our blocks."""

    def __init__(self, a: Sequence[str], b: Sequence[str]) -> None:
        super().__init__(None, "", "")
        self._blocks = [*matching_blocks(a, b), Match(len(a), len(b), 0)]

    def get_matching_blocks(self) -> list[Match]:
        return self._blocks


_Span = tuple[int, int, int, int]


def _by_difflib(a: Sequence[str], b: Sequence[str], span: _Span, found: list[Match]) -> None:
    a_start, a_end, b_start, b_end = span
    if a_start == a_end or b_start == b_end:
        return
    matcher = difflib.SequenceMatcher(None, a[a_start:a_end], b[b_start:b_end], autojunk=False)
    found.extend(
        Match(a_start + block.a, b_start + block.b, block.size)
        for block in matcher.get_matching_blocks()
        if block.size
    )


def _equal(a: Sequence[str], b: Sequence[str], span: _Span) -> int:
    a_start, a_end, b_start, b_end = span
    most = min(a_end - a_start, b_end - b_start)
    size = 0
    while size < most and a[a_start + size] == b[b_start + size]:
        size += 1
    return size


def _equal_at_end(a: Sequence[str], b: Sequence[str], span: _Span) -> int:
    a_start, a_end, b_start, b_end = span
    most = min(a_end - a_start, b_end - b_start)
    size = 0
    while size < most and a[a_end - size - 1] == b[b_end - size - 1]:
        size += 1
    return size


def _anchors(a: Sequence[str], b: Sequence[str], span: _Span) -> list[Match]:
    """The most runs that are once in each and in the same order in both, none overlapping.

    Where none is there once: runs that are in both, the longest of `_RUNS` first.
    """
    a_ids, b_ids = _numbered(a[span[0] : span[1]], b[span[2] : span[3]])
    fallback: list[Match] = []
    for run in _RUNS:
        deadlines.check(_DOING)
        if run > 1:
            a_ids, b_ids = _numbered(_fours(a_ids, run // 4), _fours(b_ids, run // 4))
        a_once, b_once = _once(a_ids), _once(b_ids)
        pairs = [(at, b_once[key]) for key, at in a_once.items() if key in b_once]
        if pairs:
            return _apart(_rising(sorted(pairs)), run, span)
        fallback = _next_ones(a_ids, b_ids, run, span) or fallback
    return fallback


def _numbered(a: Iterable[Hashable], b: Iterable[Hashable]) -> tuple[list[int], list[int]]:
    """A number for each member, the same for equal ones."""
    numbers: dict[Hashable, int] = {}
    first = [numbers.setdefault(key, len(numbers)) for key in a]
    return first, [numbers.setdefault(key, len(numbers)) for key in b]


def _fours(ids: Sequence[int], step: int) -> Iterable[Hashable]:
    """Runs of four times the length of those that ``ids`` number."""
    return zip(ids, ids[step:], ids[2 * step :], ids[3 * step :], strict=False)


def _once(ids: Sequence[int]) -> dict[int, int]:
    counts = Counter(ids)
    return {key: at for at, key in enumerate(ids) if counts[key] == 1}


def _next_ones(a_ids: Sequence[int], b_ids: Sequence[int], run: int, span: _Span) -> list[Match]:
    """Each run of ``a`` with the next place in ``b`` where it stands: repetitive text."""
    places: dict[int, list[int]] = {}
    for at, key in enumerate(b_ids):
        places.setdefault(key, []).append(at)
    found: list[Match] = []
    a_at = b_free = 0
    while a_at < len(a_ids):
        there = places.get(a_ids[a_at], [])
        place = bisect_left(there, b_free)
        if place == len(there):
            a_at += 1
            continue
        found.append(Match(span[0] + a_at, span[2] + there[place], run))
        a_at, b_free = a_at + run, there[place] + run
    return found


def _rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest subsequence whose second members rise (C. Schensted, 1961)."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for at, (_, b_at) in enumerate(pairs):
        place = bisect_left(ends, b_at)
        before.append(last[place - 1] if place else -1)
        ends[place : place + 1] = [b_at]
        last[place : place + 1] = [at]
    kept: list[tuple[int, int]] = []
    at = last[-1]
    while at >= 0:
        kept.append(pairs[at])
        at = before[at]
    return kept[::-1]


def _apart(pairs: Sequence[tuple[int, int]], run: int, span: _Span) -> list[Match]:
    kept: list[Match] = []
    a_free = b_free = 0
    for a_at, b_at in pairs:
        if a_at >= a_free and b_at >= b_free:
            kept.append(Match(span[0] + a_at, span[2] + b_at, run))
            a_free, b_free = a_at + run, b_at + run
    return kept


def _joined(blocks: Sequence[Match]) -> list[Match]:
    joined: list[Match] = []
    for block in blocks:
        last = joined[-1] if joined else None
        if last and (last.a + last.size, last.b + last.size) == (block.a, block.b):
            joined[-1] = Match(last.a, last.b, last.size + block.size)
        else:
            joined.append(block)
    return joined


def _range(start: int, stop: int) -> str:
    """Lines as a unified diff counts them (POSIX, diff -u)."""
    length = stop - start
    if length == 1:
        return f"{start + 1}"
    return f"{start + 1 if length else start},{length}"
