"""A journal for stores that keep none: it lasts as long as its builder."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from triptych.records import Layer, ModelUsage, QuarantinedLayer

__all__ = ["InMemoryLayerJournal"]


class InMemoryLayerJournal:
    """`LayerJournal` in this object's memory. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._quarantined: dict[tuple[str, str, Layer], QuarantinedLayer] = {}
        self._usage: dict[tuple[str, str], ModelUsage] = {}
        self._notes: defaultdict[tuple[str, str], dict[str, str]] = defaultdict(dict)

    def quarantine(self, quarantined: QuarantinedLayer) -> None:
        """See `LayerJournal.quarantine`."""
        with self._lock:
            self._quarantined[quarantined.dataset_id, quarantined.doc_name, quarantined.layer] = (
                quarantined
            )

    def release_quarantined(self, dataset_id: str, doc_name: str, layer: Layer) -> None:
        """See `LayerJournal.release_quarantined`."""
        with self._lock:
            self._quarantined.pop((dataset_id, doc_name, layer), None)

    def quarantined(self, dataset_id: str) -> Sequence[QuarantinedLayer]:
        """See `LayerJournal.quarantined`."""
        with self._lock:
            return [
                self._quarantined[key] for key in sorted(self._quarantined) if key[0] == dataset_id
            ]

    def record_usage(self, dataset_id: str, usage: ModelUsage) -> None:
        """See `LayerJournal.record_usage`."""
        with self._lock:
            old = self._usage.get((dataset_id, usage.model))
            self._usage[dataset_id, usage.model] = old + usage if old else usage

    def usage(self, dataset_id: str) -> Sequence[ModelUsage]:
        """See `LayerJournal.usage`."""
        with self._lock:
            return [self._usage[key] for key in sorted(self._usage) if key[0] == dataset_id]

    def put_checkpoint(self, dataset_id: str, doc_name: str, key: str, content: str) -> None:
        """See `LayerJournal.put_checkpoint`."""
        with self._lock:
            self._notes[dataset_id, doc_name][key] = content

    def checkpoints(self, dataset_id: str, doc_name: str) -> Mapping[str, str]:
        """See `LayerJournal.checkpoints`."""
        with self._lock:
            return dict(self._notes.get((dataset_id, doc_name), {}))

    def prune_checkpoints(self, dataset_id: str, doc_name: str, keys: Collection[str]) -> None:
        """See `LayerJournal.prune_checkpoints`."""
        with self._lock:
            checkpoints = self._notes.pop((dataset_id, doc_name), {})
            kept = {key: note for key, note in checkpoints.items() if key in keys}
            if kept:
                self._notes[dataset_id, doc_name] = kept
