"""Passages into a budget: merged where they touch, cut where they end, none said twice."""

from __future__ import annotations

import heapq
import re
from collections.abc import Sequence
from typing import Final

import attrs

from triptych.context.counting import TokenCounter
from triptych.context.cutting import cut_to_fit
from triptych.context.duplicates import Seen
from triptych.context.gathering import Find, Gathered, Place
from triptych.context.recipe import Recipe
from triptych.context.records import Citation, Piece
from triptych.context.rendering import FORMATS, render_piece
from triptych.context.sources import Sources
from triptych.records import Hit, Layer, SourceDocument

__all__ = ["Packer"]

_LINE_END: Final = re.compile(r"\r\n?|\n")
_ANY_NUMBER: Final = 999  # while the ranks are open; as wide as they can become
_MISSES: Final = 40  # candidates in a row that do not fit: the rest will not either


@attrs.define(kw_only=True)
class _Passage:
    """A stretch of one source, grown from hits. ``document`` is None where the text is the hit's
    own, and cannot grow."""

    hit: Hit  # the first in the text: its headings stand above all of it
    document: SourceDocument | None
    start: int
    end: int
    score: float
    cut: bool = False
    cost: int = 0

    @property
    def text(self) -> str:
        if self.document is None:
            return self.hit.content[: self.end - self.start]
        return self.document.content[self.start : self.end]

    def piece(self, number: int) -> Piece:
        hit, document = self.hit, self.document
        lines = None
        if hit.layer is Layer.DETAIL:
            first = hit.start_line
            if document is not None:
                first = 1 + _line_ends(document.content[: self.start])
            lines = (first, first + _line_ends(self.text.rstrip()))
        return Piece(
            number=number,
            cut=self.cut,
            score=self.score,
            citation=Citation(
                dataset_id=hit.dataset_id,
                doc_name=hit.doc_name,
                layer=hit.layer or Layer.DETAIL,
                version=hit.sig.source_version if document is None else document.version,
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
    """Fills one budget, greedily by score."""

    def __init__(
        self, sources: Sources, counter: TokenCounter, format: str, budget: int, recipe: Recipe
    ) -> None:
        self._sources = sources
        self._counter = counter
        self._format = format
        self._recipe = recipe
        self._seen = Seen(recipe.repeated)
        self._passages: list[_Passage] = []
        form = FORMATS[format]
        self._room = budget - counter.count(form.opening + form.closing)
        self._joint = counter.count(form.joint) if form.joint else 0
        self.refused = 0

    def pack(self, gathered: Gathered, budget: int) -> list[Piece]:
        """The pieces by rank."""
        kept_back = 0
        if gathered.passages:
            kept_back = int(self._recipe.summaries * budget)
        else:
            self._summaries(gathered)
        layered = bool(gathered.abstracts or gathered.overviews)
        reserve = kept_back if layered else 0
        self._room -= reserve
        self._fill(gathered.passages, may_cut=not reserve)
        self._room += reserve
        if reserve:
            spared = max(0, self._room - reserve)
            self._room -= spared
            self._summaries(gathered)
            self._room += spared
            self._fill(gathered.passages, may_cut=True)
        ranked = sorted(
            self._passages,
            key=lambda each: (-each.score, each.hit.dataset_id, each.hit.doc_name, each.start),
        )
        return [passage.piece(number) for number, passage in enumerate(ranked, start=1)]

    def _fill(self, finds: Sequence[Find], *, may_cut: bool) -> None:
        """Take passages by score; each that is taken offers the ones beside it."""
        queue = [(find.order, find.hit.start, find) for find in finds]
        heapq.heapify(queue)
        misses = 0
        while queue and misses < _MISSES:
            _, _, find = heapq.heappop(queue)
            taken = self._offer(find, may_cut=may_cut)
            if taken is None:
                continue
            misses = 0 if taken else misses + 1
            self.refused += not taken
            if taken and self._recipe.neighbour:
                for chunk in self._sources.beside(find.hit):
                    near = Find(
                        hit=attrs.evolve(
                            find.hit,
                            chunk_index=chunk.index,
                            content=chunk.content,
                            start=chunk.start,
                            end=chunk.end,
                            start_line=chunk.start_line,
                            locator=chunk.locator,
                        ),
                        score=find.score * self._recipe.neighbour,
                    )
                    heapq.heappush(queue, (near.order, near.hit.start, near))

    def _offer(self, find: Find, *, may_cut: bool) -> bool | None:
        """Whether the find was taken; None where there is nothing new in it."""
        hit = find.hit
        document = None if hit.stale == "source" else self._sources.of(hit)
        made = _Passage(hit=hit, document=document, start=hit.start, end=hit.end, score=find.score)
        if document is None:
            made.hit = hit if hit.layer is not Layer.DETAIL else _as_of_its_time(hit)
            if any(self._is_within(made, other) for other in self._passages):
                return None
        touching = [] if document is None else self._touching(made)
        new = self._news(made, touching)
        if not new.strip() or self._seen.repeats(new):
            return None
        if self._take(made, touching, new):
            return True
        return may_cut and self._take_cut(made, touching)

    def _is_within(self, made: _Passage, other: _Passage) -> bool:
        return (
            other.hit.dataset_id == made.hit.dataset_id
            and other.hit.doc_name == made.hit.doc_name
            and other.hit.layer is made.hit.layer
            and (other.document is None or made.document is None)
            and other.start <= made.start
            and made.end <= other.end
        )

    def _touching(self, made: _Passage) -> list[_Passage]:
        """The passages of the same document that ``made`` overlaps, meets or nearly meets."""
        return [
            other
            for other in self._passages
            if other.document is not None
            and made.document is not None
            and _place(other) == _place(made)
            and self._meets(made.document.content, made, other)
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
        if made.document is None:
            return made.text
        start, end = made.start, made.end
        for other in sorted(touching, key=lambda each: each.start):
            if other.start <= start < other.end:
                start = other.end
            if other.start < end <= other.end:
                end = other.start
        return made.document.content[start:end] if start < end else ""

    def _take(self, made: _Passage, touching: Sequence[_Passage], new: str) -> bool:
        parts = [made, *touching]
        first = min(parts, key=lambda each: each.start)
        last = max(parts, key=lambda each: each.end)
        grown = _Passage(
            hit=first.hit,
            document=made.document,
            start=first.start,
            end=last.end,
            score=max(each.score for each in parts),
            cut=last.cut,
        )
        grown.cost = self._cost(grown)
        spent = sum(each.cost for each in touching)
        if grown.cost - spent > self._room:
            return False
        self._room -= grown.cost - spent
        self._passages = [each for each in self._passages if each not in touching]
        self._passages.append(grown)
        self._seen.add(new)
        return True

    def _take_cut(self, made: _Passage, touching: Sequence[_Passage]) -> bool:
        """Take the beginning of ``made`` up to the last sentence that fits."""
        if any(other.start > made.start for other in touching):
            return False  # what lies behind it would be parted from it
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
        if self._counter.count(new) < self._recipe.least_cut:
            return False
        return self._take(kept, touching, new)

    def _cost(self, passage: _Passage) -> int:
        return self._counter.count(render_piece(passage.piece(_ANY_NUMBER), self._format)) + (
            self._joint
        )

    def _summaries(self, gathered: Gathered) -> None:
        """Layers of leading documents: an overview where much was found, else an abstract for
        those of which nothing is in the pack."""
        held = {_place(passage) for passage in self._passages}
        if not gathered.passages:
            for find in gathered.overviews:
                self._offer(find, may_cut=True)
        for find in gathered.abstracts:
            if find.place not in held:
                self._offer(find, may_cut=False)


def _place(passage: _Passage) -> Place:
    return passage.hit.dataset_id, passage.hit.doc_name


def _as_of_its_time(hit: Hit) -> Hit:
    """The hit, told stale where its text no longer stands in its document."""
    return hit if hit.stale else attrs.evolve(hit, stale="source")


def _line_ends(text: str) -> int:
    return sum(1 for _ in _LINE_END.finditer(text))
