"""Vectors of other embedding spaces than the one that serves: kept by text, and swapped in."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from triptych.records import SpaceCount, Vector
from triptych.records.spaces import dense
from triptych.signatures import embedding_input_sig
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
from triptych_backends.sql.session import Session
from triptych_backends.sql.transaction import Dataset, Transaction
from triptych_backends.sql.vectors import delete_unreferenced_vectors, store_vectors

__all__ = [
    "bind_kept",
    "drop_space",
    "forget_kept",
    "keep_vectors",
    "kept_spaces",
    "layer_digest",
    "swap_in",
    "unprepared_names",
]

_use = t.vector_use.c
_OF_DATASET = t.space.c.dataset_id == bindparam("pk")
_KEPT = select(t.space.c.id).where(_OF_DATASET, t.space.c.kept)
_SPACE = select(t.space.c.id, t.space.c.kept).where(
    _OF_DATASET, t.space.c.embed_sig == bindparam("sig")
)
_ENTRIES = select(t.space.c.id).where(
    _OF_DATASET,
    t.space.c.embed_sig == bindparam("sig"),
    t.space.c.kept,
    exists().where(t.vector.c.space_id == t.space.c.id),
)
_MARK = update(t.space).where(t.space.c.id == bindparam("space")).values(kept=bindparam("flag"))
_IDS = select(t.vector.c.digest, t.vector.c.id).where(
    t.vector.c.space_id == bindparam("space"), in_list(t.vector.c.digest, "digests")
)
_USES = select(_use.space_id, _use.owner, _use.vector_id).where(
    _use.space_id == bindparam("space"), in_list(_use.owner, "owners")
)
_ADD_USE = insert(t.vector_use)
_DROP_USE = delete(t.vector_use).where(
    _use.space_id == bindparam("space"),
    _use.owner == bindparam("who"),
    _use.vector_id == bindparam("which"),
)
_DROP_USES = delete(t.vector_use).where(_use.space_id == bindparam("space"))
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
_texts_of_set = (
    select(func.count(t.chunk.c.input_sig.distinct()))
    .where(t.chunk.c.document_id == t.derivation.c.document_id)
    .scalar_subquery()
)
_entries_of_set = (
    select(func.count())
    .select_from(t.vector_use)
    .where(_use.owner == t.derivation.c.document_id, _use.space_id == bindparam("space"))
    .scalar_subquery()
)
_has_entry = exists().where(_use.owner == t.layer.c.id, _use.space_id == bindparam("space"))
_LACKING_SETS = (
    select(t.document.c.name)
    .join(t.derivation, t.derivation.c.document_id == t.document.c.id)
    .where(t.derivation.c.dataset_id == bindparam("pk"), _texts_of_set > _entries_of_set)
)
_LACKING_LAYERS = select(t.layer.c.doc_name).where(
    t.layer.c.dataset_id == bindparam("pk"), ~_has_entry
)
_LACKING_SETS_AMONG = (
    select(t.document.c.name)
    .join(t.derivation, t.derivation.c.document_id == t.document.c.id)
    .where(
        t.document.c.dataset_id == bindparam("pk"),
        in_list(t.document.c.name, "names"),
        _texts_of_set > _entries_of_set,
    )
)
_LACKING_LAYERS_AMONG = _LACKING_LAYERS.where(in_list(t.layer.c.doc_name, "names"))
_SPACES = (
    select(
        t.space.c.embed_sig,
        t.space.c.dimension,
        func.sum(case((func.length(t.vector.c.data) > 0, 1), else_=0)),
    )
    .join(t.vector, t.vector.c.space_id == t.space.c.id)
    .where(_OF_DATASET, t.space.c.kept)
    .group_by(t.space.c.embed_sig, t.space.c.dimension)
    .order_by(t.space.c.embed_sig)
)

# The swap. Its statements read all chunks of the dataset, once each.
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
    t.vector.c.space_id.in_(select(t.space.c.id).where(_OF_DATASET)),
    ~exists().where(t.chunk.c.vector_id == t.vector.c.id),
    ~exists().where(t.layer.c.vector_id == t.vector.c.id),
    ~exists().where(_use.vector_id == t.vector.c.id),
)


def layer_digest(content: str | bytes) -> str:
    """The digest of a layer's text, stored or not."""
    return embedding_input_sig(content.decode() if isinstance(content, bytes) else content)


def bind_kept(tx: Transaction, dataset: int, texts: Mapping[int, Collection[str]]) -> None:
    """Give sets and layers, by the id of their owner, the entries of ``texts``, and no others."""
    spaces = [row[0] for row in tx.all(_KEPT, pk=dataset)]
    if not spaces or not texts:
        return
    wanted = sorted({digest for some in texts.values() for digest in some})
    for space in spaces:
        found = dict(tx.all(_IDS, space=space, digests=wanted))
        before = set(tx.all(_USES, space=space, owners=list(texts)))
        after = {
            (space, owner, found[digest])
            for owner, some in texts.items()
            for digest in some
            if digest in found
        }
        tx.run_many(_ADD_USE, sorted(after - before))
        _drop(tx, before - after)


def forget_kept(tx: Transaction, dataset: int, owners: Sequence[int]) -> None:
    """Remove the entries that only these sets or layers have: before, or after, they go."""
    for (space,) in tx.all(_KEPT, pk=dataset) if owners else ():
        _drop(tx, tx.all(_USES, space=space, owners=list(owners)))


def _drop(tx: Transaction, uses: Iterable[tuple[int, ...]]) -> None:
    gone = sorted(uses)
    if gone:
        tx.run_many(_DROP_USE, gone)
        delete_unreferenced_vectors(tx, [vector for _, _, vector in gone])


def keep_vectors(
    tx: Transaction,
    dataset: Dataset,
    embed_sig: str,
    names: Sequence[str],
    vectors: Mapping[str, Vector | None],
) -> list[str]:
    """See `VectorRepo.put_vectors`, of a space that does not serve."""
    named = list(dict.fromkeys(names))
    owners: dict[int, tuple[str, set[str]]] = {
        document: (name, set()) for name, document in tx.all(_SETS, pk=dataset.id, names=named)
    }
    for document, digest in tx.all(_TEXTS, owners=list(owners)):
        owners[document][1].add(digest)
    for name, layer, content in tx.all(_LAYERS, pk=dataset.id, names=named):
        owners[layer] = (name, {layer_digest(content)})
    wanted = {digest for _, texts in owners.values() for digest in texts} - {""}
    new = {digest: vector for digest, vector in vectors.items() if digest in wanted}
    store_vectors(tx, dataset.id, embed_sig, new)
    space = tx.one(_SPACE, pk=dataset.id, sig=embed_sig)
    known: set[str] = set()
    if space is not None:
        if not space[1]:
            tx.run(_MARK, space=space[0], flag=True)
        bind_kept(tx, dataset.id, {owner: texts for owner, (_, texts) in owners.items()})
        known = {row[0] for row in tx.all(_IDS, space=space[0], digests=sorted(wanted))}
    lacking = {name for name, texts in owners.values() if not texts <= known}
    return sorted({name for name, _ in owners.values()} - lacking)


def unprepared_names(
    session: Session, dataset: Dataset, embed_sig: str, names: Collection[str] | None
) -> list[str]:
    """See `VectorRepo.waiting`, of a space that does not serve."""
    row = session.one(_SPACE, pk=dataset.id, sig=embed_sig)
    space = row[0] if row is not None else 0  # no row of any table has this id
    if names is None:
        found = session.all(_LACKING_SETS, pk=dataset.id, space=space)
        found += session.all(_LACKING_LAYERS, pk=dataset.id, space=space)
    else:
        named = list(names)
        found = session.all(_LACKING_SETS_AMONG, pk=dataset.id, space=space, names=named)
        found += session.all(_LACKING_LAYERS_AMONG, pk=dataset.id, space=space, names=named)
    return sorted({row[0] for row in found})


def kept_spaces(session: Session, dataset: Dataset | None) -> list[SpaceCount]:
    """See `VectorRepo.vector_spaces`."""
    rows = [] if dataset is None else session.all(_SPACES, pk=dataset.id)
    return [
        SpaceCount(space=dense(sig), dimension=width, vectors=int(count))
        for sig, width, count in rows
    ]


def drop_space(tx: Transaction, dataset: Dataset, embed_sig: str) -> bool:
    """See `VectorRepo.drop_space`."""
    space = tx.one(_ENTRIES, pk=dataset.id, sig=embed_sig)
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
    ids = store_vectors(tx, dataset.id, serving, bare)
    space = tx.one(_SPACE, pk=dataset.id, sig=serving)
    if space is None:
        return  # there was nothing to embed
    tx.run(_DROP_USES, space=space[0])
    tx.run(_KEEP_CHUNKS, pk=dataset.id, space=space[0])
    tx.run(_KEEP_LAYERS, pk=dataset.id, space=space[0])
    uses = {(space[0], owner, ids[digest]) for owner, some in texts.items() for digest in some}
    there = tx.all(_USES, space=space[0], owners=list(texts))
    tx.run_many(_ADD_USE, sorted(uses.difference(there)))
    tx.run(_MARK, space=space[0], flag=True)
