"""Figures of a store, for metrics and for ``triptych status``: counts without any names."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Final

import attrs

from triptych.errors import NotAvailableError
from triptych.records import CacheStats, DatasetStats
from triptych.service import Service


@attrs.frozen
class Figure:
    """A figure of a store, of all its datasets together: its name, its unit, and what it is.

    The name is Prometheus'. A counter counts from the beginning of the store.
    """

    name: str
    unit: str
    about: str
    is_counter: bool = False


FIGURES: Final = (
    Figure("triptych_store_datasets", "{dataset}", "Datasets."),
    Figure("triptych_store_documents", "{document}", "Documents."),
    Figure("triptych_store_chunks", "{chunk}", "Chunks."),
    Figure("triptych_store_vectors", "{chunk}", "Chunks that have a vector."),
    Figure("triptych_store_layers", "{layer}", "Abstracts and overviews."),
    Figure("triptych_store_source_bytes", "By", "Documents, as UTF-8."),
    Figure(
        "triptych_store_stale_documents",
        "{document}",
        "Documents whose chunks are missing or stale.",
    ),
    Figure(
        "triptych_store_pending_documents", "{document}", "Documents that wait for their vectors."
    ),
    Figure("triptych_store_pending_chunks", "{chunk}", "Chunks that wait for a vector."),
    Figure(
        "triptych_store_sparse_pending_documents",
        "{document}",
        "Documents that wait for their sparse vectors.",
    ),
    Figure("triptych_store_cached_answers", "{answer}", "Answers in the semantic cache."),
    Figure(
        "triptych_store_cache_hits",
        "{lookup}",
        "Lookups of the semantic cache that found an answer, by every process so far.",
        is_counter=True,
    ),
    Figure(
        "triptych_store_cache_misses",
        "{lookup}",
        "Lookups of the semantic cache that found none, by every process so far.",
        is_counter=True,
    ),
)


def figures(stats: Sequence[DatasetStats], cache: CacheStats | None) -> dict[str, int]:
    """The figures by name, in order; those of the cache only where there is one."""
    found = {
        "datasets": len(stats),
        "documents": sum(each.documents for each in stats),
        "chunks": sum(each.chunks for each in stats),
        "vectors": sum(each.vectors for each in stats),
        "layers": sum(each.layers for each in stats),
        "source_bytes": sum(each.size for each in stats),
        "stale_documents": sum(each.stale for each in stats),
        "pending_documents": sum(each.pending for each in stats),
        "pending_chunks": sum(each.pending_chunks for each in stats),
        "sparse_pending_documents": sum(each.sparse_pending for each in stats),
    }
    if cache is not None:
        found |= {
            "cached_answers": cache.entries,
            "cache_hits": cache.hits,
            "cache_misses": cache.misses,
        }
    return {f"triptych_store_{name}": value for name, value in found.items()}


class StoreFigures:
    """The figures of a Service's store, read again after some seconds only: they cost a scan of
    its indexes, and whoever scrapes often should not pay for it. Thread-safe."""

    def __init__(self, service: Service, *, seconds: float = 15.0) -> None:
        self._service = service
        self._seconds = seconds
        self._lock = threading.Lock()
        self._found: dict[str, int] = {}
        self._until = 0.0

    def __call__(self) -> dict[str, int]:
        """The figures, at most so many seconds old."""
        with self._lock:
            if time.monotonic() >= self._until:
                try:
                    cache: CacheStats | None = self._service.cache_stats()
                except NotAvailableError:
                    cache = None
                self._found = figures(self._service.stats(), cache)
                self._until = time.monotonic() + self._seconds
            return self._found
