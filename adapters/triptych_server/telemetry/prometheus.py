"""Metrics for Prometheus, of this process or of all processes that share a folder."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric as Family
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from triptych.errors import TriptychError
from triptych.telemetry import Observation, Operation
from triptych_server.telemetry.metrics import (
    BUCKETS,
    FIGURES,
    METRICS,
    UNDER_WAY,
    Metric,
    measurements,
)

FOLDER_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The variable with the shared folder of several processes; prometheus_client reads it on
import."""
_log = logging.getLogger(__name__)


class PrometheusObserver:
    """Counts operations; Prometheus scrapes its `exposition`.

    If ``PROMETHEUS_MULTIPROC_DIR`` is set before this module is imported, the exposition has the
    sums of all processes that share the folder.
    """

    def __init__(
        self,
        registry: CollectorRegistry | None = None,
        *,
        figures: Callable[[], Mapping[str, int]] | None = None,
    ) -> None:
        """``registry`` None creates one; ``figures`` are metrics of a store, such as
        `StoreFigures`."""
        self.registry: CollectorRegistry = registry or CollectorRegistry()
        self._figures = figures
        self._folder = os.environ.get(FOLDER_VARIABLE)
        self._instruments = {each.name: _made(each, self.registry) for each in METRICS}
        self._labelled: dict[tuple[str, tuple[str, ...]], Any] = {}
        if self._folder is not None:
            _forget_the_dead(Path(self._folder))

    @property
    def content_type(self) -> str:
        """The media type of `exposition`."""
        return str(CONTENT_TYPE_LATEST)

    def begin(self, operation: Operation) -> Observation:
        """See `Observer.begin`."""
        if operation.name == "request":
            self._instruments[UNDER_WAY.name].inc()
        return _Counted(self, operation)

    def count(self, operation: Operation) -> None:
        """Add an ended operation."""
        if operation.name == "request":
            self._instruments[UNDER_WAY.name].dec()
        for each in measurements(operation):
            key = (each.metric.name, each.labels)
            instrument = self._labelled.get(key)
            if instrument is None:
                instrument = self._instruments[each.metric.name]
                if each.labels:
                    instrument = instrument.labels(*each.labels)
                # Looking a series up costs more than counting.
                self._labelled[key] = instrument
            if each.metric.kind == "histogram":
                instrument.observe(each.value)
            else:
                instrument.inc(each.value)

    def exposition(self) -> bytes:
        """Every metric, as text that Prometheus reads (`content_type`)."""
        return b"".join(generate_latest(each) for each in self._registries())

    def samples(self) -> list[dict[str, Any]]:
        """Every metric as name, labels and value; for histograms sum and count."""
        return [
            {"name": sample.name, "labels": dict(sample.labels), "value": float(sample.value)}
            for registry in self._registries()
            for family in registry.collect()
            for sample in family.samples
            if not sample.name.endswith(("_bucket", "_created"))
        ]

    def _registries(self) -> Iterable[CollectorRegistry]:
        if self._folder is None:
            yield self.registry
        else:
            shared = CollectorRegistry()
            shared.register(_FolderCollector(Path(self._folder)))
            yield shared
        if self._figures is not None:
            of_store = CollectorRegistry()
            of_store.register(_StoreCollector(self._figures))
            yield of_store


class _Counted(Observation):
    def __init__(self, observer: PrometheusObserver, operation: Operation) -> None:
        self._observer = observer
        self._operation = operation

    def end(self) -> None:
        self._observer.count(self._operation)


class _FolderCollector(Collector):
    """Collects the metrics of all processes that share a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def describe(self) -> Iterable[Family]:
        """Return nothing, so that registering reads no file."""
        return ()

    def collect(self) -> Iterable[Family]:
        """Yield the sums. ``MultiProcessCollector.collect`` fails on a file that was just
        created."""
        files = [str(each) for each in self._folder.glob("*.db") if _has_counts(each)]
        # prometheus_client annotates nothing in its multiprocess module.
        merged: Iterable[Family] = MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]  # has no annotations
        return merged


class _StoreCollector(Collector):
    def __init__(self, figures: Callable[[], Mapping[str, int]]) -> None:
        self._figures = figures

    def describe(self) -> Iterable[Family]:
        """Return nothing, so that registering does not read the store."""
        return ()

    def collect(self) -> Iterable[Family]:
        """Yield the store's metrics, and whether the store could be read."""
        try:
            found: Mapping[str, int] = self._figures()
        except TriptychError as error:
            _log.warning("the figures of the store could not be read: %s", error)
            found = {}
        about = "1 where the figures of the store could be read."
        yield GaugeMetricFamily("triptych_store_readable", about, value=int(bool(found)))
        for each in FIGURES:
            if each.name in found:
                kind = CounterMetricFamily if each.is_counter else GaugeMetricFamily
                yield kind(each.name, each.about, value=found[each.name])


def _made(metric: Metric, registry: CollectorRegistry) -> Any:
    name, about, labels = metric.prometheus_name, metric.about, metric.labels
    if metric.kind == "histogram":
        return Histogram(name, about, labels, registry=registry, buckets=BUCKETS)
    if metric.kind == "counter":
        return Counter(name, about, labels, registry=registry)
    return Gauge(name, about, labels, registry=registry, multiprocess_mode="livesum")


def _forget_the_dead(folder: Path) -> None:
    """Remove the gauges of ended processes; their counters are kept."""
    for file in folder.glob("gauge_live*_*.db"):
        with suppress(ValueError):
            pid = int(file.stem.rpartition("_")[2])
            if not _is_alive(pid):
                # prometheus_client annotates nothing in its multiprocess module.
                mark_process_dead(pid, path=str(folder))  # type: ignore[no-untyped-call]  # has no annotations


def _has_counts(file: Path) -> bool:
    """Return whether the file has a length; a process creates it empty."""
    try:
        return file.stat().st_size > 0
    except FileNotFoundError:
        return False


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True
