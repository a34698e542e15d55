"""The invariants between the rows of a store, as statements that find violations.

A new table needs nothing here where its foreign keys say all: a row whose owner is gone is found
and removed. `_KEPT` has what a removed owner leaves.
"""

from __future__ import annotations

import attrs
from sqlalchemy import Table

from triptych.diagnostics import Check
from triptych_backends.sql import schema as t

_REMOVED = "the rows are removed"
_SETS = "the chunk sets are dropped and derived again from their documents"
_LOGGED = "the change log is written again, and the index is built from it"


@attrs.frozen
class Invariant:
    """``rows`` selects (dataset, label) of each row that breaks it; ``repair`` are statements that
    leave none. Neither takes parameters."""

    check: Check
    rows: str
    repair: tuple[str, ...] = ()


def _labelled(table: Table, alias: str = "x") -> str:
    keys = " || '/' || ".join(
        f"coalesce(CASE typeof({alias}.{c.name}) WHEN 'blob' THEN hex({alias}.{c.name}) "
        f"ELSE {alias}.{c.name} END, '')"
        for c in table.primary_key.columns
    )
    return f"'{table.name} ' || {keys}"


DROP_SETS_OF = (
    "DELETE FROM waiting WHERE document_id IN ({ids})",
    "DELETE FROM vector_use WHERE owner IN ({ids})",
    "DELETE FROM chunk WHERE document_id IN ({ids})",
    "DELETE FROM derivation WHERE document_id IN ({ids})",
)


def _dropping(ids: str) -> tuple[str, ...]:
    """Statements that drop the chunk sets of the documents that ``ids`` selects."""
    return (
        "CREATE TEMP TABLE IF NOT EXISTS doctor_sets (id INTEGER PRIMARY KEY)",
        "DELETE FROM temp.doctor_sets",
        f"INSERT OR IGNORE INTO temp.doctor_sets {ids}",
        *(line.format(ids="SELECT id FROM temp.doctor_sets") for line in DROP_SETS_OF),
    )


# A set that waits for vectors may have some of several spaces: the dataset's are searched.
_OTHER_SPACE = (
    "p.kind <> 'dense' OR (v.embed_sig <> '' AND p.sig <> v.embed_sig) "
    "OR p.dataset_id <> d.dataset_id"
)

_KEPT = {
    # A source document is never removed: a dataset is made for it.
    ("document", "dataset_id"): (
        "INSERT INTO dataset (id, name, live, deleted_version) "
        "SELECT DISTINCT d.dataset_id, 'recovered ' || d.dataset_id, 1, 0 FROM document d "
        "WHERE d.dataset_id NOT IN (SELECT id FROM dataset)",
    ),
    ("chunk", "vector_id"): _dropping(
        "SELECT document_id FROM chunk WHERE vector_id IS NOT NULL "
        "AND vector_id NOT IN (SELECT id FROM vector)"
    ),
    ("layer", "vector_id"): (
        "UPDATE layer SET vector_id = NULL, embed_sig = '' WHERE vector_id IS NOT NULL "
        "AND vector_id NOT IN (SELECT id FROM vector)",
    ),
}
"""What is done, by table and column, where the row is not simply removed."""


_DERIVED = {("chunk", "vector_id"), ("vector", "space_id"), ("space", "dataset_id")}
"""What chunk sets go with when it is removed."""

_LEFT = {
    ("document_version", "document_id"): "restore the store from a backup: these old versions are "
    "all that is left of their documents. To give them up, delete the rows by SQL"
}
"""What is the last of a source is left, and what a person can do about it."""

_REPAIRS = {
    ("document", "dataset_id"): "a dataset is made for them",
    ("chunk", "vector_id"): _SETS,
    ("vector", "space_id"): "they are removed; the chunk sets that used them are derived again",
    ("space", "dataset_id"): "they are removed with their vectors, which are made again",
    ("layer", "vector_id"): "the layers are embedded again",
}


def broken_references() -> tuple[Invariant, ...]:
    """One invariant a foreign key of the schema: what it names is there."""
    found = []
    for table in t.METADATA.sorted_tables:
        for column in table.columns:
            for key in column.foreign_keys:
                parent, name = key.column.table.name, key.column.name
                broken = (
                    f"x.{column.name} IS NOT NULL AND NOT EXISTS "
                    f"(SELECT 1 FROM {parent} p WHERE p.{name} = x.{column.name})"
                )
                place = (table.name, column.name)
                left = _LEFT.get(place, "")
                removing = (f"DELETE FROM {table.name} AS x WHERE {broken}",)
                found.append(
                    Invariant(
                        Check(
                            f"orphans.{table.name}.{column.name}",
                            f"rows name a {parent} that does not exist ({column.name})",
                            "deleted data takes space and may be found, or reading fails",
                            repair="" if left else _REPAIRS.get(place, _REMOVED),
                            remedy=left,
                            derives=place in _DERIVED,
                        ),
                        f"SELECT '' AS dataset, {_labelled(table)} AS label FROM {table.name} x "
                        f"WHERE {broken}",
                        () if left else _KEPT.get(place, removing),
                    )
                )
    return tuple(found)


_NAMED = "JOIN dataset s ON s.id = d.dataset_id"

# A set waits that has a text without a vector of its dataset's encoder.
_LACKS_SPARSE = (
    "coalesce(s.sparse_sig, '') <> '' AND EXISTS (SELECT 1 FROM chunk c "
    "WHERE c.document_id = v.document_id AND c.input_sig <> '' AND NOT EXISTS ("
    "SELECT 1 FROM space p JOIN vector_use u ON u.space_id = p.id JOIN vector w "
    "ON w.id = u.vector_id WHERE u.owner = v.document_id AND w.digest = c.input_sig "
    "AND p.dataset_id = s.id AND p.kind = 'sparse' AND p.sig = s.sparse_sig))"
)
_SETS_IN = (
    "derivation v JOIN document d ON d.id = v.document_id JOIN dataset s ON s.id = d.dataset_id"
)
# A chunk that came without a digest has its vector under that of its content.
_STRANGE_ENTRY = (
    "FROM vector_use u JOIN vector w ON w.id = u.vector_id WHERE w.space_id <> u.space_id OR "
    "(NOT EXISTS (SELECT 1 FROM layer l WHERE l.id = u.owner) AND NOT EXISTS (SELECT 1 FROM "
    "chunk c WHERE c.document_id = u.owner AND c.input_sig IN (w.digest, '')))"
)
_UNUSED_VECTOR = (
    "NOT EXISTS (SELECT 1 FROM chunk c WHERE c.vector_id = w.id) "
    "AND NOT EXISTS (SELECT 1 FROM layer l WHERE l.vector_id = w.id) "
    "AND NOT EXISTS (SELECT 1 FROM vector_use u WHERE u.vector_id = w.id)"
)


def _of_sets(check: Check, tables: str, condition: str) -> Invariant:
    """Of the chunk sets, documents ``d``, for which ``condition`` holds: they are dropped."""
    return Invariant(
        check,
        f"SELECT s.name AS dataset, d.name AS label FROM {tables} {_NAMED} WHERE {condition}",
        _dropping(f"SELECT d.id FROM {tables} WHERE {condition}"),
    )


# Of a document that is there the log has one row, which says so.
_UNLOGGED = (
    "NOT EXISTS (SELECT 1 FROM document_change g WHERE g.document_id = d.id "
    "AND g.dataset_id = d.dataset_id AND g.version IS NULL AND g.seq >= d.revision)"
)
_STRANGE_LOGGED = "version IS NULL AND document_id NOT IN (SELECT id FROM document)"

INVARIANTS: tuple[Invariant, ...] = (
    Invariant(
        Check(
            "dataset.hidden",
            "documents are in a dataset that counts as deleted",
            "nobody can list or search them",
            repair="the dataset is shown again",
        ),
        f"SELECT s.name AS dataset, d.name AS label FROM document d {_NAMED} WHERE NOT s.live",
        ("UPDATE dataset SET live = 1 WHERE NOT live AND id IN (SELECT dataset_id FROM document)",),
    ),
    _of_sets(
        Check(
            "chunks.counts",
            "a chunk set does not have the chunks and vectors that it says it has",
            "passages are missing from every answer",
            repair=_SETS,
            derives=True,
        ),
        "derivation v JOIN document d ON d.id = v.document_id",
        "(v.chunks, v.vectors) <> (SELECT count(*), count(c.vector_id) FROM chunk c "
        "WHERE c.document_id = v.document_id)",
    ),
    Invariant(
        Check(
            "chunks.dataset",
            "a chunk set is counted in another dataset than its document's",
            "searches do not report missing vectors",
            repair="the sets are counted where they belong",
        ),
        f"SELECT s.name AS dataset, d.name AS label FROM derivation v "
        f"JOIN document d ON d.id = v.document_id {_NAMED} "
        "WHERE v.dataset_id IS NOT d.dataset_id",
        (
            "UPDATE derivation SET dataset_id = (SELECT dataset_id FROM document "
            "WHERE document.id = derivation.document_id)",
        ),
    ),
    Invariant(
        Check(
            "chunks.ownerless",
            "chunks belong to no chunk set",
            "search finds passages of unknown freshness",
            repair=_REMOVED,
        ),
        f"SELECT s.name AS dataset, d.name AS label FROM chunk c "
        f"JOIN document d ON d.id = c.document_id {_NAMED} "
        "WHERE c.document_id NOT IN (SELECT document_id FROM derivation)",
        ("DELETE FROM chunk WHERE document_id NOT IN (SELECT document_id FROM derivation)",),
    ),
    _of_sets(
        Check(
            "vectors.space",
            "chunks have vectors of another embedding space than their set",
            "vectors of two models are compared with each other",
            repair=_SETS,
            derives=True,
        ),
        "chunk c JOIN document d ON d.id = c.document_id JOIN derivation v ON v.document_id = d.id "
        "JOIN vector w ON w.id = c.vector_id JOIN space p ON p.id = w.space_id",
        _OTHER_SPACE,
    ),
    _of_sets(
        Check(
            "vectors.digest",
            "chunks have a vector with the digest of another text",
            "vector search finds them by another text",
            repair=_SETS,
            derives=True,
        ),
        "chunk c JOIN document d ON d.id = c.document_id JOIN vector w ON w.id = c.vector_id",
        "c.input_sig <> '' AND w.digest <> c.input_sig",
    ),
    Invariant(
        Check(
            "layers.nameless",
            "layers belong to documents that do not exist",
            "search finds summaries of what was deleted",
            repair=_REMOVED,
        ),
        "SELECT s.name, x.doc_name FROM layer x JOIN dataset s ON s.id = x.dataset_id "
        "WHERE x.doc_name <> '' AND x.doc_name NOT LIKE '%/' AND NOT EXISTS (SELECT 1 FROM "
        "document d WHERE d.dataset_id = x.dataset_id AND d.name = x.doc_name)",
        (
            "DELETE FROM layer AS x WHERE x.doc_name <> '' AND x.doc_name NOT LIKE '%/' AND "
            "NOT EXISTS (SELECT 1 FROM document d WHERE d.dataset_id = x.dataset_id "
            "AND d.name = x.doc_name)",
        ),
    ),
    Invariant(
        Check(
            "log.incomplete",
            "the change log does not include all stored data",
            "search indexes that follow it miss documents",
            repair=_LOGGED,
        ),
        f"SELECT s.name AS dataset, d.name AS label FROM document d {_NAMED} WHERE NOT EXISTS "
        "(SELECT 1 FROM change g WHERE g.dataset_id = d.dataset_id AND g.field = 'document' "
        "AND g.owner = d.id AND g.seq >= d.revision) "
        f"UNION ALL SELECT s.name, d.name FROM derivation v JOIN document d "
        f"ON d.id = v.document_id {_NAMED} WHERE NOT EXISTS (SELECT 1 FROM change g "
        "WHERE g.dataset_id = d.dataset_id AND g.field = 'chunk' AND g.owner = d.id) "
        "UNION ALL SELECT s.name, d.doc_name FROM layer d "
        f"{_NAMED} WHERE NOT EXISTS (SELECT 1 FROM change g WHERE g.dataset_id = d.dataset_id "
        "AND g.field IN ('abstract', 'overview') AND g.owner = d.id AND g.seq >= d.revision)",
    ),
    Invariant(
        Check(
            "changes.documents",
            "the log of documents does not match the stored documents",
            "caches and copies that follow the changes miss some",
            repair="it is written again, and all who follow it begin again",
        ),
        f"SELECT s.name AS dataset, d.name AS label FROM document d {_NAMED} WHERE {_UNLOGGED} "
        "UNION ALL SELECT s.name, 'document ' || d.document_id FROM document_change d "
        f"{_NAMED} WHERE {_STRANGE_LOGGED}",
        (
            f"DELETE FROM document_change WHERE {_STRANGE_LOGGED}",
            "DELETE FROM document_change WHERE document_id IN "
            f"(SELECT d.id FROM document d WHERE {_UNLOGGED})",
            # No other document ever has the number of this one's revision.
            "INSERT INTO document_change (seq, document_id, dataset_id) SELECT d.revision, d.id, "
            "d.dataset_id FROM document d WHERE d.id NOT IN "
            "(SELECT document_id FROM document_change)",
        ),
    ),
    Invariant(
        Check(
            "spaces.texts",
            "vectors have no matching text",
            "they take room, and keep what was deleted",
            repair=_REMOVED,
        ),
        "SELECT s.name AS dataset, 'vector ' || x.vector_id AS label "
        f"FROM (SELECT u.space_id, u.vector_id {_STRANGE_ENTRY}) x "
        "JOIN space p ON p.id = x.space_id JOIN dataset s ON s.id = p.dataset_id",
        (
            "DELETE FROM vector_use WHERE (space_id, owner, vector_id) IN "
            f"(SELECT u.space_id, u.owner, u.vector_id {_STRANGE_ENTRY})",
        ),
    ),
    Invariant(
        # After all that drops what refers to a vector.
        Check(
            "vectors.unused",
            "vectors belong to no existing chunk, layer or text",
            "they take room, and keep what was deleted",
            repair=_REMOVED,
        ),
        "SELECT s.name AS dataset, 'vector ' || w.id AS label FROM vector w "
        "JOIN space p ON p.id = w.space_id JOIN dataset s ON s.id = p.dataset_id "
        f"WHERE {_UNUSED_VECTOR}",
        (f"DELETE FROM vector AS w WHERE {_UNUSED_VECTOR}",),
    ),
    Invariant(
        # After all that removes vectors.
        Check(
            "sparse.waiting",
            "the list of chunk sets that lack sparse vectors is wrong",
            "the sparse lane misses documents without a warning",
            repair="they are counted again; `triptych embed` makes the vectors that are missing",
        ),
        f"SELECT s.name AS dataset, d.name AS label FROM {_SETS_IN} WHERE ({_LACKS_SPARSE}) <> "
        "EXISTS (SELECT 1 FROM waiting q WHERE q.document_id = v.document_id "
        "AND q.dataset_id = d.dataset_id)",
        (
            f"DELETE FROM waiting WHERE document_id NOT IN (SELECT v.document_id "
            f"FROM {_SETS_IN} WHERE {_LACKS_SPARSE})",
            "INSERT INTO waiting (document_id, dataset_id) SELECT v.document_id, "
            f"d.dataset_id FROM {_SETS_IN} WHERE {_LACKS_SPARSE} AND v.document_id NOT IN "
            "(SELECT document_id FROM waiting)",
            "UPDATE waiting SET dataset_id = (SELECT dataset_id FROM document "
            "WHERE document.id = waiting.document_id) WHERE dataset_id IS NOT "
            "(SELECT dataset_id FROM document WHERE document.id = waiting.document_id)",
        ),
    ),
)
