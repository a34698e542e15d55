"""Layers in memory."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Hashable, Mapping, Sequence

import attrs

from triptych.contracts import rules
from triptych.records import (
    NO_CHUNK,
    Candidate,
    DerivedLayer,
    Layer,
    LayerQuery,
    ModelUsage,
    QuarantinedLayer,
    StoredUnit,
)
from triptych_backends.index import LocalSearcher
from triptych_backends.memory.dataset import FIELDS
from triptych_backends.memory.truth import Truth


class MemoryLayers:
    """`LayerRepo` and `LayerJournal`, searched in this process."""

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
            named = {name for name, _ in (*dataset.layers, *dataset.quarantined)}
            for name in named | set(dataset.checkpoints):
                truth.remove_layers(dataset_id, name)

    def search(self, query: LayerQuery) -> Sequence[Candidate]:
        return self._searcher.search(FIELDS[query.layer], query)

    def fetch(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        with self._truth as truth:
            found = {}
            for key in keys:
                dataset_id, name, kind = truth.places.get(key, ("", "", NO_CHUNK))
                if not isinstance(kind, Layer):
                    continue
                dataset = truth.read(dataset_id)
                layer = attrs.evolve(dataset.layers[name, kind].layer, vector=None)
                stored = dataset.documents.get(name)
                found[key] = StoredUnit(
                    key=key,
                    sig=layer.sig,
                    document=rules.copy_document(stored.info) if stored else None,
                    layer=layer,
                )
            return found

    # The journal

    def quarantine(self, quarantined: QuarantinedLayer) -> None:
        with self._truth.writing() as truth:
            truth.write(quarantined.dataset_id).quarantined[
                quarantined.doc_name, quarantined.layer
            ] = quarantined

    def release_quarantined(self, dataset_id: str, doc_name: str, layer: Layer) -> None:
        with self._truth.writing() as truth:
            if (doc_name, Layer(layer)) in truth.read(dataset_id).quarantined:
                del truth.write(dataset_id).quarantined[doc_name, Layer(layer)]

    def quarantined(self, dataset_id: str) -> Sequence[QuarantinedLayer]:
        with self._truth as truth:
            quarantined = truth.read(dataset_id).quarantined
            return [quarantined[place] for place in sorted(quarantined)]

    def record_usage(self, dataset_id: str, usage: ModelUsage) -> None:
        with self._truth.writing() as truth:
            known = truth.write(dataset_id).usage
            old = known.get(usage.model)
            known[usage.model] = old + usage if old else usage

    def usage(self, dataset_id: str) -> Sequence[ModelUsage]:
        with self._truth as truth:
            usage = truth.read(dataset_id).usage
            return [usage[model] for model in sorted(usage)]

    def put_checkpoint(self, dataset_id: str, doc_name: str, key: str, content: str) -> None:
        with self._truth.writing() as truth:
            checkpoints = truth.write(dataset_id).checkpoints
            checkpoints[doc_name] = {**checkpoints.get(doc_name, {}), key: content}

    def checkpoints(self, dataset_id: str, doc_name: str) -> Mapping[str, str]:
        with self._truth as truth:
            return dict(truth.read(dataset_id).checkpoints.get(doc_name, {}))

    def prune_checkpoints(self, dataset_id: str, doc_name: str, keys: Collection[str]) -> None:
        with self._truth.writing() as truth:
            old = truth.read(dataset_id).checkpoints.get(doc_name, {})
            kept = {key: note for key, note in old.items() if key in keys}
            if kept != old:
                truth.write(dataset_id).checkpoints[doc_name] = kept
            if old and not kept:
                del truth.write(dataset_id).checkpoints[doc_name]
