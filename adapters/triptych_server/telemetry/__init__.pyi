from triptych_server.telemetry.metrics import StoreFigures as StoreFigures
from triptych_server.telemetry.open_telemetry import (
    OpenTelemetryObserver as OpenTelemetryObserver,
)
from triptych_server.telemetry.prometheus import PrometheusObserver as PrometheusObserver
