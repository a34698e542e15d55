"""A journal for stores that keep none: it lasts as long as its builder."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from triptych.records import Layer, ModelUsage, ParkedLayer

__all__ = ["PassingJournal"]


class PassingJournal:
    """`LayerJournal` in this object's memory. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parked: dict[tuple[str, str, Layer], ParkedLayer] = {}
        self._usage: dict[tuple[str, str], ModelUsage] = {}
        self._notes: defaultdict[tuple[str, str], dict[str, str]] = defaultdict(dict)

    def park(self, parked: ParkedLayer) -> None:
        """See `LayerJournal.park`."""
        with self._lock:
            self._parked[parked.dataset_id, parked.doc_name, parked.layer] = parked

    def unpark(self, dataset_id: str, doc_name: str, layer: Layer) -> None:
        """See `LayerJournal.unpark`."""
        with self._lock:
            self._parked.pop((dataset_id, doc_name, layer), None)

    def parked(self, dataset_id: str) -> Sequence[ParkedLayer]:
        """See `LayerJournal.parked`."""
        with self._lock:
            return [self._parked[key] for key in sorted(self._parked) if key[0] == dataset_id]

    def charge(self, dataset_id: str, usage: ModelUsage) -> None:
        """See `LayerJournal.charge`."""
        with self._lock:
            old = self._usage.get((dataset_id, usage.model))
            self._usage[dataset_id, usage.model] = old + usage if old else usage

    def usage(self, dataset_id: str) -> Sequence[ModelUsage]:
        """See `LayerJournal.usage`."""
        with self._lock:
            return [self._usage[key] for key in sorted(self._usage) if key[0] == dataset_id]

    def put_note(self, dataset_id: str, doc_name: str, key: str, content: str) -> None:
        """See `LayerJournal.put_note`."""
        with self._lock:
            self._notes[dataset_id, doc_name][key] = content

    def notes(self, dataset_id: str, doc_name: str) -> Mapping[str, str]:
        """See `LayerJournal.notes`."""
        with self._lock:
            return dict(self._notes.get((dataset_id, doc_name), {}))

    def keep_notes(self, dataset_id: str, doc_name: str, keys: Collection[str]) -> None:
        """See `LayerJournal.keep_notes`."""
        with self._lock:
            notes = self._notes.pop((dataset_id, doc_name), {})
            kept = {key: note for key, note in notes.items() if key in keys}
            if kept:
                self._notes[dataset_id, doc_name] = kept
