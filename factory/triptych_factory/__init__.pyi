from triptych_factory.settings import Setting as Setting, Settings as Settings
from triptych_factory.tables import open_tables as open_tables
from triptych_factory.wiring import (
    every_format as every_format,
    open_service as open_service,
    wire as wire,
)
