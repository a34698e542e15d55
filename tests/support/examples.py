"""How many examples a property of ours draws: few in the suite, all in the long run."""

from __future__ import annotations

from hypothesis import settings

LONG = "long"
"""The profile of ``make crash``."""


def examples(at_length: int) -> int:
    """``at_length`` under the profile `LONG`, else a quarter of it."""
    return at_length if settings.get_current_profile_name() == LONG else max(at_length // 4, 1)
