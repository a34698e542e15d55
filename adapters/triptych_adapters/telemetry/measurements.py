"""The metrics, and what an operation adds to them: one table for Prometheus and OpenTelemetry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

import attrs

from triptych.telemetry import Operation

BUCKETS: Final = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
"""Upper bounds of histograms, in seconds."""


@attrs.frozen(kw_only=True)
class Metric:
    """A metric of this process.

    Attributes:
        name: as OpenTelemetry has it; `prometheus_name` is the other.
        kind: how it is counted; "up-down" is a gauge for Prometheus.
        unit: "s" is seconds; "{…}" counts.
        about: what it is.
        labels: what it is counted by.
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
    """A number for a metric; ``labels`` are in the metric's order."""

    metric: Metric
    value: float
    labels: tuple[str, ...] = ()


_SEARCH = Metric(
    name="triptych.search.duration",
    kind="histogram",
    unit="s",
    about="Searches. A search of many queries, or for a context, is one.",
    labels=("target", "mode", "outcome"),
)
_STAGE = Metric(
    name="triptych.search.stage.duration",
    kind="histogram",
    unit="s",
    about="Stages of searches; retrieve includes the lanes and fuse.",
    labels=("stage",),
)
_LANE = Metric(
    name="triptych.search.lane.duration",
    kind="histogram",
    unit="s",
    about="Lanes of searches.",
    labels=("lane", "outcome"),
)
_EMPTY = Metric(
    name="triptych.search.empty",
    kind="counter",
    unit="{search}",
    about="Searches without a hit.",
    labels=("target",),
)
_CACHE = Metric(
    name="triptych.cache.lookups",
    kind="counter",
    unit="{lookup}",
    about="Lookups of the semantic cache.",
    labels=("result",),
)
_OPERATION = Metric(
    name="triptych.operation.duration",
    kind="histogram",
    unit="s",
    about="Puts, deletes, rebuilds, embeddings of what is pending, contexts, questions.",
    labels=("operation", "outcome"),
)
_DOCUMENTS = Metric(
    name="triptych.documents.processed",
    kind="counter",
    unit="{document}",
    about="Documents that were put, deleted, rebuilt or embedded; outcome is of the document.",
    labels=("operation", "outcome"),
)
_CHUNKS = Metric(
    name="triptych.chunks.derived",
    kind="counter",
    unit="{chunk}",
    about="Chunks that puts derived.",
)
_MODEL = Metric(
    name="triptych.model.call.duration",
    kind="histogram",
    unit="s",
    about="Calls of models: embed, encode (sparse), rerank, generate.",
    labels=("operation", "model", "outcome"),
)
_TEXTS = Metric(
    name="triptych.model.texts",
    kind="counter",
    unit="{text}",
    about="Texts that embedders, sparse encoders and rerankers were given.",
    labels=("operation", "model"),
)
_TOKENS = Metric(
    name="triptych.model.tokens",
    kind="counter",
    unit="{token}",
    about="Tokens of language models; estimated where the model does not say.",
    labels=("model", "direction"),
)
_COST = Metric(
    name="triptych.model.cost",
    kind="counter",
    unit="{cost}",
    about="Cost of language models, in the currency of the prices that were given.",
    labels=("model",),
)
_REQUEST = Metric(
    name="triptych.http.request.duration",
    kind="histogram",
    unit="s",
    about="Requests over HTTP, to their last byte.",
    labels=("method", "route", "status"),
)
UNDER_WAY: Final = Metric(
    name="triptych.http.requests.under_way",
    kind="up-down",
    unit="{request}",
    about="Requests over HTTP that are being answered, or wait for a thread.",
)

METRICS: Final = (
    *(_SEARCH, _STAGE, _LANE, _EMPTY, _CACHE, _OPERATION, _DOCUMENTS, _CHUNKS),
    *(_MODEL, _TEXTS, _TOKENS, _COST, _REQUEST, UNDER_WAY),
)

_MODELS: Final = frozenset({"embed", "encode", "rerank", "generate"})


def outcome_of(operation: Operation) -> str:
    """``ok``, or the name of the error that an operation ended with."""
    return "ok" if operation.error is None else type(operation.error).__name__


def measurements(operation: Operation) -> Iterator[Measurement]:
    """What an operation that has ended adds to the metrics."""
    name, outcome, seconds = operation.name, outcome_of(operation), operation.seconds
    if name == "search":
        yield from _of_search(operation, outcome)
    elif name == "lane":
        yield Measurement(_LANE, seconds, (_text(operation, "lane"), outcome))
    elif name in _MODELS:
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
