"""Lists of postings: which units hold a term, how often, and how long each unit is.

A list is one or several rows of `search_posting`, in any order. Each row's block has 16 bytes for
each posting. What is removed is added once more with a negative count, so that its weight comes to
nothing. Each write adds one row for each term: `fold` joins short rows and drops what came to
nothing, or a term of a thousand writes would be read from a thousand places.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from triptych_backends.postgres.session import PostgresSession

POSTING = np.dtype([("key", "<i8"), ("count", "<i4"), ("length", "<i4")])
"""A unit's key, how often it has the term (less than 0: removed), and its length in terms."""

LONGEST_BLOCK = 8_192
"""Postings of one row."""

_NO_LENGTH = 2**31 - 1
_ROW = np.dtype(
    [("fields", ">i2")]
    + [(f"{kind}_{name}", ">i4")
       for name in ("term", "units", "peak", "shortest") for kind in ("size", "value")]
    + [("size_block", ">i4")]
)  # fmt: skip
_BEGIN = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END = b"\xff\xff"
_COPY = "COPY search_posting (term, units, peak, shortest, block) FROM STDIN (FORMAT BINARY)"


class Postings(NamedTuple):
    """Postings, and the id of the term of each."""

    terms: NDArray[np.int32]
    records: NDArray[np.void]


def decode(terms: Sequence[int], blocks: Sequence[bytes]) -> Postings:
    """The postings of rows, in their order."""
    sizes = [len(block) // POSTING.itemsize for block in blocks]
    records = np.frombuffer(b"".join(blocks), POSTING)
    return Postings(np.repeat(np.array(terms, np.int32), sizes), records)


def net(postings: Postings) -> Postings:
    """What is left of ``postings``, by term; of one that was removed nothing is."""
    keys = postings.records["key"]
    order = np.lexsort((keys, postings.terms))
    terms, records = postings.terms[order], postings.records[order]
    keys = records["key"]
    starts = np.flatnonzero(_is_first(terms) | _is_first(keys))
    counts = np.add.reduceat(records["count"], starts) if len(starts) else np.zeros(0, np.int32)
    kept = counts != 0
    records = records[starts[kept]]
    records["count"] = counts[kept]
    return Postings(terms[starts[kept]], records)


def write(session: PostgresSession, postings: Postings) -> None:
    """Add rows for ``postings``."""
    if not len(postings.terms):
        return
    with session.driver.cursor() as cursor, cursor.copy(_COPY) as copy:
        copy.write(_BEGIN)
        for part in _rows(postings):
            copy.write(part)
        copy.write(_END)


def _rows(postings: Postings) -> Iterator[bytes]:
    """The rows as COPY takes them in its binary format: for each the numbers, then the block."""
    order = np.argsort(postings.terms, kind="stable")
    terms, records = postings.terms[order], postings.records[order]
    is_first = _is_first(terms)
    firsts = np.flatnonzero(is_first)
    place = np.arange(len(terms)) - firsts[np.cumsum(is_first) - 1]
    starts = np.flatnonzero(place % LONGEST_BLOCK == 0)
    sizes = np.diff(starts, append=len(terms))
    rows = np.zeros(len(starts), _ROW)
    rows["fields"] = 5
    for name in ("term", "units", "peak", "shortest"):
        rows[f"size_{name}"] = 4
    rows["value_term"] = terms[starts]
    rows["value_units"] = np.add.reduceat(np.sign(records["count"]), starts)
    rows["value_peak"] = np.maximum(np.maximum.reduceat(records["count"], starts), 0)
    lengths = np.where(records["count"] > 0, records["length"], _NO_LENGTH)
    rows["value_shortest"] = np.minimum.reduceat(lengths, starts)
    rows["size_block"] = sizes * POSTING.itemsize
    out = np.empty(rows.nbytes + records.nbytes, np.uint8)
    heads = np.arange(len(starts)) * _ROW.itemsize + starts * POSTING.itemsize
    bodies = (np.repeat(np.arange(1, len(starts) + 1), sizes) * _ROW.itemsize) + (
        np.arange(len(terms)) * POSTING.itemsize
    )
    out[heads[:, None] + np.arange(_ROW.itemsize)] = _bytes_of(rows)
    out[bodies[:, None] + np.arange(POSTING.itemsize)] = _bytes_of(records)
    yield out.tobytes()


def _bytes_of(rows: NDArray[np.void]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), rows.itemsize)


def _is_first(values: NDArray[np.int32] | NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where a run of equal values begins."""
    found = np.ones(len(values), np.bool_)
    found[1:] = values[1:] != values[:-1]
    return found


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
