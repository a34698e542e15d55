"""Deciding how many candidates a search reads, and whether it needs more."""

from __future__ import annotations

import attrs

from triptych.records import ResolvedQuery
from triptych.search.hydration import Hydrated
from triptych.search.postprocessing import at_most
from triptych.search.query import MAX_TOP_K

_DEEPER = 4  # where hits of one document are many, the lanes reach so many times deeper
SPARE = 3  # the last attempt reads this many times as deep, to fill up what is missing


@attrs.frozen(kw_only=True)
class Reach:
    """How far a search goes: lanes to ``depth``, and ``spare`` times as many hits are read."""

    depth: int
    spare: int = 1

    @property
    def hits(self) -> int:
        """How many hits are read."""
        return self.depth * self.spare

    def further(
        self, query: ResolvedQuery, candidates: int, hydrated: Hydrated, *, exhausted: bool
    ) -> Reach | None:
        """The reach that may find the hits that are missing; None where none are, or no other is.

        ``candidates`` is how many were found, and ``exhausted`` whether lanes have no others.
        """
        found = at_most(hydrated.hits, query.per_document)
        if len(found) >= min(query.top_k, candidates):
            return None
        if len(found) < len(hydrated.hits):
            # Others of the documents are further down.
            more = not exhausted or candidates > self.hits
            if more and self.depth < MAX_TOP_K:
                return attrs.evolve(self, depth=min(_DEEPER * self.depth, MAX_TOP_K))
        elif not hydrated.complete and self.spare == 1:
            return attrs.evolve(self, spare=SPARE)
        return None
