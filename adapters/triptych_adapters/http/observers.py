"""What `serve` observes of itself, where that is asked for."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import attrs

from triptych import telemetry
from triptych.service import Service
from triptych_adapters.http.metrics_route import Metrics

_FOLDER_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
_log = logging.getLogger(__name__)


@attrs.frozen
class Observers:
    """What ``/metrics`` shows, None where it is not served; and what ends observing."""

    metrics: Metrics | None
    stop: Callable[[], None]


@contextmanager
def shared_counters() -> Iterator[None]:
    """Have the processes that are started in the block count in one folder.

    A worker that ends leaves its counts there, and the one that takes its place adds to them.
    """
    before = os.environ.get(_FOLDER_VARIABLE)
    with tempfile.TemporaryDirectory(prefix="triptych-metrics-") as folder:
        os.environ[_FOLDER_VARIABLE] = folder
        try:
            yield
        finally:
            del os.environ[_FOLDER_VARIABLE]
            if before is not None:
                os.environ[_FOLDER_VARIABLE] = before


def observe_serving(service: Service, *, metrics: bool, otel: bool) -> Observers:
    """Observe this process for Prometheus, for OpenTelemetry, for both or for nobody."""
    from triptych_adapters.telemetry.figures import StoreFigures

    shown: Metrics | None = None
    figures = StoreFigures(service)
    with ExitStack() as held:
        if metrics:
            from triptych_adapters.telemetry.prometheus import PrometheusObserver

            counting = PrometheusObserver(figures=figures)
            held.callback(telemetry.observe(counting))
            shown = counting
        if otel:
            from opentelemetry.trace import ProxyTracerProvider, get_tracer_provider

            from triptych_adapters.telemetry.open_telemetry import OpenTelemetryObserver

            if isinstance(get_tracer_provider(), ProxyTracerProvider):
                _log.warning(
                    "no OpenTelemetry SDK is set up, and spans go nowhere: run this by "
                    "opentelemetry-instrument"
                )
            held.callback(telemetry.observe(OpenTelemetryObserver(figures=figures)))
        return Observers(shown, held.pop_all().close)
