"""The names of `triptych_backends.index`, each with the module that defines it."""

from triptych_backends.index.change_log import (
    Change as Change,
    ChangeLog as ChangeLog,
    Field as Field,
    IndexConfig as IndexConfig,
    LogPosition as LogPosition,
    Rows as Rows,
    Scored as Scored,
    Unit as Unit,
)
from triptych_backends.index.helper import (
    IndexHelper as IndexHelper,
    available_cores as available_cores,
)
from triptych_backends.index.local import LocalIndex as LocalIndex
from triptych_backends.index.searcher import Filters as Filters, LocalSearcher as LocalSearcher
from triptych_backends.index.selection import (
    OwnedBy as OwnedBy,
    Owners as Owners,
    Selection as Selection,
    Under as Under,
)
