"""Observers of `triptych.telemetry`: for OpenTelemetry and for Prometheus (extra ``telemetry``).

Names are imported at first use, because each needs only one of the two packages.
"""

from triptych.runtime import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
