"""Copies of stores: into another store, kept as a replica, or as one archive.

Nothing is derived again: versions, chunks, vectors and layers are taken over as they are, so that
no model is called and what was fresh stays fresh.
"""

from triptych.replication.archive_format import Archive, ArchiveSummary, DatasetSummary
from triptych.replication.archive_writer import write_archive
from triptych.replication.copy import check_datasets, copy_store
from triptych.replication.follow import follow_store
from triptych.replication.report import CopyReport, DatasetCopy

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
