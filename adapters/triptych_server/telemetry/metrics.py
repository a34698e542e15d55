"""The table of metrics of a process and of a store, for Prometheus and OpenTelemetry."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Final, Literal

import attrs

from triptych.errors import NotAvailableError
from triptych.records import CacheStats, DatasetStats
from triptych.service import KnowledgeBase
from triptych.telemetry import Operation


@attrs.frozen
class Figure:
    """A metric of a store over all its datasets: Prometheus name, unit and description.

    A counter counts from the creation of the store.
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
        "triptych_store_further_pending_documents",
        "{document}",
        "Documents that wait for vectors of other models than the embedder.",
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
    """Return the metrics of a store by name, in order; those of the cache only if there is one."""
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
        "further_pending_documents": sum(each.further_pending for each in stats),
    }
    if cache is not None:
        found |= {
            "cached_answers": cache.entries,
            "cache_hits": cache.hits,
            "cache_misses": cache.misses,
        }
    return {f"triptych_store_{name}": value for name, value in found.items()}


class StoreFigures:
    """The metrics of a Service's store, cached for some seconds, because reading them scans its
    indexes. Thread-safe."""

    def __init__(self, service: KnowledgeBase, *, seconds: float = 15.0) -> None:
        self._service = service
        self._seconds = seconds
        self._lock = threading.Lock()
        self._found: dict[str, int] = {}
        self._until = 0.0

    def __call__(self) -> dict[str, int]:
        """Return the metrics, at most as old as the cache time."""
        with self._lock:
            if time.monotonic() >= self._until:
                try:
                    cache: CacheStats | None = self._service.cache_stats()
                except NotAvailableError:
                    cache = None
                self._found = figures(self._service.stats(), cache)
                self._until = time.monotonic() + self._seconds
            return self._found


# Metrics of a process

BUCKETS: Final = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
"""Upper bounds of histograms, in seconds."""


@attrs.frozen
class Metric:
    """A metric of this process.

    Attributes:
        name: the name for OpenTelemetry; see `prometheus_name`.
        kind: the kind of instrument; "up-down" is a gauge for Prometheus.
        unit: "s" is seconds; "{…}" counts.
        about: the description.
        labels: the names of its labels.
    """

    name: str
    kind: Literal["histogram", "counter", "up-down"]
    unit: str
    about: str
    labels: tuple[str, ...] = ()

    @property
    def prometheus_name(self) -> str:
        """The name without ``_total``, which the exposition of a counter adds."""
        name = self.name.replace(".", "_")
        return f"{name}_seconds" if self.unit == "s" else name


@attrs.frozen
class Measurement:
    """A value for a metric; ``labels`` are in the metric's order."""

    metric: Metric
    value: float
    labels: tuple[str, ...] = ()


def _seconds(name: str, about: str, labels: str) -> Metric:
    return Metric(name, "histogram", "s", about, tuple(labels.split()))


def _count(name: str, unit: str, about: str, labels: str = "") -> Metric:
    return Metric(name, "counter", unit, about, tuple(labels.split()))


_SEARCH = _seconds(
    "triptych.search.duration",
    "Searches. A search of many queries, or for a context, is one.",
    "target mode outcome",
)
_STAGE = _seconds(
    "triptych.search.stage.duration",
    "Stages of searches; retrieve includes the lanes and fuse.",
    "stage",
)
_LANE = _seconds("triptych.search.lane.duration", "Lanes of searches.", "lane outcome")
_EMPTY = _count("triptych.search.empty", "{search}", "Searches without a hit.", "target")
_CACHE = _count("triptych.cache.lookups", "{lookup}", "Lookups of the semantic cache.", "result")
_OPERATION = _seconds(
    "triptych.operation.duration",
    "Puts, deletes, rebuilds, embeddings of what is pending, contexts, questions.",
    "operation outcome",
)
_DOCUMENTS = _count(
    "triptych.documents.processed",
    "{document}",
    "Documents that were put, deleted, rebuilt or embedded; outcome is of the document.",
    "operation outcome",
)
_CHUNKS = _count("triptych.chunks.derived", "{chunk}", "Chunks that puts derived.")
_MODEL = _seconds(
    "triptych.model.call.duration",
    "Calls of models: embed, encode (sparse), rerank, generate.",
    "operation model outcome",
)
_TEXTS = _count(
    "triptych.model.texts",
    "{text}",
    "Texts that embedders, sparse encoders and rerankers were given.",
    "operation model",
)
_TOKENS = _count(
    "triptych.model.tokens",
    "{token}",
    "Tokens of language models; estimated where the model does not say.",
    "model direction",
)
_COST = _count(
    "triptych.model.cost",
    "{cost}",
    "Cost of language models, in the currency of the prices that were given.",
    "model",
)
_REQUEST = _seconds(
    "triptych.http.request.duration",
    "Requests over HTTP, to their last byte.",
    "method route status",
)
UNDER_WAY: Final = Metric(
    "triptych.http.requests.under_way",
    "up-down",
    "{request}",
    "Requests over HTTP that are being answered, or wait for a thread.",
)

METRICS: Final = (
    *(_SEARCH, _STAGE, _LANE, _EMPTY, _CACHE, _OPERATION, _DOCUMENTS, _CHUNKS),
    *(_MODEL, _TEXTS, _TOKENS, _COST, _REQUEST, UNDER_WAY),
)

MODEL_CALLS: Final = frozenset({"embed", "encode", "rerank", "generate"})
"""The operations that are calls of models."""


def outcome_of(operation: Operation) -> str:
    """Return ``ok``, or the name of the operation's error."""
    return "ok" if operation.error is None else type(operation.error).__name__


def measurements(operation: Operation) -> Iterator[Measurement]:
    """Return the values that an ended operation adds to the metrics."""
    name, outcome, seconds = operation.name, outcome_of(operation), operation.seconds
    if name == "search":
        yield from _of_search(operation, outcome)
    elif name == "lane":
        yield Measurement(_LANE, seconds, (_text(operation, "lane"), outcome))
    elif name in MODEL_CALLS:
        yield from _of_model(operation, outcome)
    elif name == "request":
        labels = tuple(_text(operation, each) for each in _REQUEST.labels)
        yield Measurement(_REQUEST, seconds, labels)
    else:
        yield Measurement(_OPERATION, seconds, (name, outcome))
        if chunks := _number(operation, "chunks"):
            yield Measurement(_CHUNKS, chunks)
        for key, became in (("documents", "ok"), ("failed", "failed")):
            if count := _number(operation, key):
                yield Measurement(_DOCUMENTS, count, (name, became))


def _of_search(operation: Operation, outcome: str) -> Iterator[Measurement]:
    target = _text(operation, "target")
    yield Measurement(_SEARCH, operation.seconds, (target, _text(operation, "mode"), outcome))
    for stage, seconds in operation.stages.items():
        yield Measurement(_STAGE, seconds, (stage,))
    if operation.attributes.get("hits") == 0 and target in ("chunk", "document"):
        yield Measurement(_EMPTY, 1, (target,))
    for key, result in (("cache_hits", "hit"), ("cache_misses", "miss")):
        if count := _number(operation, key):
            yield Measurement(_CACHE, count, (result,))


def _of_model(operation: Operation, outcome: str) -> Iterator[Measurement]:
    model = _text(operation, "model")
    yield Measurement(_MODEL, operation.seconds, (operation.name, model, outcome))
    if texts := _number(operation, "texts"):
        yield Measurement(_TEXTS, texts, (operation.name, model))
    for key, direction in (("input_tokens", "input"), ("output_tokens", "output")):
        if tokens := _number(operation, key):
            yield Measurement(_TOKENS, tokens, (model, direction))
    if cost := _number(operation, "cost"):
        yield Measurement(_COST, cost, (model,))


def _text(operation: Operation, key: str) -> str:
    return str(operation.attributes.get(key, ""))


def _number(operation: Operation, key: str) -> float:
    found = operation.attributes.get(key, 0)
    return 0 if isinstance(found, str) else found
