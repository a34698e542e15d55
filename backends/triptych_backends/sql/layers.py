"""Layers of documents, folders and datasets."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import attrs

from triptych.contracts import rules
from triptych.records import (
    Candidate,
    DerivedLayer,
    DerivedSig,
    Layer,
    LayerQuery,
    StoredUnit,
)
from triptych.records.spaces import dense
from triptych.signatures import embedding_input_sig
from triptych_backends.sql import document_rows
from triptych_backends.sql.chunk_rows import integers, sig_of, text_checksum
from triptych_backends.sql.database import Repository
from triptych_backends.sql.deferred import (
    Upsert,
    bindparam,
    func,
    in_list,
    select,
    tables as t,
)
from triptych_backends.sql.deletes import remove_layers
from triptych_backends.sql.document_rows import info_in
from triptych_backends.sql.errors import DAMAGE, corrupt
from triptych_backends.sql.metadata_entries import prefix_end
from triptych_backends.sql.transaction import FIELD_OF_LAYER, Transaction, find_dataset
from triptych_backends.sql.vectors import decode_vector, delete_unreferenced_vectors, store_vectors

_l = t.layer.c
_COLUMNS = (
    _l.source_version,
    _l.chunker_sig,
    _l.prompt_sig,
    _l.embed_sig,
    _l.input_sig,
    _l.doc_name,
    _l.layer,
    _l.content,
    _l.checksum,
)
_ALL = (
    select(*_COLUMNS)
    .join(t.dataset, t.dataset.c.id == _l.dataset_id)
    .where(t.dataset.c.name == bindparam("dataset"))
    .order_by(_l.doc_name, _l.layer)
)
_OF_KIND = _ALL.where(_l.layer == bindparam("layer"))
_first = _OF_KIND.limit(bindparam("limit"))
_behind = _first.where(_l.doc_name > bindparam("after"))
# Each from the first name on, and after a name: in any names, in a range, and where there is
# no name above all those of the prefix.
_PAGES, _PAGES_RANGE, _PAGES_PREFIX = (
    (_first, _behind),
    tuple(
        page.where(_l.doc_name >= bindparam("prefix"), _l.doc_name < bindparam("end"))
        for page in (_first, _behind)
    ),
    tuple(
        page.where(
            _l.doc_name >= bindparam("prefix"),
            func.substr(_l.doc_name, 1, bindparam("length")) == bindparam("prefix"),
        )
        for page in (_first, _behind)
    ),
)
_GET = _OF_KIND.where(_l.doc_name == bindparam("name"))
_GET_WITH_VECTOR = (
    select(*_COLUMNS, t.space.c.dimension, t.vector.c.data)
    .join(t.dataset, t.dataset.c.id == _l.dataset_id)
    .join(t.vector, t.vector.c.id == _l.vector_id, isouter=True)
    .join(t.space, t.space.c.id == t.vector.c.space_id, isouter=True)
    .where(
        t.dataset.c.name == bindparam("dataset"),
        _l.layer == bindparam("layer"),
        _l.doc_name == bindparam("name"),
    )
)
_FETCH = (
    select(*document_rows.COLUMNS, *_COLUMNS, _l.revision, t.dataset.c.name)
    .select_from(t.layer)
    .join(t.dataset, t.dataset.c.id == _l.dataset_id)
    .join(
        t.document,
        (t.document.c.dataset_id == _l.dataset_id) & (t.document.c.name == _l.doc_name),
        isouter=True,
    )
    .where(in_list(t.layer.c.revision, "keys"))
)
_VERSION = select(t.document.c.version).where(
    t.document.c.dataset_id == bindparam("dataset"), t.document.c.name == bindparam("name")
)
_OLD = select(_l.id, _l.vector_id).where(
    _l.dataset_id == bindparam("dataset"),
    _l.doc_name == bindparam("name"),
    _l.layer == bindparam("layer"),
)
_PUT = Upsert(t.layer, ("id",))
_document = len(document_rows.COLUMNS)


class SqlLayers(Repository):
    """`LayerRepo` over a `Database`. A layer's key is the revision of its content."""

    def put(self, layer: DerivedLayer) -> bool:
        """See `LayerRepo.put`. Durable: what a model wrote costs money to make again."""
        name = layer.doc_name
        with self.database.writing(layer.dataset_id) as tx:
            dataset = find_dataset(tx, layer.dataset_id)
            found = tx.one(_VERSION, dataset=dataset.id, name=name) if dataset else None
            if not rules.may_put_layer(layer, found[0] if found else 0):
                return False
            pk = tx.dataset(layer.dataset_id).id if dataset is None else dataset.id
            write_layer(tx, pk, layer)
            return True

    def get(
        self, dataset_id: str, doc_name: str, layer: Layer, *, vectors: bool = False
    ) -> DerivedLayer | None:
        statement = _GET_WITH_VECTOR if vectors else _GET
        with self.database.reading() as session:
            row = session.one(statement, dataset=dataset_id, name=doc_name, layer=str(layer))
        if row is None:
            return None
        found = self._layer(dataset_id, row)
        if not vectors or row[-1] is None:
            return found
        return attrs.evolve(found, vector=decode_vector(row[-1], row[-2], self.where))

    def list(self, dataset_id: str, *, layer: Layer | None = None) -> Sequence[DerivedLayer]:
        with self.database.reading() as session:
            if layer is None:
                rows = session.all(_ALL, dataset=dataset_id)
            else:
                rows = session.all(_OF_KIND, dataset=dataset_id, layer=str(layer))
        return [self._layer(dataset_id, row) for row in rows]

    def page(
        self,
        dataset_id: str,
        layer: Layer,
        *,
        prefix: str = "",
        after: str | None = None,
        limit: int,
    ) -> Sequence[DerivedLayer]:
        end = prefix_end(prefix)
        pages = _PAGES if not prefix else _PAGES_PREFIX if end is None else _PAGES_RANGE
        with self.database.reading() as session:
            rows = session.all(
                pages[after is not None],
                dataset=dataset_id,
                layer=str(layer),
                limit=max(limit, 0),
                after=after,
                prefix=prefix,
                length=len(prefix),
                end=end,
            )
        return [self._layer(dataset_id, row) for row in rows]

    def delete_by_doc(self, dataset_id: str, doc_name: str) -> None:
        with self.database.writing(dataset_id) as tx:
            dataset = find_dataset(tx, dataset_id)
            if dataset is not None:
                remove_layers(tx, dataset.id, doc_name)

    def delete_by_dataset(self, dataset_id: str) -> None:
        with self.database.writing(dataset_id) as tx:
            dataset = find_dataset(tx, dataset_id)
            if dataset is not None:
                remove_layers(tx, dataset.id)

    def search(self, query: LayerQuery) -> Sequence[Candidate]:
        if query.layer is Layer.DETAIL:
            return []
        return self.find(FIELD_OF_LAYER[query.layer], query)

    def fetch(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        found: dict[Hashable, StoredUnit] = {}
        with self.database.reading() as session:
            rows = session.all(_FETCH, keys=list(integers(keys)))
        for row in rows:
            key, dataset = row[-2:]
            document = None if row[0] is None else info_in(row, dataset, self.where)
            layer = self._layer(dataset, row[_document:])
            found[key] = StoredUnit(key=key, sig=layer.sig, document=document, layer=layer)
        return found

    def _layer(self, dataset: str, row: Sequence[Any]) -> DerivedLayer:
        sig: DerivedSig = sig_of(row)
        try:
            if row[8] != text_checksum(row[7], row[5], row[6]):
                raise ValueError("it fails its checksum: write it again, or build it")
            return DerivedLayer(
                dataset_id=dataset, doc_name=row[5], layer=row[6], content=row[7].decode(), sig=sig
            )
        except DAMAGE as error:
            raise corrupt(self.where, f"layer {row[6]!r} of {row[5]!r}: {error}") from error


def write_layer(tx: Transaction, dataset: int, layer: DerivedLayer) -> None:
    """Store the layer in place of the old one, whatever it was made from."""
    pk, name, kind = dataset, layer.doc_name, str(layer.layer)
    old = tx.one(_OLD, dataset=pk, name=name, layer=kind)
    vector = None
    if layer.vector is not None:
        digest = embedding_input_sig(layer.content)
        stored = store_vectors(tx, pk, dense(layer.sig.embed_sig), {digest: layer.vector})
        vector = stored[digest]
    owner = old[0] if old else tx.ticks(1)
    revision = tx.log(pk, FIELD_OF_LAYER[layer.layer], owner)
    sig, content = layer.sig, layer.content.encode()
    row = (
        owner,
        pk,
        name,
        kind,
        revision,
        sig.source_version,
        sig.chunker_sig,
        sig.prompt_sig,
        sig.embed_sig,
        sig.input_sig,
        vector,
        content,
        text_checksum(content, name, kind),
    )
    tx.run_many(_PUT, [row])
    if old and old[1] is not None and old[1] != vector:
        delete_unreferenced_vectors(tx, [old[1]])
