"""Joining the rows of postings that many writes have left, and dropping what was removed.

Each write adds one row for each term. Without this a term of a thousand writes would be read from a
thousand places.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triptych_backends.postgres.postings import (
    LONGEST_BLOCK,
    POSTING,
    decode,
    net,
    write,
)
from triptych_backends.postgres.session import PostgresSession

_SCATTERED = 256
_SHORT = 128
_ROWS = 8
_REMOVED = 0.2
_AT_ONCE = 1 << 24  # bytes of postings
_MOST_TERMS = 20_000

_WORN = (
    "SELECT term, sum(octet_length(block))::bigint FROM search_posting GROUP BY term HAVING "
    f"count(*) FILTER (WHERE octet_length(block) <= {LONGEST_BLOCK * POSTING.itemsize // 2}) "
    f">= {_ROWS} OR sum(octet_length(block)) / {POSTING.itemsize} - sum(units) > "
    f"2 * {_REMOVED} * sum(octet_length(block)) / {POSTING.itemsize} ORDER BY term"
)

_REMOVED_FROM = (
    "SELECT term, sum(octet_length(block))::bigint FROM search_posting GROUP BY term HAVING "
    f"sum(octet_length(block)) > sum(units) * {POSTING.itemsize} ORDER BY term"
)


def is_scattered(rows: int, units: int) -> bool:
    """Whether a term of ``units`` units, in so many rows, would be read faster from fewer."""
    return rows >= _SCATTERED and rows * _SHORT > units


def fold(session: PostgresSession, *, removed: bool = False) -> int:
    """Write the postings of terms that are in many rows, or half removed, in few; how many terms.

    With ``removed`` these are the terms that anything was removed from. One process does so at a
    time. Writers wait for one batch of terms at most.
    """
    rows = session.text(_REMOVED_FROM if removed else _WORN)
    for terms in _batches(rows):
        with session.driver.transaction():
            session.text("SELECT tick FROM clock FOR UPDATE")  # as writers do
            gone = session.text(
                "DELETE FROM search_posting WHERE term = ANY(%s::int[]) RETURNING term, block",
                (terms,),
            )
            found = decode([row[0] for row in gone], [row[1] for row in gone])
            write(session, net(found))
    return len(rows)


def _batches(rows: Sequence[tuple[int, int]]) -> Iterator[list[int]]:
    """Terms in groups whose postings take so much memory."""
    batch: list[int] = []
    held = 0
    for term, size in rows:
        if batch and (held + size > _AT_ONCE or len(batch) >= _MOST_TERMS):
            yield batch
            batch, held = [], 0
        batch.append(term)
        held += size
    if batch:
        yield batch
