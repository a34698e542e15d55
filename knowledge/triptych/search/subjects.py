"""What a filter judges of a chunk, and whether it looks at headings."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from triptych.records import DerivedChunk, DocumentInfo, FilterTree, Query, Subject, parse_filter
from triptych.records.filters import HEADING, conditions_of
from triptych.search.syntax import merge_where, parse_query


def looks_at_headings(tree: FilterTree | None) -> bool:
    """Whether one chunk of a document may pass ``tree`` and another not."""
    return any(condition.field == HEADING for condition in conditions_of(tree))


def asks_for_headings(query: Query) -> bool:
    """`looks_at_headings` of what ``query`` asks for, its text included."""
    where = query.where
    if query.syntax is True and (fields := parse_query(query).where):
        where = merge_where(where, {key: tuple(values) for key, values in fields.items()})
    return looks_at_headings(parse_filter(where))


def subject_of(name: str, info: DocumentInfo | None, chunks: Sequence[DerivedChunk]) -> Subject:
    """What a filter judges of ``chunks`` of a document; ``info`` None: of a layer above it."""
    if info is None:
        return Subject(name=name)
    headings = itertools.chain.from_iterable(chunk.heading_path for chunk in chunks)
    return Subject(
        name=name,
        metadata=info.metadata,
        version=info.version,
        updated_at=info.updated_at,
        expires_at=info.system.expires_at,
        headings={heading.casefold() for heading in headings},
    )
