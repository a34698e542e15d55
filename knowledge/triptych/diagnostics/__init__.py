"""The doctor: every invariant looked at, and what breaks one repaired from the truth.

`Service.doctor` is its door. Checks that any three repositories can be put to are here; what
only a backend can see of itself it reports by the capability `Diagnostics`.
"""

from __future__ import annotations

from triptych.diagnostics.checks import Check, FindingCollector

__all__ = ["Check", "FindingCollector"]
