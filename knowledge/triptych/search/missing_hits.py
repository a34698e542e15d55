"""Why a search may have found less than there is."""

from __future__ import annotations

from collections.abc import Iterator

from triptych.contracts import Store
from triptych.search.request import Found, SearchRequest


def missing_hits(store: Store, request: SearchRequest, found: Found) -> tuple[str, ...]:
    """The warnings of a search with few hits or none."""
    return (*_fields(request, found), *_not_indexed(store, request))


def _fields(request: SearchRequest, found: Found) -> Iterator[str]:
    """What the query was read as asking for, where nothing has it."""
    if request.fields and not found.hits:
        read = " and ".join(
            f"{key} = {' or '.join(map(repr, each))}" for key, each in request.fields.items()
        )
        yield (
            f"the query was read as asking for documents with {read}: put it into quotes to look "
            "for the words themselves"
        )


def _not_indexed(store: Store, request: SearchRequest) -> Iterator[str]:
    """The warning that documents have no chunks yet, as a process leaves them that was killed.

    Counting reads an index of the whole dataset, so it is done where hits may be missing.
    """
    if request.target == "layer":
        return
    datasets = request.query.dataset_ids
    # Documents first: of those that are derived in between none is counted.
    documents = sum(store.documents.count(each) for each in datasets)
    missing = documents - store.chunks.count_sets(datasets)
    if missing > 0:
        are, them = ("document is", "it") if missing == 1 else ("documents are", "them")
        yield (
            f"{missing} {are} not indexed yet, and no search finds {them}: `triptych rebuild` or "
            f"the next sync derives {them}"
        )
