"""Chunk sets in a transaction: swapping in, restamping, configuring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from triptych.contracts import rules
from triptych.records import DatasetConfig, DerivedChunk, DerivedSig, Vector
from triptych.records.spaces import dense
from triptych.signatures import embedding_input_sig
from triptych_backends.sql.chunk_rows import row_of
from triptych_backends.sql.deferred import (
    Upsert,
    bindparam,
    in_list,
    insert,
    select,
    tables as t,
    update,
)
from triptych_backends.sql.text_vectors import bind_all, bind_sets
from triptych_backends.sql.transaction import Dataset, Transaction
from triptych_backends.sql.vectors import (
    delete_unreferenced_vectors,
    space_of,
    store_vectors,
    vector_ids,
)

_DOCUMENTS = select(t.document.c.name, t.document.c.id, t.document.c.version).where(
    t.document.c.dataset_id == bindparam("dataset"), in_list(t.document.c.name, "names")
)
_OLD_SETS = select(t.derivation.c.document_id).where(
    in_list(t.derivation.c.document_id, "documents")
)
_OLD_VECTORS = (
    select(t.chunk.c.vector_id)
    .where(in_list(t.chunk.c.document_id, "documents"), t.chunk.c.vector_id.is_not(None))
    .distinct()
)
_DROP_OLD = t.chunk.delete().where(in_list(t.chunk.c.document_id, "documents"))
_ADD_CHUNK = insert(t.chunk)
_SET = Upsert(t.derivation, ("document_id",))
_RESTAMP = (
    update(t.derivation)
    .where(
        t.derivation.c.document_id == bindparam("document"),
        t.derivation.c.chunker_sig == bindparam("chunker"),
        t.derivation.c.embed_sig == bindparam("embed"),
        t.derivation.c.input_sig == bindparam("input"),
    )
    .values(source_version=bindparam("stamp"))
)
_CONFIGURE = (
    update(t.dataset)
    .where(t.dataset.c.id == bindparam("pk"))
    .values(
        chunker_sig=bindparam("chunker"),
        embed_sig=bindparam("embed"),
        language=bindparam("speech"),
        sparse_sig=bindparam("sparse"),
    )
)


@attrs.define
class _Pending:
    """A set that is to be written, its vectors by digest."""

    document: int
    name: str
    chunks: Sequence[DerivedChunk]
    sig: DerivedSig
    vectors: dict[str, Vector]


def replace_sets(
    tx: Transaction,
    dataset: Dataset,
    sets: Sequence[tuple[str, Sequence[DerivedChunk], DerivedSig]],
) -> list[bool]:
    """`ChunkRepo.replace` for each of ``sets``; of two for one document the later remains.

    A document's vectors that the old set had and nothing has any more go with it.
    """
    documents = {
        name: (pk, version)
        for name, pk, version in tx.all(
            _DOCUMENTS, dataset=dataset.id, names=list({name for name, _, _ in sets})
        )
    }
    pending: dict[int, _Pending] = {}
    answers = []
    config = dataset.config
    for name, chunks, sig in sets:
        document, version = documents.get(name, (0, 0))
        done = rules.can_replace(config, version, sig)
        answers.append(done)
        if done:
            vectors = {_digest(c): c.vector for c in chunks if c.vector is not None}
            pending[document] = _Pending(document, name, chunks, sig, vectors)
    if pending:
        _write(tx, dataset, list(pending.values()))
    return answers


def _write(tx: Transaction, dataset: Dataset, pending: Sequence[_Pending]) -> None:
    old = [row[0] for row in tx.all(_OLD_SETS, documents=[p.document for p in pending])]
    before = [row[0] for row in tx.all(_OLD_VECTORS, documents=old)] if old else []
    if old:
        tx.run(_DROP_OLD, documents=old)
    # All vectors are of the dataset's one space: `replace_sets` has refused the others.
    vectors: dict[str, Vector] = {}
    bare: list[str] = []
    for one in pending:
        vectors.update(one.vectors)
        if not one.sig.embed_sig:
            bare += [_digest(chunk) for chunk in one.chunks if chunk.vector is None]
    space = dense(dataset.embed_sig or "")
    ids: Mapping[str, int] = store_vectors(tx, dataset.id, space, vectors)
    if space.sig and bare:
        # What waits for vectors takes those that came, with another set, since it was made.
        ids = {**vector_ids(tx, space_of(tx, dataset.id, space), bare), **ids}
    pk = tx.ticks(sum(len(one.chunks) for one in pending))
    chunk_rows, set_rows = [], []
    for one in pending:
        waits = not one.sig.embed_sig
        count = 0
        for chunk in one.chunks:
            bound = waits or chunk.vector is not None
            vector = ids.get(_digest(chunk)) if bound else None
            count += vector is not None
            chunk_rows.append(row_of(pk, one.document, one.name, chunk, vector))
            pk += 1
        set_rows.append(_set_row(dataset.id, one.document, one.sig, len(one.chunks), count))
        tx.log(dataset.id, "chunk", one.document)
    tx.run_many(_ADD_CHUNK, chunk_rows)
    tx.run_many(_SET, set_rows)
    bind_sets(tx, dataset, {one.document: _texts(one.chunks) for one in pending})
    delete_unreferenced_vectors(tx, set(before) - set(ids.values()))


def load_set(
    tx: Transaction,
    dataset: Dataset,
    document: int,
    name: str,
    chunks: Sequence[DerivedChunk],
    sig: DerivedSig,
) -> None:
    """Store a chunk set just as it is; each vector is of the space that its chunk's ``sig`` names.

    Raises:
        ModelMismatchError: a vector is not as wide as its space's others.
    """
    before = [row[0] for row in tx.all(_OLD_VECTORS, documents=[document])]
    tx.run(_DROP_OLD, documents=[document])
    by_space: dict[str, dict[str, Vector]] = {}
    for chunk in chunks:
        if chunk.vector is not None:
            by_space.setdefault(chunk.sig.embed_sig, {})[_digest(chunk)] = chunk.vector
    ids = {
        space: store_vectors(tx, dataset.id, dense(space), vectors)
        for space, vectors in by_space.items()
    }
    first = tx.ticks(len(chunks))
    bound = [
        None if chunk.vector is None else ids[chunk.sig.embed_sig][_digest(chunk)]
        for chunk in chunks
    ]
    tx.run_many(
        _ADD_CHUNK,
        [
            row_of(pk, document, name, chunk, vector)
            for pk, (chunk, vector) in enumerate(zip(chunks, bound, strict=True), first)
        ],
    )
    count = sum(vector is not None for vector in bound)
    tx.run_many(_SET, [_set_row(dataset.id, document, sig, len(chunks), count)])
    tx.log(dataset.id, "chunk", document)
    bind_sets(tx, dataset, {document: _texts(chunks)})
    delete_unreferenced_vectors(tx, {*before}.difference(bound))


def _texts(chunks: Sequence[DerivedChunk]) -> set[str]:
    return {chunk.sig.input_sig for chunk in chunks}


def _set_row(
    dataset: int, document: int, sig: DerivedSig, chunks: int, vectors: int
) -> tuple[object, ...]:
    return (
        document,
        sig.source_version,
        sig.chunker_sig,
        sig.prompt_sig,
        sig.embed_sig,
        sig.input_sig,
        chunks,
        vectors,
        dataset,
    )


def _digest(chunk: DerivedChunk) -> str:
    # A chunk without a digest of its own must not share a vector with every other such chunk.
    return chunk.sig.input_sig or embedding_input_sig(chunk.content)


def update_source_version(tx: Transaction, dataset: Dataset, name: str, sig: DerivedSig) -> bool:
    """See `ChunkRepo.update_source_version`."""
    found = tx.all(_DOCUMENTS, dataset=dataset.id, names=[name])
    if not found or found[0][2] != sig.source_version:
        return False
    touched = tx.run(
        _RESTAMP,
        document=found[0][1],
        chunker=sig.chunker_sig,
        embed=sig.embed_sig,
        input=sig.input_sig,
        stamp=sig.source_version,
    )
    if touched != 1:
        return False
    tx.revise()
    return True


def configure(
    tx: Transaction, dataset_id: str, config: DatasetConfig, expected: DatasetConfig | None
) -> bool:
    """See `ChunkRepo.configure`."""
    dataset = tx.dataset(dataset_id)
    if dataset.config != expected:
        return False
    if config != dataset.config:
        tx.run(
            _CONFIGURE,
            pk=dataset.id,
            chunker=config.chunker_sig,
            embed=config.embed_sig,
            speech=config.language,
            # NULL says that there never were any, and nothing of them is looked for.
            sparse=config.sparse_sig if config.sparse_sig else dataset.sparse_sig and "",
        )
        if config.sparse_sig != (dataset.sparse_sig or ""):
            bind_all(tx, attrs.evolve(dataset, sparse_sig=config.sparse_sig))
        tx.revise()
        # The index is made for one language, one space and one sparse encoder: it starts again
        # with another.
        if expected is None or attrs.evolve(config, chunker_sig=expected.chunker_sig) != expected:
            tx.reset_log(dataset.id)
    return True
