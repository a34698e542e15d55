"""Settings to a wired Service."""

from triptych_factory.settings import Setting, Settings
from triptych_factory.tables import open_tables
from triptych_factory.wiring import every_format, open_service, wire

__all__ = ["Setting", "Settings", "every_format", "open_service", "open_tables", "wire"]
