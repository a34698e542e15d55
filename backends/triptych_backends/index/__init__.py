"""The local search index: segments replayed from the truth, exact BM25, vectors.

Built like a log-structured merge tree (O'Neil et al., 1996). A *segment* is an immutable set of
units of one field of one dataset: postings, lengths, int8 vectors, memory-mapped from a file or in
memory. What changed in the truth since the files were written is the *delta*: a few small segments
in memory. A search takes a snapshot, a tuple of segments each with its dead units, and needs no
lock; a change swaps in a new one. Nothing here is the truth: the folder can be deleted at any time.
"""

from triptych_backends.index.change_log import (
    Change,
    ChangeLog,
    Field,
    IndexConfig,
    LogPosition,
    Rows,
    Scored,
    Unit,
)
from triptych_backends.index.helper import IndexHelper, available_cores
from triptych_backends.index.local import LocalIndex
from triptych_backends.index.searcher import Filters, LocalSearcher
from triptych_backends.index.selection import OwnedBy, Owners, Selection, Under

__all__ = [
    "Change",
    "ChangeLog",
    "Field",
    "Filters",
    "IndexConfig",
    "IndexHelper",
    "LocalIndex",
    "LocalSearcher",
    "LogPosition",
    "OwnedBy",
    "Owners",
    "Rows",
    "Scored",
    "Selection",
    "Under",
    "Unit",
    "available_cores",
]
