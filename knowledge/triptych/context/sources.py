"""The documents that passages are cut from, read when they are needed."""

from __future__ import annotations

import bisect
import re
from collections.abc import Sequence
from typing import Final

import attrs

from triptych.context.retrieval import Place, ScoredPassage
from triptych.contracts import ChunkRepo, DocumentRepo
from triptych.records import DerivedChunk, Hit, SourceDocument

__all__ = ["Source", "Sources"]

_LINE_END: Final = re.compile(r"\r\n?|\n")


@attrs.frozen(eq=False)
class Source:
    """A document, and where its lines end."""

    document: SourceDocument
    _line_ends: Sequence[int]

    def lines(self, start: int, end: int) -> tuple[int, int]:
        """The first and the last line of a span, from 1."""
        text = self.document.content[start:end].rstrip()
        first = bisect.bisect_right(self._line_ends, start)
        last = bisect.bisect_right(self._line_ends, start + len(text))
        return first + 1, last + 1


@attrs.define
class Sources:
    """Documents and their chunks, each read once."""

    _documents: DocumentRepo
    _chunks: ChunkRepo
    _read: dict[Place, Source | None] = attrs.field(factory=dict, init=False)
    _sets: dict[Place, Sequence[DerivedChunk]] = attrs.field(factory=dict, init=False)

    def of(self, hit: Hit) -> Source | None:
        """The document that ``hit`` is of, if its text stands there now as the hit has it."""
        place = hit.dataset_id, hit.doc_name
        if place not in self._read:
            document = self._documents.get(*place)
            self._read[place] = None if document is None else _source(document)
        source = self._read[place]
        if source is None or source.document.content[hit.start : hit.end] != hit.content:
            return None
        return source

    def meant(self, find: ScoredPassage) -> Hit | None:
        """The hit that a find means: its own, or the chunk beside it, if there is one."""
        hit = find.hit
        if find.index == hit.chunk_index:
            return hit
        place = find.place
        if place not in self._sets:
            self._sets[place] = tuple(self._chunks.iter_chunks(*place))
        chunks, at = self._sets[place], hit.chunk_index
        # A set that was replaced meanwhile says nothing about this hit.
        if find.index >= len(chunks) or (chunks[at].start, chunks[at].end) != (hit.start, hit.end):
            return None
        chunk = chunks[find.index]
        return attrs.evolve(
            hit,
            chunk_index=chunk.index,
            occurrence=chunk.occurrence,
            content=chunk.content,
            start=chunk.start,
            end=chunk.end,
            offset=chunk.offset,
            start_line=chunk.start_line,
            heading_path=chunk.heading_path,
            locator=chunk.locator,
            window_start=chunk.window_start,
            window_end=chunk.window_end,
            window=None,
            sig=chunk.sig,
        )


def _source(document: SourceDocument) -> Source:
    return Source(document, [found.end() for found in _LINE_END.finditer(document.content)])
