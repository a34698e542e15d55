"""Lists of postings: which units hold a term, how often, and how long each unit is.

A list is one or several rows of `search_posting`, in any order. Each row's block has 16 bytes for
each posting. What is removed is added once more with a negative count, so that its weight comes to
nothing. A write adds one row for each term that many of its units hold. Of its other terms, some
hundreds share a row of `search_recent`, chosen by their ids: 35 rows for a chunk would take most of
the time of an ingest. `fold` gives each term rows of its own, joins short ones and drops what came
to nothing, or a term of a thousand writes would be read from a thousand places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from triptych_postgres.session import PostgresSession, lock_writers

POSTING = np.dtype([("key", "<i8"), ("count", "<i4"), ("length", "<i4")])
"""A unit's key, how often it has the term (less than 0: removed), and its length in terms."""

LONGEST_BLOCK = 8_192
"""Postings of one row."""

FREQUENT = 16
"""Units of a write that hold a term, from which on the term has a row of its own."""

_FEW, _BUCKETS, _MANY_BUCKETS = 4_096, 16, 512
_SHARED = np.dtype([("term", "<i4"), *((name, POSTING[name]) for name in POSTING.names or ())])
_NO_LENGTH = 2**31 - 1
_BEGIN = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END = b"\xff\xff"
_WIDE = {"dataset_id": ">i8", "field": ">i2"}
"""Columns of numbers that are no integer."""


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


def decode_shared(blocks: Sequence[bytes]) -> Postings:
    """The postings of rows of `search_recent`, in their order."""
    found = np.frombuffer(b"".join(blocks), _SHARED)
    records = np.empty(len(found), POSTING)
    for name in POSTING.names or ():
        records[name] = found[name]
    return Postings(found["term"], records)


def buckets(column: str) -> str:
    """The buckets of `search_recent` that may hold the term whose id is in ``column``."""
    return ", ".join(f"{count} + mod({column}, {count})" for count in (_BUCKETS, _MANY_BUCKETS))


def add(session: PostgresSession, dataset: int, field: int, postings: Postings) -> None:
    """Add rows for what one write adds to a dataset's units of one kind, or removes from them."""
    is_rare = _times(postings.terms) < FREQUENT
    write(session, Postings(postings.terms[~is_rare], postings.records[~is_rare]))
    terms, records = postings.terms[is_rare], postings.records[is_rare]
    count = _BUCKETS if len(terms) <= _FEW else _MANY_BUCKETS
    bucket = (count + terms % count).astype(np.uint16)  # these are sorted fastest
    order = np.argsort(bucket, kind="stable")
    bucket = bucket[order]
    shared = np.empty(len(order), _SHARED)
    shared["term"] = terms[order]
    for name in POSTING.names or ():
        shared[name] = records[name][order]
    starts = np.flatnonzero(_is_first(bucket))
    values = {"dataset_id": dataset, "field": field, "bucket": bucket[starts]}
    _copy(session, "search_recent", values, starts, shared)


def write(session: PostgresSession, postings: Postings) -> None:
    """Add rows of their own for the terms of ``postings``."""
    order = np.argsort(postings.terms, kind="stable")
    terms, records = postings.terms[order], postings.records[order]
    is_first = _is_first(terms)
    place = np.arange(len(terms)) - np.flatnonzero(is_first)[np.cumsum(is_first) - 1]
    starts = np.flatnonzero(place % LONGEST_BLOCK == 0)
    if not len(starts):
        return
    counts = records["count"]
    lengths = np.where(counts > 0, records["length"], _NO_LENGTH)
    values = {
        "term": terms[starts],
        "units": np.add.reduceat(np.sign(counts), starts),
        "peak": np.maximum(np.maximum.reduceat(counts, starts), 0),
        "shortest": np.minimum.reduceat(lengths, starts),
    }
    _copy(session, "search_posting", values, starts, records)


def _copy(
    session: PostgresSession,
    table: str,
    values: Mapping[str, Any],
    starts: NDArray[np.int64],
    records: NDArray[np.void],
) -> None:
    """Put rows into a table: the columns of numbers, then the records from a start to the next."""
    if not len(starts):
        return
    types = [(name, _WIDE.get(name, ">i4")) for name in values]
    cells = [cell for name, kind in types for cell in ((f"{name} size", ">i4"), (name, kind))]
    heads = np.zeros(len(starts), np.dtype([("fields", ">i2"), *cells, ("block size", ">i4")]))
    heads["fields"] = len(values) + 1
    for name, value in values.items():
        heads[name], heads[f"{name} size"] = value, heads[name].itemsize
    ends = np.append(starts[1:], len(records))
    heads["block size"] = (ends - starts) * records.itemsize
    head, body, size = heads.tobytes(), records.tobytes(), heads.itemsize
    parts = [_BEGIN]
    edges = zip(
        (starts * records.itemsize).tolist(), (ends * records.itemsize).tolist(), strict=True
    )
    for at, (start, end) in enumerate(edges):
        parts += (head[at * size : (at + 1) * size], body[start:end])
    sql = f"COPY {table} ({', '.join(values)}, block) FROM STDIN (FORMAT BINARY)"
    with session.driver.cursor() as cursor, cursor.copy(sql) as copy:
        copy.write(b"".join([*parts, _END]))


def _times(terms: NDArray[np.int32]) -> NDArray[np.int64]:
    """How often the term at each place is among ``terms``."""
    if terms.max(initial=0) < 64 * len(terms):
        return np.bincount(terms)[terms]  # without sorting them
    _, places, counts = np.unique(terms, return_inverse=True, return_counts=True)
    return counts[places]


def _is_first(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a run of equal values begins."""
    found = np.ones(len(values), np.bool_)
    found[1:] = values[1:] != values[:-1]
    return found


_SCATTERED = 256
_SHORT = 128
_MUCH_SHARED = 1 << 17  # bytes
_ROWS = 8
_REMOVED = 0.2
_AT_ONCE = 1 << 24  # bytes of postings
_MOST_TERMS = 20_000

_SHARING = (
    "SELECT dataset_id, field, bucket, sum(octet_length(block))::bigint FROM search_recent "
    "GROUP BY 1, 2, 3 HAVING count(*) >= %s ORDER BY 1, 2, 3"
)
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


def is_scattered(rows: int, units: int, shared: int) -> bool:
    """Whether a term of ``units`` units would be read faster from fewer places than so many rows,
    and so many bytes that it shares with others."""
    return (rows >= _SCATTERED and rows * _SHORT > units) or shared >= _MUCH_SHARED


def unshare(session: PostgresSession, *, least: int = 1) -> None:
    """Give the terms in buckets of ``least`` rows or more rows of their own."""
    rows = session.text(_SHARING, (least,))
    for places in _batches([(at, row[3]) for at, row in enumerate(rows)]):
        with session.driver.transaction():
            lock_writers(session)
            gone = session.text(
                "DELETE FROM search_recent USING unnest(%s::bigint[], %s::smallint[], %s::int[]) "
                "AS k (d, f, b) WHERE dataset_id = d AND field = f AND bucket = b RETURNING block",
                [[*column] for column in zip(*(rows[at][:3] for at in places), strict=True)],
            )
            write(session, net(decode_shared([row[0] for row in gone])))


def fold(session: PostgresSession, *, removed: bool = False) -> int:
    """Write the postings of terms that are in many rows, or half removed, in few; how many terms.

    With ``removed`` these are the terms that anything was removed from. One process does so at a
    time. Writers wait for one batch of terms at most.
    """
    unshare(session, least=1 if removed else _ROWS)
    rows = session.text(_REMOVED_FROM if removed else _WORN)
    for terms in _batches(rows):
        with session.driver.transaction():
            lock_writers(session)
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
