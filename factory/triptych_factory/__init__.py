"""Settings to a wired Service."""

from triptych_factory.settings import Setting, Settings
from triptych_factory.wiring import open_service, wire

__all__ = ["Setting", "Settings", "open_service", "wire"]
