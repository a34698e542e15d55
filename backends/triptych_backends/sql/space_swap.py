"""Letting another dense space serve a dataset, and dropping one that does not."""

from __future__ import annotations

from triptych.records import AnySpace, Vector
from triptych.records.spaces import dense
from triptych_backends.sql.deferred import (
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    select,
    tables as t,
    update,
)
from triptych_backends.sql.dialect import in_list
from triptych_backends.sql.transaction import Dataset, Transaction
from triptych_backends.sql.vector_uses import layer_digest
from triptych_backends.sql.vectors import space_of, store_vectors

_use = t.vector_use.c
_ENTRIES = select(t.space.c.id).where(
    t.space.c.dataset_id == bindparam("pk"),
    t.space.c.kind == "dense",
    t.space.c.sig == bindparam("sig"),
    t.space.c.kept,
    exists().where(t.vector.c.space_id == t.space.c.id),
)
_MARK = update(t.space).where(t.space.c.id == bindparam("space")).values(kept=bindparam("flag"))
_USES = select(_use.space_id, _use.owner, _use.vector_id).where(
    _use.space_id == bindparam("space"), in_list(_use.owner, "owners")
)
_ADD_USE = insert(t.vector_use)
_DROP_USES = delete(t.vector_use).where(_use.space_id == bindparam("space"))
_has_entry = exists().where(_use.owner == t.layer.c.id, _use.space_id == bindparam("space"))

# The statements of the swap read all chunks of the dataset, once each.
_of_sets = select(t.derivation.c.document_id).where(t.derivation.c.dataset_id == bindparam("pk"))
_KEEP_CHUNKS = insert(t.vector_use).from_select(
    ["space_id", "owner", "vector_id"],
    select(t.vector.c.space_id, t.chunk.c.document_id, t.vector.c.id)
    .join(t.derivation, t.derivation.c.document_id == t.chunk.c.document_id)
    .join(t.vector, t.vector.c.id == t.chunk.c.vector_id)
    .where(t.derivation.c.dataset_id == bindparam("pk"), t.vector.c.space_id == bindparam("space"))
    .distinct(),
)
_BARE_CHUNKS = (
    select(t.chunk.c.document_id, t.chunk.c.input_sig)
    .join(t.derivation, t.derivation.c.document_id == t.chunk.c.document_id)
    .where(
        t.derivation.c.dataset_id == bindparam("pk"),
        t.derivation.c.embed_sig == bindparam("sig"),
        t.chunk.c.vector_id.is_(None),
        t.chunk.c.input_sig != "",
    )
    .distinct()
)
_KEEP_LAYERS = insert(t.vector_use).from_select(
    ["space_id", "owner", "vector_id"],
    select(t.vector.c.space_id, t.layer.c.id, t.vector.c.id)
    .join(t.vector, t.vector.c.id == t.layer.c.vector_id)
    .where(t.layer.c.dataset_id == bindparam("pk"), t.vector.c.space_id == bindparam("space")),
)
_BARE_LAYERS = select(t.layer.c.id, t.layer.c.content).where(
    t.layer.c.dataset_id == bindparam("pk"),
    t.layer.c.embed_sig == bindparam("sig"),
    t.layer.c.vector_id.is_(None),
)
_entry = (t.vector.c.space_id == bindparam("space"), t.vector.c.digest == t.chunk.c.input_sig)
_GIVE = (
    update(t.chunk)
    .where(t.chunk.c.document_id.in_(_of_sets))
    .values(
        vector_id=select(t.vector.c.id)
        .where(*_entry, func.length(t.vector.c.data) > 0)
        .scalar_subquery()
    )
)
_RESTAMP = (
    update(t.derivation)
    .where(t.derivation.c.dataset_id == bindparam("pk"))
    .values(
        vectors=select(func.count(t.chunk.c.vector_id))
        .where(t.chunk.c.document_id == t.derivation.c.document_id)
        .scalar_subquery(),
        embed_sig=case(
            (
                exists().where(
                    t.chunk.c.document_id == t.derivation.c.document_id, ~exists().where(*_entry)
                ),
                "",
            ),
            else_=bindparam("sig"),
        ),
    )
)
_GIVE_LAYERS = (
    update(t.layer)
    .where(t.layer.c.dataset_id == bindparam("pk"), _has_entry)
    .values(
        embed_sig=bindparam("sig"),
        vector_id=select(t.vector.c.id)
        .join(t.vector_use, _use.vector_id == t.vector.c.id)
        .where(
            _use.owner == t.layer.c.id,
            _use.space_id == bindparam("space"),
            func.length(t.vector.c.data) > 0,
        )
        .scalar_subquery(),
    )
)
_COLLECT = delete(t.vector).where(
    t.vector.c.space_id.in_(select(t.space.c.id).where(t.space.c.dataset_id == bindparam("pk"))),
    ~exists().where(t.chunk.c.vector_id == t.vector.c.id),
    ~exists().where(t.layer.c.vector_id == t.vector.c.id),
    ~exists().where(_use.vector_id == t.vector.c.id),
)


def drop_space(tx: Transaction, dataset: Dataset, dropped: AnySpace) -> bool:
    """See `VectorRepo.drop_space`."""
    space = tx.one(_ENTRIES, pk=dataset.id, sig=dropped.sig) if dropped.kind == "dense" else None
    if space is None:
        return False
    tx.run(_DROP_USES, space=space[0])
    tx.run(_MARK, space=space[0], flag=False)
    tx.run(_COLLECT, pk=dataset.id)
    return True


def swap_in(tx: Transaction, dataset: Dataset, new: str) -> bool:
    """Let the space ``new`` serve, if entries of it are kept, and keep what serves now; whether it
    was done.

    The configuration is the caller's to change, in the same transaction.
    """
    space = tx.one(_ENTRIES, pk=dataset.id, sig=new)
    if space is None:
        # Of texts without a vector nothing may be kept: what serves is never kept beside itself.
        tx.run(_MARK, space=space_of(tx, dataset.id, dense(new)), flag=False)
        return False
    if dataset.embed_sig:
        _keep_serving(tx, dataset, dataset.embed_sig)
    tx.run(_GIVE, pk=dataset.id, space=space[0])
    tx.run(_RESTAMP, pk=dataset.id, space=space[0], sig=new)
    tx.run(_GIVE_LAYERS, pk=dataset.id, space=space[0], sig=new)
    tx.run(_DROP_USES, space=space[0])
    tx.run(_MARK, space=space[0], flag=False)
    # What is left of further models in sets that waited, and entries without a vector.
    tx.run(_COLLECT, pk=dataset.id)
    return True


def _keep_serving(tx: Transaction, dataset: Dataset, serving: str) -> None:
    """Make entries of what serves: of every vector, and of each text without one on purpose."""
    texts: dict[int, set[str]] = {}
    for document, digest in tx.all(_BARE_CHUNKS, pk=dataset.id, sig=serving):
        texts.setdefault(document, set()).add(digest)
    for layer, content in tx.all(_BARE_LAYERS, pk=dataset.id, sig=serving):
        texts[layer] = {layer_digest(content)}
    bare: dict[str, Vector | None] = {digest: None for some in texts.values() for digest in some}
    ids = store_vectors(tx, dataset.id, dense(serving), bare)
    space = space_of(tx, dataset.id, dense(serving))
    if not space:
        return  # there was nothing to embed
    tx.run(_DROP_USES, space=space)
    tx.run(_KEEP_CHUNKS, pk=dataset.id, space=space)
    tx.run(_KEEP_LAYERS, pk=dataset.id, space=space)
    uses = {(space, owner, ids[digest]) for owner, some in texts.items() for digest in some}
    there = tx.all(_USES, space=space, owners=list(texts))
    tx.run_many(_ADD_USE, sorted(uses.difference(there)))
    tx.run(_MARK, space=space, flag=True)
