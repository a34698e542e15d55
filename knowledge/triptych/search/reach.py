"""Deciding how many candidates a search reads, and whether it needs more."""

from __future__ import annotations

from triptych.records import ResolvedQuery
from triptych.search.hydration import Hydrated
from triptych.search.postprocessing import at_most
from triptych.search.query import MAX_TOP_K

_DEEPER = 4  # where hits of one document are many, the lanes reach so many times deeper
_SPARE = 3  # the last attempt reads this many times as deep, to fill up what is missing


def further(
    query: ResolvedQuery,
    depth: int,
    spare: int,
    candidates: int,
    hydrated: Hydrated,
    *,
    exhausted: bool,
) -> tuple[int, int] | None:
    """The depth and spare that may find the hits that are missing; None where none are, or no
    other is.

    Lanes reached to ``depth``, and ``spare`` times as many hits were read. ``candidates`` is how
    many were found, and ``exhausted`` whether lanes have no others.
    """
    found = hydrated.hits
    if query.per_document is not None:
        found = at_most(found, query.per_document)
    if len(found) >= min(query.top_k, candidates):
        return None
    if len(found) < len(hydrated.hits):
        # Others of the documents are further down.
        more = not exhausted or candidates > depth * spare
        if more and depth < MAX_TOP_K:
            return min(_DEEPER * depth, MAX_TOP_K), spare
    elif not hydrated.complete and spare == 1:
        return depth, _SPARE
    return None
