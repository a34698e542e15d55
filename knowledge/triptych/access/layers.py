"""The layers of a restricted caller."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import attrs

from triptych.access.chunks import ReadTexts, visible_units
from triptych.access.view import AccessView
from triptych.derivation.folder_tree import is_folder
from triptych.records import (
    Candidate,
    Condition,
    DerivedLayer,
    DocumentInfo,
    Filter,
    FilterTree,
    Layer,
    LayerQuery,
    StoredUnit,
)
from triptych.records.filters import VERSION, all_of
from triptych.signatures import embedding_input_sig

_OF_A_DOCUMENT = Condition(VERSION, "exists")
"""Folders and datasets have no version."""


@attrs.frozen(eq=False)
class AccessLayers:
    """A `LayerRepo` of what an access shows.

    Under a filter there are no layers of folders and datasets: they sum up documents that may not
    be the caller's.
    """

    _view: AccessView
    _seen: ReadTexts

    def put(self, layer: DerivedLayer) -> bool:
        view = self._view
        view.check_write(layer.dataset_id)
        if view.tree is not None:
            if is_folder(layer.doc_name):
                view.check_whole(layer.dataset_id, "a layer of a folder or a dataset")
            if view.info(layer.dataset_id, layer.doc_name) is None:
                return False
        if view.reviews(layer.dataset_id):
            stored = view.store.layers.get(layer.dataset_id, layer.doc_name, layer.layer)
            if stored is None or stored.content != layer.content:  # not only another vector
                view.check_unreviewed(layer.dataset_id, "the text of a layer")
        return view.store.layers.put(layer)

    def get(
        self, dataset_id: str, doc_name: str, layer: Layer, *, vectors: bool = False
    ) -> DerivedLayer | None:
        view = self._view
        if not view.access.names(dataset_id):
            return None
        if view.tree is None:
            return view.store.layers.get(dataset_id, doc_name, layer, vectors=vectors)
        info = None if is_folder(doc_name) else view.info(dataset_id, doc_name)
        if info is None:
            return None
        found = view.store.layers.get(dataset_id, doc_name, layer, vectors=vectors)
        return _shown(view, found, info)

    def list(self, dataset_id: str, *, layer: Layer | None = None) -> Sequence[DerivedLayer]:
        view = self._view
        if not view.access.names(dataset_id):
            return []
        return self._visible(dataset_id, view.store.layers.list(dataset_id, layer=layer))

    def page(
        self,
        dataset_id: str,
        layer: Layer,
        *,
        prefix: str = "",
        after: str | None = None,
        limit: int,
    ) -> Sequence[DerivedLayer]:
        view = self._view
        if not view.access.names(dataset_id):
            return []
        if view.tree is None:
            return view.store.layers.page(
                dataset_id, layer, prefix=prefix, after=after, limit=limit
            )
        found: list[DerivedLayer] = []
        while len(found) < limit:
            page = view.store.layers.page(
                dataset_id, layer, prefix=prefix, after=after, limit=limit
            )
            found += self._visible(dataset_id, page)
            if len(page) < limit:
                break
            after = page[-1].doc_name
        return found[: max(limit, 0)]

    def _visible(self, dataset_id: str, layers: Sequence[DerivedLayer]) -> Sequence[DerivedLayer]:
        view = self._view
        if view.tree is None:
            return layers
        names = [each.doc_name for each in layers if not is_folder(each.doc_name)]
        there = view.infos(dataset_id, names)
        shown = [
            each
            for each in layers
            if each.doc_name in there and _shown(view, each, there[each.doc_name]) is not None
        ]
        self._seen.add(dataset_id, [embedding_input_sig(each.content) for each in shown])
        return shown

    def delete_by_doc(self, dataset_id: str, doc_name: str) -> None:
        view = self._view
        view.check_write(dataset_id)
        if view.tree is None or view.info(dataset_id, doc_name) is not None:
            view.store.layers.delete_by_doc(dataset_id, doc_name)

    def delete_by_dataset(self, dataset_id: str) -> None:
        self._view.check_whole(dataset_id, "deleting all its layers")
        self._view.store.layers.delete_by_dataset(dataset_id)

    def search(self, query: LayerQuery) -> Sequence[Candidate]:
        """See `LayerRepo.search`; the statistics are those of the caller's layers."""
        view = self._view
        return view.store.layers.search(
            attrs.evolve(
                query,
                dataset_ids=view.named(query.dataset_ids),
                filter=_of_documents(view.tree, query.filter),
            )
        )

    def fetch(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        return visible_units(self._view, self._view.store.layers.fetch(keys))

    @property
    def in_process(self) -> bool:
        return self._view.store.layers.in_process


def _shown(view: AccessView, layer: DerivedLayer | None, info: DocumentInfo) -> DerivedLayer | None:
    """``layer`` of the document ``info``, None if it sums up a state that is not the caller's."""
    if layer is None or not view.shows_derived(info, layer.sig, info.content_sha256):
        return None
    return layer


def _of_documents(tree: FilterTree | None, asked: Filter) -> Filter:
    """``asked`` of the layers of documents that pass ``tree``."""
    return asked if tree is None else asked.bounded(all_of(tree, _OF_A_DOCUMENT))
