"""Observers of `triptych.telemetry`: for OpenTelemetry and for Prometheus (extra ``telemetry``).

A name is imported when it is first used: each needs one of the two packages only.
"""

from triptych._internal.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
