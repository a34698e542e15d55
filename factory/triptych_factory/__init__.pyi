from triptych_factory.locations import parse_location as parse_location
from triptych_factory.settings import (
    Setting as Setting,
    Settings as Settings,
    find_file as find_file,
    unknown_variables as unknown_variables,
)
from triptych_factory.sources import (
    remembered_sources as remembered_sources,
    sync_remembered as sync_remembered,
)
from triptych_factory.syncing import (
    directory_sync as directory_sync,
    note_synced as note_synced,
    remembered_roots as remembered_roots,
)
from triptych_factory.tables import open_tables as open_tables
from triptych_factory.trust import (
    Trust as Trust,
    UntrustedSettingsWarning as UntrustedSettingsWarning,
    needs_trust as needs_trust,
)
from triptych_factory.wiring import (
    every_format as every_format,
    open_service as open_service,
    wire as wire,
)
