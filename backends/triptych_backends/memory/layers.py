"""Layers in memory."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Mapping, Sequence

import attrs

from triptych.contracts import rules
from triptych.records import (
    Candidate,
    DerivedLayer,
    Layer,
    LayerQuery,
    StoredUnit,
)
from triptych_backends.index import LocalSearcher
from triptych_backends.memory.dataset import FIELDS
from triptych_backends.memory.truth import Truth


class MemoryLayers:
    """`LayerRepo`, searched in this process."""

    in_process = True

    def __init__(self, truth: Truth, searcher: LocalSearcher) -> None:
        self._truth = truth
        self._searcher = searcher

    def put(self, layer: DerivedLayer) -> bool:
        with self._truth.writing() as truth:
            version = truth.read(layer.dataset_id).version(layer.doc_name)
            if not rules.may_put_layer(layer, version):
                return False
            truth.check_widths(layer.dataset_id, [(layer.sig.embed_sig, layer.vector)])
            truth.store_layer(layer)
            return True

    def get(
        self, dataset_id: str, doc_name: str, layer: Layer, *, vectors: bool = False
    ) -> DerivedLayer | None:
        with self._truth as truth:
            stored = truth.read(dataset_id).layers.get((doc_name, Layer(layer)))
        if stored is None or vectors:
            return stored.layer if stored else None
        return attrs.evolve(stored.layer, vector=None)

    def list(self, dataset_id: str, *, layer: Layer | None = None) -> Sequence[DerivedLayer]:
        with self._truth as truth:
            layers = truth.read(dataset_id).layers
            return [
                attrs.evolve(layers[place].layer, vector=None)
                for place in sorted(layers)
                if layer is None or place[1] == layer
            ]

    def page(
        self,
        dataset_id: str,
        layer: Layer,
        *,
        prefix: str = "",
        after: str | None = None,
        limit: int,
    ) -> Sequence[DerivedLayer]:
        with self._truth as truth:
            layers = truth.read(dataset_id).layers
            names = (
                name
                for name, kind in layers
                if kind == layer and name.startswith(prefix) and (after is None or name > after)
            )
            page = heapq.nsmallest(max(limit, 0), names)
            return [attrs.evolve(layers[name, layer].layer, vector=None) for name in page]

    def delete_by_doc(self, dataset_id: str, doc_name: str) -> None:
        with self._truth.writing() as truth:
            truth.remove_layers(dataset_id, doc_name)

    def delete_by_dataset(self, dataset_id: str) -> None:
        with self._truth.writing() as truth:
            dataset = truth.read(dataset_id)
            for name in {name for name, _ in dataset.layers}:
                truth.remove_layers(dataset_id, name)

    def search(self, query: LayerQuery) -> Sequence[Candidate]:
        return self._searcher.search(FIELDS[query.layer], query)

    def fetch(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        with self._truth as truth:
            found: dict[Hashable, StoredUnit] = {}
            for key in keys:
                dataset_id, name, kind = truth.place(key)
                if not isinstance(kind, Layer):
                    continue
                dataset = truth.read(dataset_id)
                made = dataset.layers.get((name, kind))
                if made is None or made.key != key:
                    continue
                layer = attrs.evolve(made.layer, vector=None)
                stored = dataset.documents.get(name)
                found[key] = StoredUnit(
                    key=key,
                    sig=layer.sig,
                    document=rules.copy_document(stored.info) if stored else None,
                    layer=layer,
                )
            return found
