"""Spans and metrics for OpenTelemetry. It uses only the API: the program provides the SDK."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextvars import Token
from typing import Any, Final

from opentelemetry import context, metrics, propagate, trace
from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider

import triptych
from triptych.telemetry import Observation, Operation, Value
from triptych_server.telemetry.metrics import (
    BUCKETS,
    FIGURES,
    METRICS,
    MODEL_CALLS,
    UNDER_WAY,
    Figure,
    Metric,
    measurements,
    outcome_of,
)

_SCOPE: Final = "triptych"
_NAMES: Final = {
    # The semantic conventions of OpenTelemetry, for requests and for models.
    "method": "http.request.method",
    "route": "http.route",
    "status": "http.response.status_code",
    "model": "gen_ai.request.model",
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
}


class OpenTelemetryObserver:
    """Creates a span for each operation and updates metrics.

    A search is a span with child spans for its lanes and model calls; its stages are attributes, in
    seconds. A request continues the trace in its headers, unless a span is already current. Spans
    have no texts of queries or documents and no names of documents or datasets. Errors are recorded
    only by type, because messages may quote queries.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        figures: Callable[[], Mapping[str, int]] | None = None,
    ) -> None:
        """None uses the global providers; ``figures`` are metrics of a store (`StoreFigures`)."""
        version = triptych.__version__
        self._tracer = trace.get_tracer(_SCOPE, version, tracer_provider)
        meter = metrics.get_meter(_SCOPE, version, meter_provider)
        self._instruments = {each.name: _made(each, meter) for each in METRICS}
        if figures is not None:
            for each in FIGURES:
                _observed(each, meter, figures)

    def begin(self, operation: Operation) -> Observation:
        """See `Observer.begin`."""
        kind, parent = SpanKind.INTERNAL, None
        if operation.name == "request":
            kind = SpanKind.SERVER
            self._instruments[UNDER_WAY.name].add(1)
            if not trace.get_current_span().get_span_context().is_valid:
                parent = propagate.extract(dict(operation.carrier))
        elif operation.name in MODEL_CALLS:
            kind = SpanKind.CLIENT
        span = self._tracer.start_span(_span_name(operation), context=parent, kind=kind)
        return _Spanned(self, operation, span)

    def count(self, operation: Operation) -> None:
        """Add an ended operation to the metrics."""
        if operation.name == "request":
            self._instruments[UNDER_WAY.name].add(-1)
        for each in measurements(operation):
            instrument = self._instruments[each.metric.name]
            labels = dict(zip(each.metric.labels, each.labels, strict=True))
            if each.metric.kind == "histogram":
                instrument.record(each.value, labels)
            else:
                instrument.add(each.value, labels)


class _Spanned(Observation):
    """A span that is current while its operation is."""

    def __init__(self, observer: OpenTelemetryObserver, operation: Operation, span: Span) -> None:
        self._observer = observer
        self._operation = operation
        self._span = span
        self._tokens: list[Token[Context]] = []

    def enter(self) -> None:
        self._tokens.append(context.attach(trace.set_span_in_context(self._span)))

    def leave(self) -> None:
        context.detach(self._tokens.pop())

    def end(self) -> None:
        span, operation = self._span, self._operation
        if span.is_recording():
            span.update_name(_span_name(operation))
            span.set_attributes(_attributes(operation))
            if operation.error is not None:
                span.set_attribute("error.type", outcome_of(operation))
                span.set_status(Status(StatusCode.ERROR))
        # Counted while the span is current: exemplars name it.
        token = context.attach(trace.set_span_in_context(span))
        try:
            self._observer.count(operation)
        finally:
            context.detach(token)
            span.end()


def _span_name(operation: Operation) -> str:
    said = operation.attributes
    if operation.name == "request":
        return " ".join(filter(None, (str(said.get("method", "")), str(said.get("route", "")))))
    if operation.name == "lane":
        return f"triptych.lane {said.get('lane', '')}"
    return f"triptych.{operation.name}"


def _attributes(operation: Operation) -> dict[str, Value]:
    own = {_NAMES.get(key, f"triptych.{key}"): each for key, each in operation.attributes.items()}
    stages = {f"triptych.stage.{key}.seconds": each for key, each in operation.stages.items()}
    return own | stages


def _made(metric: Metric, meter: Meter) -> Any:
    name, unit, about = metric.name, metric.unit, metric.about
    if metric.kind == "histogram":
        return meter.create_histogram(
            name, unit, about, explicit_bucket_boundaries_advisory=BUCKETS
        )
    if metric.kind == "counter":
        return meter.create_counter(name, unit, about)
    return meter.create_up_down_counter(name, unit, about)


def _observed(figure: Figure, meter: Meter, figures: Callable[[], Mapping[str, int]]) -> None:
    """Create an observable instrument for one metric of the store."""

    def read(options: CallbackOptions) -> Iterable[metrics.Observation]:
        value = figures().get(figure.name)
        return [] if value is None else [metrics.Observation(value)]

    name = figure.name.replace("triptych_store_", "triptych.store.")
    if figure.is_counter:
        meter.create_observable_counter(name, [read], figure.unit, figure.about)
    else:
        meter.create_observable_gauge(name, [read], figure.unit, figure.about)
