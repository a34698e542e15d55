"""The outline of an extracted text: its structure, and the positions in the original file.

It is stored with the document (`triptych.records.SystemData`), so that a rebuild needs no parser.
It names the text it was made for and is ignored for any other text. It also has the words of the
file that the text lacks, and why there is no text.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import index
from typing import Any, TypeAlias

import attrs

from triptych.errors import ValidationError
from triptych.records.unread import UNREAD, Unread

_STEP = 4096


class LineEnds:
    """Counts the line ends of ``content``: \\n, \\r\\n or \\r, each as one.

    Counts are kept at every few thousand characters, as far as they were asked for, so that a
    question about a far place does not read all that stands before it.
    """

    def __init__(self, content: str) -> None:
        self._content = content
        self._counts = [0]
        self._has_returns = "\r" in content

    def between(self, start: int, end: int) -> int:
        """How many lines end in ``content[start:end]`` (code points); 0 where it is empty."""
        return self._before(end) - self._before(start) if start < end else 0

    def _before(self, at: int) -> int:
        if at == 0:
            return 0
        counts = self._counts
        while len(counts) * _STEP <= at:
            upto = len(counts) * _STEP
            counts.append(counts[-1] + self._count(upto - _STEP, upto))
        held = at // _STEP
        return counts[held] + self._count(held * _STEP, at)

    def _count(self, start: int, end: int) -> int:
        text = self._content
        if not self._has_returns:
            return text.count("\n", start, end)
        pairs = text.count("\r\n", max(start - 1, 0), end)
        return text.count("\n", start, end) + text.count("\r", start, end) - pairs


Outliner: TypeAlias = Callable[[str, str], str | None]
"""Returns the outline (`write_outline`) for a document's name and text: "" without structure, None
for a name of an unknown format. It must be deterministic, may be called from any thread, and never
raises for any text."""

MAX_LOCATORS = 20_000
"""The maximum number; of more, every second one is merged with its neighbour until they fit."""

_VERSION = 1


@attrs.frozen(kw_only=True, slots=True)
class Locator:
    """The position of the text from ``start`` to ``end`` (code points) in the original file.

    ``unit`` is "page", "line", "cell", "slide", "row", …, ``number`` counts from 1, and ``within``
    names the container ("sheet Prices"). With ``counted`` each line of the span has the next
    number, and ``number`` is that of the first line.
    """

    start: int
    end: int
    unit: str
    number: int
    within: str = ""
    counted: bool = False

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.start <= self.end or self.number < 0:
            raise ValidationError(
                f"a locator spans {self.start}:{self.end} with number {self.number}: both ends "
                "and the number count upwards from 0"
            )

    @property
    def label(self) -> str:
        """The position in words, or its first one if counted: "page 3", "sheet Prices, row 17"."""
        return _label(self.within, self.unit, self.number, self.number)


@attrs.frozen(kw_only=True, slots=True)
class Part:
    """A definition, key or section in the text; chunks do not cross its boundaries.

    ``depth`` is 0 for outermost parts; parts are listed outermost first, in the order of the text.
    """

    start: int
    end: int
    title: str
    depth: int = 0


@attrs.frozen(kw_only=True, slots=True)
class Outline:
    """The locators and parts of one text, both in the order of the text."""

    locators: tuple[Locator, ...] = ()
    parts: tuple[Part, ...] = ()

    def locate(self, content: str, start: int, end: int) -> str | None:
        """Return the position of ``content[start:end]`` in words, None if unknown.

        It names the first and the last: "page 3", "pages 3-4", "sheet A, row 9 to sheet B, row 2".
        """
        return self.locate_all(content, [(start, end)])[0]

    def locate_all(self, content: str, spans: Iterable[tuple[int, int]]) -> list[str | None]:
        """`locate` for each of ``spans``, reading the text only once."""
        lines = LineEnds(content)
        starts = [each.start for each in self.locators]
        ends = [each.end for each in self.locators]
        return [
            self._place(
                lines,
                start,
                end,
                bisect_right(ends, start),
                bisect_left(starts, max(end, start + 1)) - 1,
            )
            for start, end in spans
        ]

    def _place(self, lines: LineEnds, start: int, end: int, first: int, last: int) -> str | None:
        """The place of a span that the locators from ``first`` to ``last`` reach into."""
        held = self.locators
        if first > last or first >= len(held):
            return None
        left, right = held[first], held[last]
        low = left.number + (lines.between(left.start, start) if left.counted else 0)
        high = right.number
        if right.counted:
            high += lines.between(right.start, min(end, right.end))
        if (left.within, left.unit) == (right.within, right.unit):
            return _label(left.within, left.unit, min(low, high), max(low, high))
        ends = ((left, low), (right, high))
        return " to ".join(_label(each.within, each.unit, at, at) for each, at in ends)


def write_outline(
    content: str, locators: Sequence[Locator], parts: Sequence[Part], unread: Unread | None = None
) -> str:
    """The outline of ``content`` as one line of JSON, "" where there is nothing to say.

    Raises:
        ValidationError: locators or parts are out of order, or reach outside of the text.
    """
    if not locators and not parts and not unread:
        return ""
    _check(content, locators, parts)
    kept = list(locators)
    while len(kept) > MAX_LOCATORS:
        ends = [each.end for each in kept]
        kept = [
            attrs.evolve(each, end=ends[min(2 * at + 1, len(ends) - 1)])
            for at, each in enumerate(kept[::2])
        ]
    runs: list[list[Any]] = []
    at = number = 0
    for each in kept:
        if not runs or runs[-1][:3] != [each.unit, each.within, int(each.counted)]:
            runs.append([each.unit, each.within, int(each.counted), []])
        runs[-1][3] += [each.start - at, each.end - each.start, each.number - number]
        at, number = each.end, each.number
    titles: list[Any] = []
    at = 0
    for part in parts:
        titles += [part.start - at, part.end - part.start, part.depth, part.title]
        at = part.start
    value = {"v": _VERSION, "of": _fingerprint(content), "places": runs, "parts": titles}
    if unread:
        value[UNREAD] = unread.fields()
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def read_outline(text: str, content: str) -> Outline | None:
    """The outline of ``content`` that was written as ``text``; None for none, or another text's."""
    if not text:
        return None
    try:
        value = json.loads(text)
        if value["v"] != _VERSION or value["of"] != _fingerprint(content):
            return None
        outline = Outline(
            locators=tuple(_locators(value["places"])), parts=tuple(_parts(value["parts"]))
        )
        _check(content, outline.locators, outline.parts)
    except (ValueError, TypeError, LookupError, RecursionError):
        return None  # not written by `write_outline`
    return outline


def _locators(runs: list[list[Any]]) -> Iterator[Locator]:
    at = number = 0
    for unit, within, counted, numbers in runs:
        for skip, length, step in zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True):
            start, number = at + index(skip), number + index(step)
            at = start + index(length)
            yield Locator(
                start=start,
                end=at,
                unit=str(unit),
                number=number,
                within=str(within),
                counted=bool(counted),
            )


def _parts(fields: list[Any]) -> Iterator[Part]:
    at = 0
    for place in range(0, len(fields), 4):
        skip, length, depth, title = fields[place : place + 4]
        at += index(skip)
        yield Part(start=at, end=at + index(length), depth=index(depth), title=str(title))


def _check(content: str, locators: Sequence[Locator], parts: Sequence[Part]) -> None:
    at = 0
    for each in locators:
        if each.start < at or each.end > len(content):
            raise ValidationError(
                f"the locator {each.label!r} at {each.start}:{each.end} overlaps another, or "
                f"reaches outside of the text of {len(content)} code points"
            )
        at = each.end
    open_ends = [len(content)]
    at = 0
    for part in parts:
        depth, start, end = part.depth, part.start, part.end
        if 0 <= depth < len(open_ends) - 1:
            at = max(at, open_ends[depth + 1])  # the widest of those that end here
            del open_ends[depth + 1 :]
        nested = 0 <= depth < len(open_ends) and end <= open_ends[-1]
        if not nested or not at <= start < end:
            raise ValidationError(
                f"the part {part.title!r} at {part.start}:{part.end} is out of order, or "
                "reaches outside of what holds it"
            )
        open_ends.append(end)
        at = start


def _fingerprint(content: str) -> str:
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _label(within: str, unit: str, low: int, high: int) -> str:
    place = f"{unit} {low}" if low == high else f"{unit}s {low}-{high}"
    return f"{within}, {place}" if within else place
