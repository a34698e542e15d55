"""A `Filter` as the owners that pass it: sorted ids of documents or layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Select, bindparam, case, or_, select

from triptych.records import Filter, Layer
from triptych_backends.index import Field, Scored
from triptych_backends.sql import tables as t
from triptych_backends.sql.chunk_rows import headings_of
from triptych_backends.sql.database import Database
from triptych_backends.sql.dialect import in_list
from triptych_backends.sql.document_rows import pair_of
from triptych_backends.sql.prefixes import prefix_end
from triptych_backends.sql.session import Session
from triptych_backends.sql.transaction import LAYER_OF_FIELD, find_dataset

__all__ = ["SqlFilters"]

Ids = NDArray[np.int64]

_REVISIONS = select(t.document.c.id, t.document.c.revision).where(
    in_list(t.document.c.id, "owners")
)

_OF_DATASET = t.document.c.dataset_id == bindparam("dataset")
_NAMED = select(t.document.c.id).where(_OF_DATASET, in_list(t.document.c.name, "names"))
_TAGGED = select(t.document_meta.c.document_id).where(
    t.document_meta.c.dataset_id == bindparam("dataset"),
    t.document_meta.c.pair == bindparam("which"),
)
_FROM = select(t.document.c.id).where(_OF_DATASET, t.document.c.name >= bindparam("prefix"))
_BETWEEN = _FROM.where(t.document.c.name < bindparam("end"))
# `DerivedSig.stale_reason`: without a digest the version decides; no embedder means any.
_FRESH = (
    select(t.document.c.id)
    .join(t.derivation, t.derivation.c.document_id == t.document.c.id)
    .where(
        _OF_DATASET,
        case(
            (t.derivation.c.input_sig != "", t.derivation.c.input_sig == t.document.c.input_sig),
            else_=t.derivation.c.source_version >= t.document.c.version,
        ),
        t.derivation.c.chunker_sig == bindparam("chunker"),
        # A set that waits for vectors is of the newest text: it is not stale.
        or_(bindparam("embed") == "", t.derivation.c.embed_sig.in_(("", bindparam("embed")))),
    )
)
_HEADED = (
    select(t.chunk.c.document_id, t.chunk.c.heading_path)
    .join(t.document, t.document.c.id == t.chunk.c.document_id)
    .where(_OF_DATASET, t.chunk.c.heading_path.is_not(None))
    .distinct()
)
_LAYERS = (
    select(t.layer.c.id, t.layer.c.doc_name, t.document.c.id)
    .join(
        t.document,
        (t.document.c.dataset_id == t.layer.c.dataset_id)
        & (t.document.c.name == t.layer.c.doc_name),
        isouter=True,
    )
    .where(t.layer.c.dataset_id == bindparam("dataset"), t.layer.c.layer == bindparam("layer"))
)
# Only a document's layer is judged by its source: what a folder's is made from, other layers,
# is not in the database's reach.
_FRESH_LAYERS = _LAYERS.where(
    case(
        (t.document.c.id.is_(None), True),
        (t.layer.c.input_sig != "", t.layer.c.input_sig == t.document.c.content_sha256),
        else_=t.layer.c.source_version >= t.document.c.version,
    ),
    or_(bindparam("prompt") == "", t.layer.c.prompt_sig == bindparam("prompt")),
    or_(bindparam("embed") == "", t.layer.c.embed_sig.in_(("", bindparam("embed")))),
)


class SqlFilters:
    """`triptych_backends.index.Filters` over a `Database`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def owners(self, unit: Field, datasets: Sequence[str], where: Filter) -> Mapping[str, Ids]:
        """See `Filters.owners`.

        Of layers, name conditions hold for the layer's own name; metadata and headings are its
        document's, so that a folder's layer has none.
        """
        kind = LAYER_OF_FIELD.get(unit)
        with self._database.snapshot() as session:
            found = {name: find_dataset(session, name) for name in datasets}
            return {
                name: _documents(session, dataset.id, where)
                if kind is None
                else _layers(session, dataset.id, kind, where)
                for name, dataset in found.items()
                if dataset is not None
            }

    def document_keys(self, found: Sequence[Scored]) -> Mapping[int, int]:
        """See `Filters.document_keys`: revisions."""
        with self._database.reading() as session:
            return dict(session.all(_REVISIONS, owners=[row.owner for row in found]))


def _documents(session: Session, dataset: int, query: Filter) -> Ids:
    conditions = []
    if query.doc_names is not None:
        conditions.append(_ids(session, _NAMED, dataset=dataset, names=list(query.doc_names)))
    if query.doc_prefixes is not None:
        conditions.append(
            _union(_prefixed(session, dataset, prefix) for prefix in query.doc_prefixes)
        )
    for key, values in query.metadata.items():
        pairs = (pair_of(key, value) for value in values)
        conditions.append(
            _union(_ids(session, _TAGGED, dataset=dataset, which=pair) for pair in pairs)
        )
    if query.fresh is not None:
        fresh = query.fresh
        conditions.append(
            _ids(session, _FRESH, dataset=dataset, chunker=fresh.chunker_sig, embed=fresh.embed_sig)
        )
    if query.headings is not None:
        wanted = {heading.casefold() for heading in query.headings}
        rows = session.all(_HEADED, dataset=dataset)
        conditions.append(
            _sorted(
                pk
                for pk, path in rows
                if not wanted.isdisjoint(heading.casefold() for heading in headings_of(path))
            )
        )
    passing = conditions[0]
    for ids in conditions[1:]:
        passing = np.intersect1d(passing, ids, assume_unique=True)
    return passing


def _prefixed(session: Session, dataset: int, prefix: str) -> Ids:
    end = prefix_end(prefix)
    if end is None:
        # Above U+10FFFF there is no bound, and none is needed: nothing else comes behind.
        return _ids(session, _FROM, dataset=dataset, prefix=prefix)
    return _ids(session, _BETWEEN, dataset=dataset, prefix=prefix, end=end)


def _layers(session: Session, dataset: int, kind: Layer, where: Filter) -> Ids:
    if where.fresh is None:
        rows = session.all(_LAYERS, dataset=dataset, layer=str(kind))
    else:
        rows = session.all(
            _FRESH_LAYERS,
            dataset=dataset,
            layer=str(kind),
            prompt=where.fresh.prompt_sig,
            embed=where.fresh.embed_sig,
        )
    by_name = Filter(doc_names=where.doc_names, doc_prefixes=where.doc_prefixes)
    rows = [row for row in rows if by_name.admits(row[1], {})]
    if where.metadata or where.headings is not None:
        rest = Filter(metadata=where.metadata, headings=where.headings)
        documents = set(_documents(session, dataset, rest).tolist())
        rows = [row for row in rows if row[2] in documents]
    return _sorted(row[0] for row in rows)


def _ids(session: Session, statement: Select[tuple[int]], **parameters: object) -> Ids:
    return _sorted(row[0] for row in session.all(statement, **parameters))


def _sorted(ids: Iterable[int]) -> Ids:
    return np.unique(np.fromiter(ids, np.int64))


def _union(parts: Iterable[Ids]) -> Ids:
    return np.unique(np.concatenate([np.empty(0, np.int64), *parts]))
