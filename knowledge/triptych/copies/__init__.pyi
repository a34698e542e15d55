"""The names of `triptych.copies`, each with the module that defines it."""

from triptych.copies.archive_format import (
    Archive as Archive,
    ArchiveSummary as ArchiveSummary,
    DatasetSummary as DatasetSummary,
)
from triptych.copies.archive_writer import write_archive as write_archive
from triptych.copies.copy import check_datasets as check_datasets, copy_store as copy_store
from triptych.copies.report import CopyReport as CopyReport, DatasetCopy as DatasetCopy
