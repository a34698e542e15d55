from triptych_adapters.telemetry.metrics import StoreFigures as StoreFigures
from triptych_adapters.telemetry.open_telemetry import (
    OpenTelemetryObserver as OpenTelemetryObserver,
)
from triptych_adapters.telemetry.prometheus import PrometheusObserver as PrometheusObserver
