"""Layers in memory."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import attrs

from triptych import rules
from triptych.records import NO_CHUNK, Candidate, DerivedLayer, Found, Layer, LayerQuery
from triptych_backends.memory.searching import Searching
from triptych_backends.memory.truth import FIELDS, Truth

__all__ = ["MemoryLayers"]


class MemoryLayers:
    """`LayerRepo`, searched in this process."""

    in_process = True

    def __init__(self, truth: Truth, searching: Searching) -> None:
        self._truth = truth
        self._searching = searching

    def put(self, layer: DerivedLayer) -> bool:
        with self._truth as truth:
            version = truth.read(layer.dataset_id).version(layer.doc_name)
            if not rules.may_put_layer(layer, version):
                return False
            truth.check_widths(layer.dataset_id, [(layer.sig.embed_sig, layer.vector)])
            truth.store_layer(layer)
            return True

    def get(self, dataset_id: str, doc_name: str, layer: Layer) -> DerivedLayer | None:
        with self._truth as truth:
            stored = truth.read(dataset_id).layers.get((doc_name, Layer(layer)))
            return attrs.evolve(stored.layer, vector=None) if stored else None

    def list(self, dataset_id: str, *, layer: Layer | None = None) -> Sequence[DerivedLayer]:
        with self._truth as truth:
            layers = truth.read(dataset_id).layers
            return [
                attrs.evolve(layers[place].layer, vector=None)
                for place in sorted(layers)
                if layer is None or place[1] == layer
            ]

    def delete_by_doc(self, dataset_id: str, doc_name: str) -> None:
        with self._truth as truth:
            truth.remove_layers(dataset_id, doc_name)

    def delete_by_dataset(self, dataset_id: str) -> None:
        with self._truth as truth:
            for name in {name for name, _ in truth.read(dataset_id).layers}:
                truth.remove_layers(dataset_id, name)

    def search(self, query: LayerQuery) -> Sequence[Candidate]:
        return self._searching.search(query, FIELDS[query.layer])

    def fetch(self, keys: Sequence[Hashable]) -> Mapping[Hashable, Found]:
        with self._truth as truth:
            found = {}
            for key in keys:
                dataset_id, name, kind = truth.places.get(key, ("", "", NO_CHUNK))
                if not isinstance(kind, Layer):
                    continue
                dataset = truth.read(dataset_id)
                layer = attrs.evolve(dataset.layers[name, kind].layer, vector=None)
                stored = dataset.documents.get(name)
                found[key] = Found(
                    key=key,
                    sig=layer.sig,
                    document=rules.own_copy(stored.info) if stored else None,
                    layer=layer,
                )
            return found
