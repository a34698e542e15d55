"""The doctor: every invariant looked at, and what breaks one mended from the truth.

`Service.doctor` is its door. Checks that any three repositories can be put to are here; what
only a backend can see of itself it tells by the power `Examiner`.
"""

from __future__ import annotations

from triptych.doctor.checks import Check, Tally
from triptych.doctor.desk import DoctorDesk

__all__ = ["Check", "DoctorDesk", "Tally"]
