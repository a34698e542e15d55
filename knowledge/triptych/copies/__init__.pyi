"""The names of `triptych.copies`, each with the module that defines it."""

from triptych.copies.copy import check_datasets as check_datasets, copy_store as copy_store
from triptych.copies.notes import (
    DIGEST as DIGEST,
    UnfinishedStoreWarning as UnfinishedStoreWarning,
    unfinished_copy as unfinished_copy,
)
from triptych.copies.report import (
    CopyReport as CopyReport,
    Counts as Counts,
    DatasetCopy as DatasetCopy,
)
from triptych.copies.state_checks import DatasetCheck as DatasetCheck
from triptych.copies.states import StoreStates as StoreStates, state_digest as state_digest
