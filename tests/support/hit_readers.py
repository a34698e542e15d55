"""The reader that a search gives to its steps, for steps that are called by themselves."""

from __future__ import annotations

from collections.abc import Sequence

from triptych import Hit
from triptych.contracts import HitReader
from triptych.records import ResolvedQuery


class ReaderKeeper:
    """A step that keeps the reader of each search."""

    def __init__(self) -> None:
        self.readers: list[HitReader] = []

    def depth(self, query: ResolvedQuery) -> int:
        return query.top_k

    def __call__(
        self, query: ResolvedQuery, hits: Sequence[Hit], reader: HitReader
    ) -> Sequence[Hit]:
        self.readers.append(reader)
        return hits
