"""Copies of stores: into another store, kept as a replica, or as one archive.

Nothing is derived again: versions, chunks, vectors and layers are taken over as they are, so that
no model is called and what was fresh stays fresh. The names below are imported when they are asked
for: whoever opens a store reads the notes that copies leave, and needs no more.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triptych.copies.archive_format import Archive, ArchiveSummary, DatasetSummary
    from triptych.copies.archive_writer import write_archive
    from triptych.copies.copy import check_datasets, copy_store
    from triptych.copies.follow import follow_store
    from triptych.copies.report import CopyReport, DatasetCopy

_HOME_OF = {
    "Archive": "archive_format",
    "ArchiveSummary": "archive_format",
    "CopyReport": "report",
    "DatasetCopy": "report",
    "DatasetSummary": "archive_format",
    "check_datasets": "copy",
    "copy_store": "copy",
    "follow_store": "follow",
    "write_archive": "archive_writer",
}

__all__ = [
    "Archive",
    "ArchiveSummary",
    "CopyReport",
    "DatasetCopy",
    "DatasetSummary",
    "check_datasets",
    "copy_store",
    "follow_store",
    "write_archive",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
