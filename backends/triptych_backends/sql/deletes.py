"""Removing: documents, chunk sets, layers, datasets, with the vectors that nothing needs then."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from triptych.contracts import rules
from triptych_backends.sql.deferred import bindparam, delete, func, select, tables as t, update
from triptych_backends.sql.errors import corrupt
from triptych_backends.sql.text_vectors import forget_uses
from triptych_backends.sql.transaction import (
    FIELD_OF_LAYER,
    KEPT_DELETIONS,
    Dataset,
    Session,
    Transaction,
)
from triptych_backends.sql.vectors import delete_unreferenced_vectors
from triptych_backends.sql.versions import drop_versions

if TYPE_CHECKING:
    from sqlalchemy import Delete

_DOCUMENT = select(t.document.c.id, t.document.c.version).where(
    t.document.c.dataset_id == bindparam("dataset"), t.document.c.name == bindparam("name")
)
_FIRST_FROM = (
    select(t.document.c.name)
    .where(t.document.c.dataset_id == bindparam("dataset"), t.document.c.name >= bindparam("name"))
    .order_by(t.document.c.name)
    .limit(1)
)
"""The first name from this one on: names that start with it come before all others."""
_VECTORS_OF_SET = (
    select(t.chunk.c.vector_id)
    .where(t.chunk.c.document_id == bindparam("document"), t.chunk.c.vector_id.is_not(None))
    .distinct()
)
_DROP_CHUNKS = delete(t.chunk).where(t.chunk.c.document_id == bindparam("document"))
_DROP_SET = delete(t.derivation).where(t.derivation.c.document_id == bindparam("document"))
_DROP_PAIRS = delete(t.document_meta).where(t.document_meta.c.document_id == bindparam("document"))
_DROP_DOCUMENT = delete(t.document).where(t.document.c.id == bindparam("document"))
_RAISE_FLOOR = (
    update(t.dataset)
    .where(t.dataset.c.id == bindparam("dataset"), t.dataset.c.deleted_version < bindparam("used"))
    .values(deleted_version=bindparam("used"))
)
_LAYERS = select(t.layer.c.id, t.layer.c.layer, t.layer.c.vector_id).where(
    t.layer.c.dataset_id == bindparam("dataset")
)
_LAYERS_OF_NAME = _LAYERS.where(t.layer.c.doc_name == bindparam("name"))
_DROP_LAYER = delete(t.layer).where(t.layer.c.id == bindparam("which"))

_documents_of = select(t.document.c.id).where(t.document.c.dataset_id == bindparam("dataset"))
_spaces_of = select(t.space.c.id).where(t.space.c.dataset_id == bindparam("dataset"))
_EVERY = (
    select(t.document.c.id, t.document.c.name, t.document.c.version)
    .where(t.document.c.dataset_id == bindparam("dataset"))
    .order_by(t.document.c.name)
    .limit(bindparam("most"))
)
_FORGET_DOCUMENTS = delete(t.document_change).where(
    t.document_change.c.document_id.in_(_documents_of)
)
_GREATEST = select(func.max(t.document.c.version)).where(
    t.document.c.dataset_id == bindparam("dataset")
)
_ANY_SET = (
    select(t.derivation.c.document_id).where(t.derivation.c.document_id.in_(_documents_of)).limit(1)
)
# Vectors that are not dense go with the configuration.
_CLEAR_USES: tuple[Delete, ...] = (
    delete(t.waiting).where(t.waiting.c.dataset_id == bindparam("dataset")),
    delete(t.vector_use).where(t.vector_use.c.space_id.in_(_spaces_of)),
)
_CLEAR_SETS: tuple[Delete, ...] = (
    *_CLEAR_USES,
    delete(t.chunk).where(t.chunk.c.document_id.in_(_documents_of)),
    delete(t.derivation).where(t.derivation.c.document_id.in_(_documents_of)),
    delete(t.vector).where(
        t.vector.c.space_id.in_(_spaces_of),
        t.vector.c.id.not_in(
            select(t.layer.c.vector_id).where(
                t.layer.c.dataset_id == bindparam("dataset"), t.layer.c.vector_id.is_not(None)
            )
        ),
    ),
)
_CLEAR_DATASET: tuple[Delete, ...] = (
    *_CLEAR_USES,
    delete(t.chunk).where(t.chunk.c.document_id.in_(_documents_of)),
    delete(t.derivation).where(t.derivation.c.document_id.in_(_documents_of)),
    delete(t.layer).where(t.layer.c.dataset_id == bindparam("dataset")),
    delete(t.vector).where(t.vector.c.space_id.in_(_spaces_of)),
    delete(t.space).where(t.space.c.dataset_id == bindparam("dataset")),
    delete(t.document_meta).where(t.document_meta.c.dataset_id == bindparam("dataset")),
    delete(t.document_version).where(t.document_version.c.document_id.in_(_documents_of)),
    delete(t.document).where(t.document.c.dataset_id == bindparam("dataset")),
)
_FORGET = (
    update(t.dataset)
    .where(t.dataset.c.id == bindparam("pk"))
    .values(chunker_sig=None, embed_sig=None, language=None, sparse_sig=None)
)
_END = update(t.dataset).where(t.dataset.c.id == bindparam("pk")).values(live=False)


def remove_chunk_set(tx: Transaction, dataset: int, document: int) -> bool:
    """Remove a document's chunk set; whether there was one."""
    vectors = [row[0] for row in tx.all(_VECTORS_OF_SET, document=document)]
    tx.run(_DROP_CHUNKS, document=document)
    forget_uses(tx, dataset, [document])
    if not tx.run(_DROP_SET, document=document):
        return False
    delete_unreferenced_vectors(tx, vectors)
    tx.log(dataset, "chunk", document)
    return True


def remove_layers(
    tx: Transaction, dataset: int, name: str | None = None, *, kind: str | None = None
) -> bool:
    """Remove the layers under ``name``, or all of the dataset; of one ``kind``, or of any.

    Whether anything was removed.
    """
    if name is None:
        found = tx.all(_LAYERS, dataset=dataset)
    else:
        found = tx.all(_LAYERS_OF_NAME, dataset=dataset, name=name)
    found = [row for row in found if kind in (None, row[1])]
    tx.run_many(_DROP_LAYER, [(pk,) for pk, _, _ in found])
    delete_unreferenced_vectors(tx, [vector for _, _, vector in found if vector is not None])
    for pk, layer, _ in found:
        tx.log(dataset, FIELD_OF_LAYER[layer], pk)
    return bool(found)


def version_of(tx: Transaction, dataset: Dataset | None, name: str) -> int:
    """The document's version, 0 when there is none."""
    found = None if dataset is None else tx.one(_DOCUMENT, dataset=dataset.id, name=name)
    if found is None:
        return 0
    if not isinstance(found[1], int):
        raise corrupt(tx.where, f"the version of {name!r} is no number")
    return found[1]


def remove_orphans(tx: Transaction, dataset: Dataset, names: Iterable[str]) -> list[str]:
    """Remove what lies under those of ``names`` that have no source; those that had something.

    A chunk set cannot outlive its document's row: only layers can.
    """
    found = sourceless(tx, dataset, names)
    return [name for name in found if remove_layers(tx, dataset.id, name)]


def sourceless(session: Session, dataset: Dataset, names: Iterable[str]) -> list[str]:
    """Those of ``names`` that have no source, ordered, also where nothing is left there."""
    return [name for name in sorted(set(names)) if not _has_source(session, dataset, name)]


def _has_source(session: Session, dataset: Dataset, name: str) -> bool:
    found = session.one(_FIRST_FROM, dataset=dataset.id, name=name)
    return found is not None and rules.has_source(name, found)


def remove_document(
    tx: Transaction, dataset: Dataset, name: str, *, only: int | None = None
) -> bool:
    """Remove a document and all that was derived from it; whether there was one.

    With ``only``, nothing is done unless it is of this version.
    """
    found = tx.one(_DOCUMENT, dataset=dataset.id, name=name)
    if only is not None and (found is None or found[1] != only):
        return False
    remove_layers(tx, dataset.id, name)
    if found is None:
        return False
    document, version = found
    remove_chunk_set(tx, dataset.id, document)
    tx.run(_DROP_PAIRS, document=document)
    drop_versions(tx, document)
    tx.run(_DROP_DOCUMENT, document=document)
    tx.run(_RAISE_FLOOR, dataset=dataset.id, used=version)
    tx.log(dataset.id, "document", document)
    tx.log_deletion(dataset.id, document, name, version)
    return True


def raise_floor(tx: Transaction, dataset: int, version: int) -> None:
    """Use up the dataset's versions to ``version``: what is created starts above it."""
    tx.run(_RAISE_FLOOR, dataset=dataset, used=version)


def remove_chunk_sets(tx: Transaction, dataset: Dataset) -> None:
    """Remove all chunk sets of the dataset, and its configuration."""
    if dataset.config is None and tx.one(_ANY_SET, dataset=dataset.id) is None:
        return
    for statement in _CLEAR_SETS:
        tx.run(statement, dataset=dataset.id)
    tx.run(_FORGET, pk=dataset.id)
    tx.reset_log(dataset.id)


def remove_dataset(tx: Transaction, dataset: Dataset) -> None:
    """Remove everything of the dataset but the row that says which versions are used up."""
    _log_deletions(tx, dataset.id)
    greatest = tx.one(_GREATEST, dataset=dataset.id)
    if greatest is not None and greatest[0] is not None:
        tx.run(_RAISE_FLOOR, dataset=dataset.id, used=greatest[0])
    for statement in _CLEAR_DATASET:
        tx.run(statement, dataset=dataset.id)
    tx.run(_FORGET, pk=dataset.id)
    tx.run(_END, pk=dataset.id)
    tx.reset_log(dataset.id)


def _log_deletions(tx: Transaction, dataset: int) -> None:
    """Log that all documents of the dataset are deleted; one by one where the log has room."""
    found = tx.all(_EVERY, dataset=dataset, most=KEPT_DELETIONS + 1)
    if len(found) > KEPT_DELETIONS:
        tx.run(_FORGET_DOCUMENTS, dataset=dataset)
        tx.break_log(dataset)
        return
    for document, name, version in found:
        tx.log_deletion(dataset, document, name, version)
