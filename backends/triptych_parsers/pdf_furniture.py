"""Lines that a PDF repeats on its pages: headers, footers and page numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from typing import NamedTuple

from triptych.parsing import one_line, words
from triptych.records import Omission
from triptych_parsers.pdf_layout import Line
from triptych_parsers.pdf_tables import spaced_cells

_FEWEST_PAGES = 4
"""With fewer, a line that repeats may be a coincidence."""
_SHARE = 0.6
_MOST_LINES = 3
"""Of one header or footer."""
_NAMED = 5
"""Ranges of pages; more are counted."""
_NUMBER = "\x00"
"""In place of a page number."""
_ROMAN = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}
_WORD = r"(?:pages?|pg|p\.|seite|s\.|página|pág\.|pagina|strana|sid[ae]|стр\.|第)"
_OF = r"(?:/|of|von|de|di|sur|van|av|z|из)"
_RIM = r"[\s\-‒–—|\[\](){}<>~•·*_/]*"
_BARE = re.compile(rf"{_RIM}(\d{{1,5}}|[ivxlc]{{1,8}}){_RIM}", re.I)
_AFTER_WORD = re.compile(
    rf"(?<!\w){_WORD}\s*(\d{{1,5}}|[ivxlc]{{1,8}}\b)(?:\s*{_OF}\s*\d+)?(?![.,:-]?\d)\s*[页頁]?",
    re.I,
)
_COUNTED = re.compile(rf"\b(\d{{1,5}})\s*{_OF}\s*(\d{{1,5}})\b", re.I)
_BAR = re.compile(r"\s[|•·‒–—-]\s")


class Dropped(NamedTuple):
    """A line that is left out of its page, counted from 0, and why."""

    page: int
    text: str
    reason: str


def drop_running_lines(pages: Sequence[list[Line]], titles: Set[tuple[int, str]]) -> list[Dropped]:
    """Take headers, footers and page numbers from ``pages``; return them.

    They are what most pages begin or end with: the same words, or a number that counts with the
    page. Words stay on the first of their pages. A table, a line with words that is all of its
    page, and the ``titles``, by page and without case, are no running lines.
    """
    dropped: list[Dropped] = []
    for step, reason in ((1, "header on each page"), (-1, "footer on each page")):
        passed = [0] * len(pages)
        for _ in range(_MOST_LINES):
            edges = [_edge(lines, step, skip) for lines, skip in zip(pages, passed, strict=True)]
            keys = _keys(pages, edges, titles)
            counts = Counter(key for key in keys if key)
            usual, count = max(counts.items(), key=lambda each: each[1], default=("", 0))
            if count < max(_FEWEST_PAGES, _SHARE * len(pages)) or _is_field(usual, counts):
                break
            is_kept = usual != _NUMBER
            for index, (key, edge) in enumerate(zip(keys, edges, strict=True)):
                if key != usual or edge is None:
                    continue
                if is_kept or _is_whole(pages[index]):
                    is_kept, passed[index] = False, passed[index] + 1
                    continue
                why = "page number" if usual == _NUMBER else reason
                dropped.append(Dropped(index, pages[index].pop(edge).text, why))
    return dropped


def _edge(lines: Sequence[Line], step: int, skip: int) -> int | None:
    """Where the first or last line stands that shows something, past ``skip`` others."""
    for at in range(len(lines))[::step]:
        if lines[at].table or lines[at].text.strip():
            if not skip:
                return None if lines[at].table else at
            skip -= 1
    return None


def _is_field(usual: str, counts: Iterable[str]) -> bool:
    """Whether other pages have another number or value in the place of this line's."""
    frame = _frame(usual)
    return _NUMBER not in usual and any(key != usual and _frame(key) == frame for key in counts)


def _frame(text: str) -> str:
    return re.sub(r"\d+", "0", text.partition(": ")[0])


def _is_whole(lines: Sequence[Line]) -> bool:
    shown = [line for line in lines if line.table or line.text.strip()]
    return len(shown) == 1 and any(map(str.isalpha, shown[0].text))


def _keys(
    pages: Sequence[Sequence[Line]],
    edges: Sequence[int | None],
    titles: Set[tuple[int, str]],
) -> list[str]:
    """What is the same on lines that are the same but for the page number."""
    texts = [
        "" if edge is None else one_line(lines[edge].text)
        for lines, edge in zip(pages, edges, strict=True)
    ]
    texts = ["" if (index, text.casefold()) in titles else text for index, text in enumerate(texts)]
    numbers = [
        None if edge is None or not text else _page_number(lines[edge], text, len(pages))
        for lines, edge, text in zip(pages, edges, texts, strict=True)
    ]
    # A page number is as far from the page's own as others are.
    shifts = Counter(
        (each[0], each[1] - index) for index, each in enumerate(numbers) if each is not None
    )
    return [
        each[0] if each is not None and shifts[each[0], each[1] - index] >= _FEWEST_PAGES else text
        for index, (each, text) in enumerate(zip(numbers, texts, strict=True))
    ]


def _page_number(line: Line, text: str, pages: int) -> tuple[str, int] | None:
    """The line with `_NUMBER` for what may be its page number, and that number.

    It stands by itself, after the word for a page, before the count of all, or apart from the other
    words of the line. A number that follows a word belongs to it: "Week 3", "Invoice 2041".
    """
    found = _BARE.fullmatch(text)
    if found:
        value = _value(found[1])
        is_year = pages < value and 1900 <= value < 2100
        return None if is_year else (_NUMBER, value)
    of_all = (each for each in _COUNTED.finditer(text) if int(each[2]) == pages)
    found = _AFTER_WORD.search(text) or next(of_all, None)
    if found:
        rest = text[: found.start()] + text[found.end() :]
        has_words = any(map(str.isalnum, rest))
        return f"{rest}{_NUMBER}" if has_words else _NUMBER, _value(found[1])
    pieces = _BAR.split(" | ".join(spaced_cells(line.glyphs)) or text)
    for at in (0, -1):
        rest = _NUMBER.join(pieces[1:] if at == 0 else pieces[:-1])
        if pieces[at].isdecimal() and int(pieces[at]) <= pages and any(map(str.isalpha, rest)):
            return f"{rest}{_NUMBER}", int(pieces[at])
    return None


def _value(number: str) -> int:
    """The value of an Arabic or a Roman number."""
    if number.isdecimal():
        return int(number)
    values = [_ROMAN[each] for each in number.lower()]
    return sum(
        -value if value < following else value
        for value, following in zip(values, [*values[1:], 0], strict=True)
    )


def omissions_of(dropped: Iterable[Dropped]) -> list[Omission]:
    """One omission for each reason."""
    reasons: dict[str, list[Dropped]] = {}
    for each in dropped:
        reasons.setdefault(each.reason, []).append(each)
    return [
        Omission(
            place=pages_named(sorted({each.page + 1 for each in found})),
            words=sum(len(words(each.text)) for each in found),
            reason=reason,
            example=one_line(found[0].text)[:80],
        )
        for reason, found in reasons.items()
    ]


def pages_named(numbers: Sequence[int]) -> str:
    """``numbers``, in order, as "page 3" or "pages 2-16, 18 and 4 more"."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    named = ", ".join(
        str(first) if first == last else f"{first}-{last}" for first, last in ranges[:_NAMED]
    )
    more = sum(last - first + 1 for first, last in ranges[_NAMED:])
    unit = "page" if len(numbers) == 1 else "pages"
    return f"{unit} {named}" + (f" and {more:,} more" if more else "")
