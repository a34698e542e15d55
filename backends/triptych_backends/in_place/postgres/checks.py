"""What makes searches of a table slow."""

from __future__ import annotations

from collections.abc import Iterator

from triptych.records import Finding
from triptych_backends.in_place.postgres.catalog import Table
from triptych_backends.in_place.source import MANY

__all__ = ["findings"]


def findings(table: Table) -> Iterator[Finding]:
    """The findings about a table; the rows are not read."""
    place = f"table {table.spec.table}"
    if not table.is_table:
        return  # what a view is made of is not to be seen
    if not table.unique:
        yield Finding(
            check="tables.unique",
            place=place,
            detail=f"no unique index on {table.id.name!r}, which is its id",
            why="rows of one id are shown as one, and each hit is read by a scan",
            remedy="name the primary key as id, or have a unique index made",
            dataset_id=table.spec.name,
        )
    if table.rows < MANY:
        return
    for pair in table.pairs:
        if pair.vector is not None and not pair.vector_index:
            yield Finding(
                check="tables.vector-index",
                place=place,
                detail=f"no HNSW or IVFFlat index on {pair.vector.name!r}",
                why="each search compares the query with every vector",
                remedy=(
                    "have an index made, such as CREATE INDEX ON … USING hnsw (… "
                    f"{'halfvec' if pair.vector.kind == 'halfvec' else 'vector'}_cosine_ops)"
                ),
                dataset_id=table.spec.name,
            )
        if not pair.search.indexed:
            yield Finding(
                check="tables.text-search",
                place=place,
                detail=f"no GIN index for the text search of {pair.text.name!r}",
                why=(
                    "each keyword search reads every text"
                    if pair.vector is None
                    else "keywords are looked for among the nearest vectors only"
                ),
                remedy=(
                    "have an index made, such as CREATE INDEX ON … USING gin "
                    f"(to_tsvector('{pair.search.config}', …))"
                ),
                dataset_id=table.spec.name,
            )
