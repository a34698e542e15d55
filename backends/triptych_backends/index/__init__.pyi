"""The names of `triptych_backends.index`, each with the module that defines it."""

from triptych_backends.index.bm25 import (
    Statistics as Statistics,
    Weights as Weights,
    pooled as pooled,
    weigh as weigh,
)
from triptych_backends.index.change_log import (
    FIELDS as FIELDS,
    Change as Change,
    ChangeLog as ChangeLog,
    Field as Field,
    IndexConfig as IndexConfig,
    LogPosition as LogPosition,
    Rows as Rows,
    Scored as Scored,
    Unit as Unit,
)
from triptych_backends.index.checks import (
    check_index as check_index,
    examine_index as examine_index,
)
from triptych_backends.index.helper import (
    IndexHelper as IndexHelper,
    available_cores as available_cores,
)
from triptych_backends.index.local import LocalIndex as LocalIndex
from triptych_backends.index.quantization import exact as exact
from triptych_backends.index.ranking import DECIMALS as DECIMALS, SLACK as SLACK
from triptych_backends.index.searcher import Filters as Filters, LocalSearcher as LocalSearcher
from triptych_backends.index.selection import (
    OwnedBy as OwnedBy,
    Owners as Owners,
    Selection as Selection,
    Under as Under,
    has_headings as has_headings,
    without_part as without_part,
)
