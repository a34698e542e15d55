"""The documents that passages are cut from, read when they are needed."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from triptych.context.gathering import Place
from triptych.contracts import ChunkRepo, DocumentRepo
from triptych.records import DerivedChunk, Hit, SourceDocument

__all__ = ["Sources"]


@attrs.define
class Sources:
    """Documents and their chunks, each read once."""

    _documents: DocumentRepo
    _chunks: ChunkRepo
    _read: dict[Place, SourceDocument | None] = attrs.field(factory=dict, init=False)
    _sets: dict[Place, Sequence[DerivedChunk]] = attrs.field(factory=dict, init=False)

    def of(self, hit: Hit) -> SourceDocument | None:
        """The document that ``hit`` is of, if its text stands there now as the hit has it."""
        place = hit.dataset_id, hit.doc_name
        if place not in self._read:
            self._read[place] = self._documents.get(*place)
        document = self._read[place]
        if document is None or document.content[hit.start : hit.end] != hit.content:
            return None
        return document

    def beside(self, hit: Hit) -> Sequence[DerivedChunk]:
        """The chunks before and behind ``hit`` in its section: it breaks off between them."""
        place = hit.dataset_id, hit.doc_name
        if place not in self._sets:
            self._sets[place] = tuple(self._chunks.iter_chunks(*place))
        chunks, at = self._sets[place], hit.chunk_index
        # A set that was replaced meanwhile says nothing about this hit.
        if not 0 <= at < len(chunks) or (chunks[at].start, chunks[at].end) != (hit.start, hit.end):
            return ()
        return [
            chunks[near]
            for near in (at - 1, at + 1)
            if 0 <= near < len(chunks) and chunks[near].heading_path == hit.heading_path
        ]
