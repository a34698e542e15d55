"""Steps that show more of the text around a hit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from triptych.contracts import HitReader
from triptych.errors import ValidationError
from triptych.records import DerivedChunk, Hit, ResolvedQuery, check_whole
from triptych.records.values import whole


@attrs.frozen
class Neighbours:
    """Extends each hit by the ``before`` previous and the ``after`` next chunks.

    The content of a hit is then its document's text from the start of the first chunk to the end of
    the last: ``source.content[hit.start:hit.end] == hit.content`` still holds. Overlapping hits are
    merged into the best of them, so that there may be fewer hits than requested. A hit whose text
    cannot be read at its version is unchanged.

    Raises:
        ValidationError: a number is below 0, or both are 0.
    """

    before: int = 1
    after: int = 1

    def __attrs_post_init__(self) -> None:
        if check_whole(self.before, "before") + check_whole(self.after, "after") == 0:
            raise ValidationError("before and after are 0: give at least one of them")

    def depth(self, query: ResolvedQuery) -> int:
        """Return the number of hits to extend."""
        return query.top_k

    def __call__(
        self, query: ResolvedQuery, hits: Sequence[Hit], reader: HitReader
    ) -> Sequence[Hit]:
        """Return the wider hits, in their order."""
        return _widened(hits, reader, lambda hit: reader.neighbours(hit, self.before, self.after))


@attrs.frozen
class Parents:
    """Extends each hit to its section: the chunks under the same headings, including subsections.

    A document without headings is one section. If the section is longer than ``limit`` code points,
    the hit gets the nearest chunks. Otherwise as `Neighbours`.

    Raises:
        ValidationError: ``limit`` is below 1.
    """

    limit: int = attrs.field(default=4000, validator=whole(least=1))

    def depth(self, query: ResolvedQuery) -> int:
        """Return the number of hits to extend."""
        return query.top_k

    def __call__(
        self, query: ResolvedQuery, hits: Sequence[Hit], reader: HitReader
    ) -> Sequence[Hit]:
        """Return the wider hits, in their order."""
        return _widened(hits, reader, lambda hit: self._around(hit, reader.section(hit)))

    def _around(self, hit: Hit, chunks: Sequence[DerivedChunk]) -> Sequence[DerivedChunk]:
        """As many of ``chunks`` around the hit's own as fit, one after and one before in turn."""
        if not chunks:
            return ()
        own = chunks[hit.chunk_index - chunks[0].index]
        first = last = own.index - chunks[0].index
        while True:
            wider = [(first, last + 1), (first - 1, last)]
            if chunks[last].end - own.end > own.start - chunks[first].start:
                wider.reverse()  # the side that has less so far
            for low, high in wider:
                inside = low >= 0 and high < len(chunks)
                if inside and chunks[high].end - chunks[low].start <= self.limit:
                    first, last = low, high
                    break
            else:
                return chunks[first : last + 1]


def _widened(
    hits: Sequence[Hit],
    reader: HitReader,
    around: Callable[[Hit], Sequence[DerivedChunk]],
) -> list[Hit]:
    """Each hit with the text of the chunks ``around`` it, those that overlap as one."""
    merged: list[Hit] = []
    for hit in hits:
        chunks, content = around(hit), reader.source(hit)
        place = len(merged)
        if chunks and content is not None:
            wide = _spanning(hit, [_start_of(hit), _start_of(chunks[0])], chunks[-1].end, content)
            while (at := _overlapping(merged, wide)) is not None:
                other = merged.pop(at)
                best, rest = (other, wide) if at < place else (wide, other)
                starts = [_start_of(other), _start_of(wide)]
                wide = _spanning(best, starts, rest.end, content)
                place = min(place, at)
            hit = wide
        merged.insert(place, hit)
    return merged


def _start_of(unit: Hit | DerivedChunk) -> tuple[int, int, int]:
    """Where a text starts: in code points, in bytes, and its line."""
    return unit.start, unit.offset, unit.start_line


def _spanning(hit: Hit, starts: Sequence[tuple[int, int, int]], end: int, content: str) -> Hit:
    """``hit`` from the first of ``starts`` to ``end``, or to its own end."""
    start, offset, line = min(starts)
    end = max(end, hit.end)
    wide = attrs.evolve(
        hit, content=content[start:end], start=start, end=end, offset=offset, start_line=line
    )
    window = hit.window_start, hit.window_end
    if window[0] is not None and window[1] is not None and start <= window[0] <= window[1] <= end:
        wide = attrs.evolve(wide, window_start=None, window_end=None, window=None)
    return wide


def _overlapping(hits: Sequence[Hit], wide: Hit) -> int | None:
    """The place of the first of ``hits`` whose text overlaps that of ``wide``."""
    document = wide.dataset_id, wide.doc_name
    for at, hit in enumerate(hits):
        same = (hit.dataset_id, hit.doc_name) == document
        if same and hit.start < wide.end and wide.start < hit.end:
            return at
    return None
