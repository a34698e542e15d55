"""Leases of work in one setting of a store: for every store that has settings."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from triptych.contracts import SettingsStore

__all__ = ["LEASES", "SettingsLeases"]

LEASES = "leases"
"""The setting that holds all leases of a store, while there are any."""

_APART = 60.0
"""Seconds by which two clocks may differ. A lease that ends later than this after its time is from
before a clock was set back, and holds no more."""
_LONGEST = 86_400.0
"""Seconds of the longest lease that is believed."""


class SettingsLeases:
    """`WorkLeases` in one setting of a store, by compare-and-set.

    A lease ends by the clock of whoever looks: where the clocks of two machines differ, it is so
    much longer or shorter for the other one. They must agree to less than the time that is left
    when a lease is renewed.
    """

    def __init__(self, settings: SettingsStore) -> None:
        self._settings = settings

    def hold_leases(
        self,
        queue: str,
        names: Sequence[str],
        *,
        holder: str,
        seconds: float,
        limit: int | None = None,
    ) -> Sequence[str]:
        """See `WorkLeases.hold_leases`."""
        while True:
            text = self._settings.get_setting(LEASES)
            now = time.time()
            leases = [lease for lease in _read(text) if _lasts(lease, now)]
            taken: set[str] = set()
            before: set[str] = set()
            others = []
            for lease in leases:
                if lease["queue"] == queue and lease["holder"] == holder:
                    before.update(lease["names"])
                    continue
                others.append(lease)
                if lease["queue"] == queue:
                    taken.update(lease["names"])
            ours = [name for name in dict.fromkeys(names) if name not in taken][:limit]
            if before == set(ours) != set(names):
                return ours  # more was asked for, and nothing was free
            if ours:
                lease = {"queue": queue, "holder": holder, "names": ours}
                others.append({**lease, "until": now + seconds, "seconds": seconds})
            value = json.dumps(others) if others else None
            if value == text or self._settings.set_setting(LEASES, value, expected=text):
                return ours

    def listen_for_changes(self) -> None:
        """See `WorkLeases.listen_for_changes`: a setting reports nothing."""


def _read(text: str | None) -> list[Any]:
    """The leases; none where somebody else wrote something else there."""
    try:
        found = json.loads(text) if text else []
    except ValueError:
        return []
    return found if isinstance(found, list) else []


def _lasts(lease: object, now: float) -> bool:
    """Whether a lease is one, and has not run out: also where the clock was set back since."""
    if not isinstance(lease, dict) or not isinstance(lease.get("names"), list):
        return False
    if not isinstance(lease.get("queue"), str) or not isinstance(lease.get("holder"), str):
        return False
    until, seconds = lease.get("until"), lease.get("seconds")
    if not isinstance(until, int | float) or not isinstance(seconds, int | float):
        return False
    return now < until <= now + min(seconds, _LONGEST) + _APART
