"""The doctor, which checks every invariant and repairs derived data from the documents.

`Service.doctor` is its door. Checks that any three repositories can be put to are here; what
only a backend can see of itself it reports by the capability `Diagnostics`.
"""

from __future__ import annotations

from triptych.diagnostics.checks import Check, FindingCollector
from triptych.diagnostics.health import answering

__all__ = [
    "Check",
    "FindingCollector",
    "answering",
]
