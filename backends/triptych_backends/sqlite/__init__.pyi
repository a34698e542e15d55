"""The names of `triptych_backends.sqlite`, each with the module that defines it."""

from triptych_backends.sqlite.backup import (
    BackupReport as BackupReport,
    open_backup as open_backup,
    write_backup as write_backup,
)
from triptych_backends.sqlite.store import SqliteStore as SqliteStore
