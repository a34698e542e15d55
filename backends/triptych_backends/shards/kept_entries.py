"""Vectors of the spaces that a dataset keeps beside the one that serves, name by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from triptych.records import Vector
from triptych_backends.postgres import PostgresStore
from triptych_backends.sql.vectors import decode_vector

__all__ = ["KeptEntries", "drop_other_spaces", "read_kept_entries", "take_over_kept_entries"]

KeptEntries: TypeAlias = Mapping[str, Mapping[str, Vector | None]]
"""By the signature of the space, and by the digest of the text."""

_READ: Final = """
SELECT p.embed_sig, v.digest, p.dimension, v.data
FROM dataset s JOIN space p ON p.dataset_id = s.id AND p.kept
JOIN vector_use u ON u.space_id = p.id JOIN vector v ON v.id = u.vector_id
LEFT JOIN document d ON d.id = u.owner LEFT JOIN layer l ON l.id = u.owner
WHERE s.name = %s AND coalesce(d.name, l.doc_name) = %s
"""


def read_kept_entries(store: PostgresStore, dataset_id: str, name: str) -> KeptEntries:
    """The entries of what is under ``name``; None where the embedder makes no vector of a text."""
    with store.database.reading() as session:
        rows = session.text(_READ, (dataset_id, name))
    found: dict[str, dict[str, Vector | None]] = {}
    for embed_sig, digest, dimension, data in rows:
        vector = decode_vector(data, dimension, store.database.where) if len(data) else None
        found.setdefault(embed_sig, {})[digest] = vector
    return found


def take_over_kept_entries(
    source: PostgresStore, destination: PostgresStore, dataset_id: str, names: Sequence[str]
) -> set[str]:
    """Let the destination have the source's entries of ``names``; those of which it lacked any.

    What they belong to is there already.
    """
    lacked = set()
    for name in names:
        wanted = read_kept_entries(source, dataset_id, name)
        there = read_kept_entries(destination, dataset_id, name) if wanted else {}
        lacking = [sig for sig in wanted if wanted[sig].keys() - there.get(sig, {}).keys()]
        for embed_sig in lacking:
            destination.chunks.keep_vectors(dataset_id, embed_sig, [name], wanted[embed_sig])
        if lacking:
            lacked.add(name)
    return lacked


def drop_other_spaces(source: PostgresStore, destination: PostgresStore, dataset_id: str) -> None:
    """Drop what the destination keeps of spaces that the source does not keep."""
    kept = {space.embed_sig for space in source.chunks.kept_spaces(dataset_id)}
    for space in destination.chunks.kept_spaces(dataset_id):
        if space.embed_sig not in kept:
            destination.chunks.drop_space(dataset_id, space.embed_sig)
