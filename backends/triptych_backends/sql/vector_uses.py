"""Vectors of chunk sets and layers by the digest of their text, and the swap of dense spaces.

By digest belong sparse vectors, and those of dense spaces that are kept for a swap.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from triptych.records import AnySpace, AnyVector, SpaceCount, Vector, VectorSpace
from triptych.records.spaces import dense
from triptych.signatures import embedding_input_sig
from triptych_backends.sql.deferred import (
    bindparam,
    case,
    delete,
    exists,
    func,
    in_list,
    insert,
    or_,
    select,
    tables as t,
    update,
)
from triptych_backends.sql.transaction import Dataset, Session, Transaction
from triptych_backends.sql.vectors import (
    delete_unreferenced_vectors,
    space_of,
    store_vectors,
    vector_ids,
)

_AT_ONCE = 256

_use = t.vector_use.c
_SPACES = select(t.space.c.id, t.space.c.kind, t.space.c.sig).where(
    t.space.c.dataset_id == bindparam("pk"), or_(t.space.c.kept, t.space.c.kind == "sparse")
)
_MARK = update(t.space).where(t.space.c.id == bindparam("space")).values(kept=bindparam("flag"))
_USES = select(_use.space_id, _use.owner, _use.vector_id).where(
    _use.space_id == bindparam("space"), in_list(_use.owner, "owners")
)
_ADD_USE = insert(t.vector_use)
_DROP_USE = delete(t.vector_use).where(
    _use.space_id == bindparam("space"),
    _use.owner == bindparam("who"),
    _use.vector_id == bindparam("which"),
)
_WAITING = select(t.waiting.c.document_id).where(in_list(t.waiting.c.document_id, "documents"))
_WAIT = insert(t.waiting)
_END_WAIT = delete(t.waiting).where(in_list(t.waiting.c.document_id, "documents"))
_ALL_SETS = select(t.derivation.c.document_id).where(t.derivation.c.dataset_id == bindparam("pk"))
_SETS = (
    select(t.document.c.name, t.document.c.id)
    .join(t.derivation, t.derivation.c.document_id == t.document.c.id)
    .where(t.document.c.dataset_id == bindparam("pk"), in_list(t.document.c.name, "names"))
)
_TEXTS = (
    select(t.chunk.c.document_id, t.chunk.c.input_sig)
    .where(in_list(t.chunk.c.document_id, "owners"))
    .distinct()
)
_LAYERS = select(t.layer.c.doc_name, t.layer.c.id, t.layer.c.content).where(
    t.layer.c.dataset_id == bindparam("pk"), in_list(t.layer.c.doc_name, "names")
)
_COUNTS = (
    select(
        t.space.c.kind,
        t.space.c.sig,
        t.space.c.dimension,
        func.sum(case((func.length(t.vector.c.data) > 0, 1), else_=0)),
        func.sum(func.length(t.vector.c.data)),
    )
    .join(t.vector, t.vector.c.space_id == t.space.c.id)
    .where(t.space.c.dataset_id == bindparam("pk"), or_(t.space.c.kept, t.space.c.kind == "sparse"))
    .group_by(t.space.c.kind, t.space.c.sig, t.space.c.dimension)
    .order_by(t.space.c.kind, t.space.c.sig)
)


def layer_digest(content: str | bytes) -> str:
    """The digest of a layer's text, stored or not."""
    return embedding_input_sig(content.decode() if isinstance(content, bytes) else content)


def bind_layers(tx: Transaction, dataset: int, texts: Mapping[int, Collection[str]]) -> None:
    """Give layers, by their ids, the vectors of ``texts`` in the dense spaces that are kept, and no
    others."""
    _bind(tx, dataset, texts, None, keeps_old=False)


def bind_sets(
    tx: Transaction,
    dataset: Dataset,
    texts: Mapping[int, Collection[str]],
    *,
    keeps_old: bool = False,
) -> set[int]:
    """Give chunk sets, by the ids of their documents, the vectors of ``texts`` by use, and no
    others; those that wait no longer for sparse vectors and did before.

    ``keeps_old`` says that the sets are those they were: vectors of another sparse space stay until
    a set has all of the one that serves.
    """
    whole = _bind(tx, dataset.id, texts, dataset.sparse_sig or "", keeps_old=keeps_old)
    if not texts or dataset.sparse_sig is None:
        return set()
    waited = {row[0] for row in tx.all(_WAITING, documents=list(texts))}
    ended = waited & whole
    if ended:
        tx.run(_END_WAIT, documents=sorted(ended))
    tx.run_many(_WAIT, [(one, dataset.id) for one in sorted(texts.keys() - whole - waited)])
    return ended


def _bind(
    tx: Transaction,
    dataset: int,
    texts: Mapping[int, Collection[str]],
    serving: str | None,
    *,
    keeps_old: bool,
) -> set[int]:
    """The owners that have all vectors of the sparse space ``serving``; None: they have none."""
    wants = {owner: set(some) - {""} for owner, some in texts.items()}
    wanted = sorted({digest for some in wants.values() for digest in some})
    whole = {owner for owner, some in wants.items() if not (serving and some)}
    before: set[tuple[int, int, int]] = set()
    after: set[tuple[int, int, int]] = set()
    old: set[tuple[int, int, int]] = set()
    for space, kind, sig in tx.all(_SPACES, pk=dataset) if texts else ():
        if kind == "sparse" and serving is None:
            continue
        uses = set(tx.all(_USES, space=space, owners=list(texts)))
        before |= uses
        if kind == "sparse" and sig != serving:
            old |= uses
            continue
        found = vector_ids(tx, space, wanted) if wanted else {}
        after |= {
            (space, owner, found[digest])
            for owner, some in wants.items()
            for digest in some
            if digest in found
        }
        if kind == "sparse":
            whole |= {owner for owner, some in wants.items() if found.keys() >= some}
    if keeps_old:
        after |= {use for use in old if not serving or use[1] not in whole}
    tx.run_many(_ADD_USE, sorted(after - before))
    _drop(tx, before - after)
    return whole


def bind_all(tx: Transaction, dataset: Dataset) -> None:
    """`bind_sets` for every set of a dataset whose sparse vectors are of another space now."""
    documents = [row[0] for row in tx.all(_ALL_SETS, pk=dataset.id)]
    for at in range(0, len(documents), _AT_ONCE):
        texts = _texts(tx, documents[at : at + _AT_ONCE])
        bind_sets(tx, dataset, texts, keeps_old=True)


def forget_uses(tx: Transaction, dataset: int, owners: Sequence[int]) -> None:
    """Remove the vectors that only these sets or layers have, and that they wait; before they
    go."""
    for space, _, _ in tx.all(_SPACES, pk=dataset) if owners else ():
        _drop(tx, tx.all(_USES, space=space, owners=list(owners)))
    if owners:
        tx.run(_END_WAIT, documents=list(owners))


def _drop(tx: Transaction, uses: Iterable[tuple[int, ...]]) -> None:
    gone = sorted(uses)
    if gone:
        tx.run_many(_DROP_USE, gone)
        delete_unreferenced_vectors(tx, [vector for _, _, vector in gone])


def _texts(tx: Transaction, documents: Sequence[int]) -> dict[int, set[str]]:
    """The digests of sets' texts; "" is that of a chunk without one."""
    texts: dict[int, set[str]] = {document: set() for document in documents}
    for document, digest in tx.all(_TEXTS, owners=list(documents)):
        texts[document].add(digest)
    return texts


def keep_vectors(
    tx: Transaction,
    dataset: Dataset,
    space: AnySpace,
    names: Sequence[str],
    vectors: Mapping[str, AnyVector | None],
) -> list[str]:
    """See `VectorRepo.put_vectors`, of a sparse space or one that does not serve."""
    named = list(dict.fromkeys(names))
    sets = {document: name for name, document in tx.all(_SETS, pk=dataset.id, names=named)}
    texts = _texts(tx, list(sets))
    owners = {document: (name, texts[document]) for document, name in sets.items()}
    if space.kind == "dense":
        for name, layer, content in tx.all(_LAYERS, pk=dataset.id, names=named):
            owners[layer] = (name, {layer_digest(content)})
    wanted = sorted({digest for _, some in owners.values() for digest in some} - {""})
    new = {digest: vectors[digest] for digest in wanted if digest in vectors}
    store_vectors(tx, dataset.id, space, new)
    pk = space_of(tx, dataset.id, space)
    if pk and space.kind == "dense":
        tx.run(_MARK, space=pk, flag=True)
    ended = bind_sets(tx, dataset, texts, keeps_old=True)
    layers = {owner: some for owner, (_, some) in owners.items() if owner not in sets}
    bind_layers(tx, dataset.id, layers)
    for document in sorted(ended):
        # Only now does the index read the vectors: each document's once, and all of them.
        tx.log(dataset.id, "chunk", document)
    known = {*(vector_ids(tx, pk, wanted) if pk and wanted else ())}
    if space.kind == "sparse":
        known.add("")
    lacking = {name for name, some in owners.values() if not some <= known}
    return sorted({name for name, _ in owners.values()} - lacking)


def vector_spaces(session: Session, dataset: Dataset) -> list[SpaceCount]:
    """See `VectorRepo.vector_spaces`."""
    return [
        SpaceCount(
            space=VectorSpace(kind, sig),
            dimension=width,
            vectors=int(count),
            size=int(size) if kind == "sparse" else 0,
        )
        for kind, sig, width, count, size in session.all(_COUNTS, pk=dataset.id)
    ]


_ENTRIES = select(t.space.c.id).where(
    t.space.c.dataset_id == bindparam("pk"),
    t.space.c.kind == "dense",
    t.space.c.sig == bindparam("sig"),
    t.space.c.kept,
    exists().where(t.vector.c.space_id == t.space.c.id),
)
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
