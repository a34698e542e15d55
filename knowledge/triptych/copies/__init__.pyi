"""The names of `triptych.copies`, each with the module that defines it."""

from triptych.copies.copy import check_datasets as check_datasets, copy_store as copy_store
from triptych.copies.report import CopyReport as CopyReport, DatasetCopy as DatasetCopy
