"""What a dataset holds under each of its names, in a digest that the server makes.

Two servers have the same digest of a name where they hold the same under it: documents with their
versions, the signature of the chunk set and how far its vectors are, layers, and what is noted of
making them. A digest may differ although nothing else does, as where metadata is written otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from triptych_backends.postgres.session import PostgresSession

__all__ = ["read_dataset_marks"]

_DOCUMENT: Final = """
SELECT d.name, 'document' AS kind, jsonb_build_array(d.version, d.updated_at, d.content_sha256,
    d.original_sha256, d.input_sig, d.system, d.metadata)::text AS part
FROM document d WHERE d.dataset_id = %(dataset)s
"""
_VERSION: Final = """
SELECT d.name, 'version', jsonb_build_array(v.version, v.updated_at, v.content_sha256,
    v.original_sha256, v.input_sig, v.system, v.metadata)::text
FROM document_version v JOIN document d ON d.id = v.document_id WHERE d.dataset_id = %(dataset)s
"""
_SET: Final = """
SELECT d.name, 'set', jsonb_build_array(s.source_version, s.chunker_sig, s.prompt_sig, s.embed_sig,
    s.input_sig, s.chunks, s.vectors)::text
FROM derivation s JOIN document d ON d.id = s.document_id WHERE d.dataset_id = %(dataset)s
"""
# Which chunks of a set that waits have a vector already, and of which space.
_WAITING: Final = """
SELECT d.name, 'waiting', jsonb_build_array(c.position, p.embed_sig)::text
FROM derivation s JOIN document d ON d.id = s.document_id
JOIN chunk c ON c.document_id = d.id JOIN vector v ON v.id = c.vector_id
JOIN space p ON p.id = v.space_id WHERE d.dataset_id = %(dataset)s AND s.embed_sig = ''
"""
_SPARSE: Final = """
SELECT d.name, 'sparse', jsonb_build_array(p.sparse_sig, v.digest)::text
FROM sparse_use u JOIN document d ON d.id = u.document_id
JOIN sparse_vector v ON v.id = u.vector_id JOIN sparse_space p ON p.id = v.space_id
WHERE d.dataset_id = %(dataset)s
"""
_LAYER: Final = """
SELECT l.doc_name, 'layer', jsonb_build_array(l.layer, l.source_version, l.chunker_sig,
    l.prompt_sig, l.embed_sig, l.input_sig, p.embed_sig, encode(sha256(l.content), 'hex'))::text
FROM layer l LEFT JOIN vector v ON v.id = l.vector_id LEFT JOIN space p ON p.id = v.space_id
WHERE l.dataset_id = %(dataset)s
"""
_NOTE: Final = """
SELECT doc_name, 'note', jsonb_build_array(digest, encode(sha256(content), 'hex'))::text
FROM layer_note WHERE dataset_id = %(dataset)s
"""
_PARKED: Final = """
SELECT doc_name, 'parked', jsonb_build_array(layer, input_sig, prompt_sig, reason, parked_at,
    encode(sha256(message), 'hex'))::text
FROM layer_parked WHERE dataset_id = %(dataset)s
"""
_PARTS = (_DOCUMENT, _VERSION, _SET, _WAITING, _SPARSE, _LAYER, _NOTE, _PARKED)
_LINES = "string_agg(kind || ' ' || part, E'\\n' ORDER BY kind COLLATE \"C\", part COLLATE \"C\")"
_MARKS: Final = (
    f"SELECT name, encode(sha256(convert_to({_LINES}, 'UTF8')), 'hex') "
    f"FROM ({' UNION ALL '.join(_PARTS)}) AS parts GROUP BY name"
)


def read_dataset_marks(session: PostgresSession, dataset: int) -> Mapping[str, str]:
    """The digest of each name under which the dataset with this row id holds anything."""
    return dict(session.text(_MARKS, {"dataset": dataset}))
