"""Packing passages into a budget: merging adjacent ones, cutting at sentences, without repeats."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final

import attrs
import regex

from triptych import deadlines
from triptych.answers.pack import Offer
from triptych.answers.pieces import FORMATS, Citation, Piece, render_piece
from triptych.answers.retrieval import (
    ContextParameters,
    Place,
    Retrieved,
    ScoredPassage,
    Source,
    Sources,
)
from triptych.derivation.folder_tree import is_folder
from triptych.records import Hit, Layer
from triptych.text.sentences import sentence_spans, shingles
from triptych.text.snippets import matches, snippet
from triptych.text.tokens import TokenCounter

_SHORTEST: Final = "[1] name:1-2 v1"  # about the least header there is
_MISSES: Final = 40  # finds in a row that do not fit: the rest hardly will
_ANY_NUMBER: Final = 999  # while the ranks are open; as wide as they can become


@attrs.define
class ShingleFilter:
    """The shingles of all that was taken so far.

    A text repeats it when at least ``share`` of its shingles were seen, as many as its
    containment in the union of what was taken.
    """

    share: float
    _held: set[Hashable] = attrs.field(factory=set)

    def repeats(self, text: str, parts: Iterable[str] = ()) -> bool:
        """Whether ``text`` says little that is new beside its ``parts``, which were taken."""
        its = shingles(text).difference(*map(shingles, parts))
        return len(its & self._held) >= self.share * len(its)

    def add(self, text: str) -> None:
        """Take ``text``."""
        self._held |= shingles(text)


@attrs.define(kw_only=True)
class _Passage:
    """A stretch of one source, grown from hits. ``document`` is None where the text is the hit's
    own, and cannot grow."""

    hit: Hit  # the first in the text: its headings stand above all of it
    source: Source | None
    start: int
    end: int
    score: float
    cut: bool = False
    cost: int = 0

    @property
    def text(self) -> str:
        if self.source is None:
            return self.hit.content[self.start - self.hit.start : self.end - self.hit.start]
        return self.source.document.content[self.start : self.end]

    def piece(self, number: int) -> Piece:
        hit, source = self.hit, self.source
        lines = None
        if source is not None:
            lines = source.lines(self.start, self.end)
        elif hit.layer is Layer.DETAIL:
            first = hit.start_line + hit.content[: self.start - hit.start].count("\n")
            lines = (first, first + self.text.rstrip().count("\n"))
        return Piece(
            number=number,
            cut=self.cut,
            score=self.score,
            sig=hit.sig,
            citation=Citation(
                dataset_id=hit.dataset_id,
                doc_name=hit.doc_name,
                layer=hit.layer or Layer.DETAIL,
                version=hit.sig.source_version if source is None else source.document.version,
                start=self.start,
                end=self.end,
                lines=lines,
                heading_path=hit.heading_path,
                locator=hit.locator,
                stale=hit.stale,
                text=self.text,
            ),
        )


class Packer:
    """Fills one budget, greedily by score. What ``before`` says is not said again.

    A passage or layer is left out whose share ``repeated`` of the recipe stands in ``before`` or in
    what was taken; so are the layers of ``before``, and the abstract of what has an overview there.
    A passage with something new comes whole, for its lines are evidence.

    Attributes:
        offers: what became of each find that was looked at, in turn; one may come again.
    """

    def __init__(
        self,
        sources: Sources,
        counter: TokenCounter,
        format: str,
        budget: int,
        recipe: ContextParameters,
        mark: str = "",
        before: Sequence[Piece] = (),
    ) -> None:
        self.offers: list[Offer] = []
        self._first = len(before) + 1
        self._mark = mark
        self._sources = sources
        self._counter = counter
        self._format = format
        self._recipe = recipe
        self._seen = ShingleFilter(recipe.repeated)
        self._told: dict[Place, Layer] = {}
        for piece in before:
            self._seen.add(piece.text)
            self._told[piece.citation.dataset_id, piece.citation.doc_name] = piece.citation.layer
        self._passages: list[_Passage] = []
        form = FORMATS[format]
        self._room = budget - counter.count(form.opening + form.closing)
        self._joint = counter.count(form.joint) if form.joint else 0
        self._least = recipe.least_cut + counter.count(_SHORTEST)

    def pack(self, gathered: Retrieved) -> list[Piece]:
        """The pieces by rank, numbered after those before.

        The best passage first, cut around what matches where it is longer than the room; without
        room for it there are none. Then passages, but for what is kept back for layers; then
        layers; then passages again, the last of them cut, in what is left.
        """
        layered = bool(gathered.abstracts or gathered.overviews)
        reserve = int(self._recipe.summaries * self._room) if layered else 0
        if not gathered.passages:
            reserve = self._room
        self._room -= reserve
        best = gathered.passages[:1]
        if any(self._offer(find, may_cut=True, around=True) is False for find in best):
            return []  # no room for the best: nothing else stands for it
        self._fill(gathered.passages[1:], may_cut=False)
        self._room, left = reserve, self._room
        self._summaries(gathered)
        self._room += left
        self._fill(gathered.passages, may_cut=True)
        ranked = sorted(
            self._passages,
            key=lambda each: (-each.score, each.hit.dataset_id, each.hit.doc_name, each.start),
        )
        return [passage.piece(number) for number, passage in enumerate(ranked, self._first)]

    def _fill(self, finds: Sequence[ScoredPassage], *, may_cut: bool) -> None:
        """Take passages by score."""
        misses = 0
        for find in finds:
            deadlines.check("the context")
            if misses == _MISSES or self._room <= 0:
                break
            taken = self._offer(find, may_cut=may_cut)
            if taken is not None:
                misses = 0 if taken else misses + 1

    def _offer(self, find: ScoredPassage, *, may_cut: bool, around: bool = False) -> bool | None:
        """Whether the find was taken; None where there is nothing new in it.

        ``around`` cuts it around what matches, and however short that is.
        """
        hit = self._sources.meant(find)
        if hit is None:
            self.offers.append(Offer(find, None, "gone"))
            return None
        source = None
        if hit.layer is Layer.DETAIL and hit.stale != "source":
            source = self._sources.of(hit)
            if source is None:
                hit = attrs.evolve(hit, stale="source")  # it changed since the search
        start, end = hit.start, hit.end
        if source is not None and hit.window_start is not None and hit.window_end is not None:
            start, end = hit.window_start, hit.window_end
        made = _Passage(hit=hit, source=source, start=start, end=end, score=find.score)
        touching = self._touching(made)
        new = self._news(made, touching)
        if not new.strip() or self._is_told(find.place, hit) or self._repeats(made, touching, new):
            self.offers.append(Offer(find, hit, "repeated"))
            return None
        if self._take(made, touching):
            self.offers.append(Offer(find, hit, "taken"))
            return True
        if around:
            part = self._part_around(made)
            if part is not None and self._repeats(part, [], part.text):
                self.offers.append(Offer(find, hit, "repeated"))
                return None
            cut = part is not None and self._take(part, [])
        else:
            cut = may_cut and self._room >= self._least and self._take_cut(made, touching)
        if cut:
            self.offers.append(Offer(find, hit, "cut"))
            return True
        self.offers.append(Offer(find, hit, "budget"))
        return False

    def _is_told(self, place: Place, hit: Hit) -> bool:
        """Whether the hit is a layer in whose place ``before`` has as much or more."""
        layered = hit.layer in (Layer.ABSTRACT, Layer.OVERVIEW)
        return layered and self._told.get(place) in (Layer.OVERVIEW, hit.layer)

    def _touching(self, made: _Passage) -> list[_Passage]:
        """The passages of the same document that ``made`` overlaps, meets or nearly meets."""
        return [
            other
            for other in self._passages
            if other.source is not None
            and made.source is not None
            and _place(other) == _place(made)
            and self._meets(made.source.document.content, made, other)
        ]

    def _meets(self, content: str, made: _Passage, other: _Passage) -> bool:
        between = content[min(made.end, other.end) : max(made.start, other.start)]
        if not between.strip():
            return True
        # Longer than any text of so few tokens: not worth counting.
        if len(between) > 16 * self._recipe.bridge:
            return False
        return self._counter.count(between) <= self._recipe.bridge

    def _news(self, made: _Passage, touching: Sequence[_Passage]) -> str:
        """The text of ``made`` that no touching passage has."""
        if made.source is None:
            return made.text
        start, end = made.start, made.end
        for other in sorted(touching, key=lambda each: each.start):
            if other.start <= start < other.end:
                start = other.end
            if other.start < end <= other.end:
                end = other.start
        return made.source.document.content[start:end] if start < end else ""

    def _repeats(self, made: _Passage, touching: Sequence[_Passage], new: str) -> bool:
        """Whether ``made`` adds little, by itself or with the words across its edges."""
        if self._seen.repeats(new):
            return True
        if not touching:
            return False
        parts = [each.text for each in touching]
        return self._seen.repeats(self._grown(made, touching).text, parts)

    def _grown(self, made: _Passage, touching: Sequence[_Passage]) -> _Passage:
        parts = [made, *touching]
        first = min(parts, key=lambda each: each.start)
        last = max(parts, key=lambda each: each.end)
        return _Passage(
            hit=first.hit,
            source=made.source,
            start=first.start,
            end=last.end,
            score=max(each.score for each in parts),
            cut=last.cut,
        )

    def _take(self, made: _Passage, touching: Sequence[_Passage]) -> bool:
        grown = self._grown(made, touching)
        grown.cost = self._cost(grown)
        spent = sum(each.cost for each in touching)
        if grown.cost - spent > self._room:
            return False
        self._room -= grown.cost - spent
        self._passages = [each for each in self._passages if each not in touching]
        self._passages.append(grown)
        self._seen.add(grown.text)
        return True

    def _take_cut(self, made: _Passage, touching: Sequence[_Passage]) -> bool:
        """Take the beginning of ``made`` up to the last sentence that fits."""
        if any(other.start > made.start for other in touching):
            return False  # what lies after it would be split from it
        whole = made.text

        def beginning(length: int) -> _Passage:
            return attrs.evolve(made, end=made.start + length, cut=True)

        def cost(length: int) -> int:
            first = min([made, *touching], key=lambda each: each.start)
            grown = attrs.evolve(
                beginning(length), hit=first.hit, start=min(first.start, made.start)
            )
            return self._cost(grown) - sum(each.cost for each in touching)

        length = cut_to_fit(whole, lambda text: cost(len(text)) <= self._room)
        if not length or length >= len(whole.rstrip()):
            return False
        kept = beginning(length)
        new = self._news(kept, touching)
        if self._counter.count(new) < self._recipe.least_cut or self._repeats(kept, touching, new):
            return False
        return self._take(kept, touching)

    def _part_around(self, made: _Passage) -> _Passage | None:
        """The part of ``made`` with most of the query's words that there is room for, from the
        beginning of a sentence to the end of one where that is possible; None without room."""
        whole, terms = made.text, made.hit.terms
        found = matches(whole, terms)

        def part(start: int, end: int) -> _Passage:
            return attrs.evolve(made, start=made.start + start, end=made.start + end, cut=True)

        def fits(start: int, end: int) -> bool:
            return self._cost(part(start, end)) <= self._room

        def window(length: int) -> tuple[int, int]:
            return snippet(whole, terms, length=length)

        def said(start: int, end: int) -> int:
            return len({term for at, to, term in found if start <= at and to <= end})

        def sentences(begin: int) -> int:
            return cut_to_fit(whole[begin:], lambda text: fits(begin, begin + len(text)))

        lengths = range(1, len(whole))
        longest = bisect_left(lengths, True, key=lambda length: not fits(*window(length)))
        if not longest:
            return None
        start, end = window(longest)
        first = min((at for at, _, _ in found if start <= at < end), default=start)
        places = [0, *ends(whole)]
        before = places[bisect_right(places, start) - 1 : bisect_right(places, first)]
        # From the beginning of the passage if that says as much, else from a sentence's.
        for begin in dict.fromkeys((0, *before)):
            length = sentences(begin)
            if length and said(begin, begin + length) >= said(start, end):
                return part(begin, begin + length)
        return part(start, end)

    def _cost(self, passage: _Passage) -> int:
        piece = render_piece(passage.piece(_ANY_NUMBER), self._format, self._mark)
        return self._counter.count(piece) + self._joint

    def _summaries(self, gathered: Retrieved) -> None:
        """Abstracts of the best documents of which nothing is in the pack, then overviews of
        the best; folders' and datasets' in any case, and all where no passage was found."""
        held = {_place(passage) for passage in self._passages}
        best = list(dict.fromkeys(find.place for find in gathered.passages))
        missing = [place for place in best if place not in held]
        for finds, places in ((gathered.abstracts, missing), (gathered.overviews, best)):
            leading = set(places[: self._recipe.leading])
            for find in finds:
                if self._room <= 0:
                    return
                if find.place in leading or is_folder(find.place[1]) or not best:
                    self._offer(find, may_cut=not best)


def _place(passage: _Passage) -> Place:
    return passage.hit.dataset_id, passage.hit.doc_name


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
