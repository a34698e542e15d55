"""The names of `triptych.derivation`, each with the module that defines it."""

from triptych.derivation.batches import (
    PutReportBuilder as PutReportBuilder,
    check_progress as check_progress,
    new_documents as new_documents,
)
from triptych.derivation.erasure import BODIES as BODIES, PLACE as PLACE, STATES as STATES
