"""Spans and metrics with OpenTelemetry's own SDK."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import attrs
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import triptych
from support.asgi import Client
from triptych import Service, telemetry
from triptych.records import Generation, Message, Prices, Usage
from triptych_server.http import create_app
from triptych_server.http.workers import observe_serving
from triptych_server.telemetry import OpenTelemetryObserver, StoreFigures

SECRET = "Zanzibar"


class Writer:
    """A language model that cites its first source."""

    signature = "writer/1"

    def generate(self, messages: Sequence[Message], *, max_tokens: int) -> Generation:
        return Generation("Tea is hot [1].", usage=Usage(input_tokens=70, output_tokens=5))

    def stream(self, messages: Sequence[Message], *, max_tokens: int) -> Iterator[str]:
        yield "Tea is "
        yield "hot [1]."


@attrs.frozen
class Observed:
    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader
    tracing: TracerProvider

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        """The spans by name; the last of each."""
        return {each.name: each for each in self.exporter.get_finished_spans()}

    def parents(self) -> dict[str, str]:
        """The name of each span's parent."""
        names = {each.context.span_id: each.name for each in self.exporter.get_finished_spans()}
        return {
            each.name: names.get(each.parent.span_id, "") if each.parent else ""
            for each in self.exporter.get_finished_spans()
        }

    def points(self, name: str) -> list[Any]:
        data = self.reader.get_metrics_data()
        assert data is not None
        return [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


@pytest.fixture
def kb() -> Iterator[Service]:
    with triptych.open("memory://", embedder="hash", llm=Writer()) as service:
        service.put_document(SECRET, f"{SECRET}.md", f"# Tea\n\nTea is hot in {SECRET}.\n")
        yield service


@pytest.fixture
def observed(kb: Service) -> Iterator[Observed]:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracing, metering = TracerProvider(), MeterProvider([reader])
    tracing.add_span_processor(SimpleSpanProcessor(exporter))
    observer = OpenTelemetryObserver(
        tracer_provider=tracing, meter_provider=metering, figures=StoreFigures(kb, seconds=0)
    )
    stop = telemetry.observe(observer)
    yield Observed(exporter, reader, tracing)
    stop()
    metering.shutdown()
    tracing.shutdown()


def test_a_search_is_a_span_with_its_lanes_and_its_embedding(
    kb: Service, observed: Observed
) -> None:
    kb.search("tea", dataset_id=SECRET)
    assert observed.parents() == {
        "triptych.search": "",
        "triptych.lane bm25": "triptych.search",
        "triptych.lane vector": "triptych.search",
        "triptych.embed": "triptych.search",
    }
    search = observed.spans["triptych.search"]
    assert search.attributes is not None
    assert search.attributes["triptych.mode"] == "hybrid"
    assert search.attributes["triptych.stage.hydrate.seconds"] > 0  # type: ignore[operator]
    assert observed.spans["triptych.embed"].kind is SpanKind.CLIENT
    (point,) = observed.points("triptych.search.duration")
    assert (point.count, dict(point.attributes)) == (
        1,
        {"target": "chunk", "mode": "hybrid", "outcome": "ok"},
    )
    lanes = observed.points("triptych.search.lane.duration")
    assert {each.attributes["lane"] for each in lanes} == {"bm25", "vector"}


def test_a_question_costs_tokens_and_money(kb: Service, observed: Observed) -> None:
    kb.ask("Is tea hot?", dataset_id=SECRET, prices=Prices(input=1.0, output=2.0))
    attributes = observed.spans["triptych.generate"].attributes
    assert attributes is not None
    assert attributes["gen_ai.request.model"] == "writer/1"
    assert attributes["gen_ai.usage.input_tokens"] == 70
    tokens = {
        each.attributes["direction"]: each.value
        for each in observed.points("triptych.model.tokens")
    }
    assert tokens == {"input": 70, "output": 5}
    (cost,) = observed.points("triptych.model.cost")
    assert cost.value == pytest.approx((70 * 1.0 + 5 * 2.0) / 1e6)
    assert observed.parents()["triptych.generate"] == "triptych.ask"


def test_a_stream_is_one_span_with_its_parts(
    kb: Service, observed: Observed, caplog: pytest.LogCaptureFixture
) -> None:
    with kb.ask_stream("Is tea hot?", dataset_id=SECRET) as stream:
        next(stream)
        assert "triptych.ask" not in observed.spans
        list(stream)
    assert observed.parents()["triptych.generate"] == "triptych.ask"
    assert observed.parents()["triptych.context"] == "triptych.ask"
    assert "detach" not in caplog.text


def test_a_put_is_a_span_and_the_store_has_figures(kb: Service, observed: Observed) -> None:
    kb.put_documents("d", {"a.md": "Tea.", "b.md": "Milk."})
    assert observed.parents()["triptych.embed"] == "triptych.put"
    (documents,) = observed.points("triptych.documents.processed")
    assert (documents.value, documents.attributes["operation"]) == (2, "put")
    (stored,) = observed.points("triptych.store.documents")
    assert stored.value == 3


def test_a_request_continues_the_trace_of_its_sender(kb: Service, observed: Observed) -> None:
    trace_id, span_id = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    client = Client(create_app(kb), traceparent=f"00-{trace_id}-{span_id}-01")
    body = {"query": SECRET, "dataset_id": SECRET}
    assert client("POST", "/v1/search", json=body).status_code == 200
    spans = observed.spans
    request = spans["POST /v1/search"]
    assert request.kind is SpanKind.SERVER
    assert request.parent is not None
    assert format(request.parent.span_id, "016x") == span_id
    assert {format(each.context.trace_id, "032x") for each in spans.values()} == {trace_id}
    assert observed.parents()["triptych.search"] == "POST /v1/search"
    assert observed.parents()["triptych.lane vector"] == "triptych.search"
    assert request.attributes is not None
    assert request.attributes["http.response.status_code"] == 200
    assert not observed.points("triptych.http.requests.under_way")[0].value


def test_a_streamed_answer_over_http_is_one_trace(kb: Service, observed: Observed) -> None:
    client = Client(create_app(kb), accept="text/event-stream")
    body = {"question": "Is tea hot?", "dataset_id": SECRET}
    answer = client("POST", "/v1/ask", json=body)
    assert answer.status_code == 200, answer.text
    parents = observed.parents()
    assert parents["triptych.ask"] == "POST /v1/ask"
    assert parents["triptych.generate"] == "triptych.ask"


def test_a_span_that_is_current_is_the_parent(kb: Service, observed: Observed) -> None:
    tracer = observed.tracing.get_tracer("program")
    with tracer.start_as_current_span("program"):
        kb.search("tea", dataset_id=SECRET)
    assert observed.parents()["triptych.search"] == "program"


def test_no_text_and_no_name_is_in_a_span_or_a_metric(kb: Service, observed: Observed) -> None:
    client = Client(create_app(kb, write=True))
    url = f"/v1/datasets/{SECRET}/documents/{SECRET}.md"
    assert client("GET", url).status_code == 200
    assert client("GET", f"/v1/datasets/{SECRET}x/documents/{SECRET}").status_code == 404
    kb.ask(SECRET, dataset_id=SECRET)
    with pytest.raises(triptych.NotFoundError):
        kb.search(SECRET, dataset_id=f"{SECRET}x")
    failed = observed.spans["triptych.search"]
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.attributes is not None
    assert failed.attributes["error.type"] == "NotFoundError"
    spans = "".join(each.to_json() for each in observed.exporter.get_finished_spans())
    data = observed.reader.get_metrics_data()
    assert data is not None
    assert SECRET.lower() not in (spans + data.to_json()).lower()


def test_a_server_without_an_sdk_says_that_spans_go_nowhere(
    kb: Service, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as held:
        assert observe_serving(kb, held, metrics=False, otel=True) is None
        assert telemetry.is_observed()
        assert "no OpenTelemetry SDK is configured" in caplog.text
    assert not telemetry.is_observed()
