"""Leases, which ensure that only one of several workers on a store processes a text or document."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from triptych import deadlines
from triptych._internal.close_on_exit import CloseOnExit
from triptych.contracts import SettingsStore, WorkLeases
from triptych.errors import StoreError

LEASE = 10.0
"""Seconds that a lease lasts after its last renewal; the work of a killed process waits as long."""


class LeaseHolder(CloseOnExit):
    """The leases of one worker in one queue. Use it as a context manager.

    Claim a name, then read its work from the store, do it, store the result, and release the name:
    so that no later holder repeats the work. Leases are renewed while the holder is `working`. If
    it ends without `close`, they expire after ``seconds``, by default `LEASE`.
    """

    def __init__(self, leases: WorkLeases, queue: str, seconds: float | None = None) -> None:
        self._leases = leases
        self._queue = queue
        self._seconds = LEASE if seconds is None else seconds
        self._holder = secrets.token_hex(8)
        self._ours: dict[str, None] = {}
        self._is_written = False
        self._lock = threading.Lock()
        self._working = 0
        self._ended = threading.Event()
        self._renewer: threading.Thread | None = None

    def claim(self, names: Iterable[str], limit: int | None = None) -> list[str]:
        """Claim up to ``limit`` (None: all) of ``names`` that nobody else has; return the claimed
        ones.

        Raises:
            CancelledError: the deadline passed.
            StoreError: the claim cannot be written.
        """
        deadlines.check("waiting for work")
        wanted = dict.fromkeys(names)
        with self._lock:
            most = None if limit is None else len(self._ours.keys() - wanted.keys()) + limit
            held = self._hold(
                [*self._ours, *(name for name in wanted if name not in self._ours)], most
            )
        if held and self._renewer is None:
            self._renewer = threading.Thread(
                target=self._renew, name="triptych-leases", daemon=True
            )
            self._renewer.start()
        return [name for name in wanted if name in held]

    def release(self, names: Iterable[str]) -> None:
        """Release ``names``; this takes effect at the next claim or at `close`."""
        with self._lock:
            for name in names:
                self._ours.pop(name, None)

    @contextmanager
    def working(self) -> Iterator[None]:
        """A context in which the claimed leases are renewed."""
        with self._lock:
            self._working += 1
        try:
            yield
        finally:
            with self._lock:
                self._working -= 1

    def close(self) -> None:
        """Release everything. Idempotent."""
        self._ended.set()
        if self._renewer is not None:
            self._renewer.join()
            self._renewer = None
        with self._lock:
            # A store that fails here fails its caller elsewhere, and leases end by themselves.
            with suppress(StoreError):
                if self._is_written:
                    self._hold(())
            self._ours.clear()

    def _hold(self, names: Sequence[str], limit: int | None = None) -> dict[str, None]:
        held = self._leases.hold_leases(
            self._queue, names, holder=self._holder, seconds=self._seconds, limit=limit
        )
        self._ours = dict.fromkeys(held)
        self._is_written = bool(held)
        return self._ours

    def _renew(self) -> None:
        while not self._ended.wait(self._seconds / 4):
            with self._lock, suppress(StoreError):
                if self._working and self._ours:
                    self._hold(list(self._ours))


LEASES = "leases"
"""The setting that holds all leases of a store, if any."""

_APART = 60.0
"""The maximum difference of two clocks in seconds. A lease that ends even later was made before a
clock was set back, and is invalid."""
_LONGEST = 86_400.0
"""The maximum duration of a valid lease in seconds."""


class SettingsLeases:
    """`WorkLeases` in one setting of a store, by compare-and-set.

    A lease expires by the clock of the machine that reads it. The clocks of two machines must
    differ by less than the remaining time at which a lease is renewed.
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
        """See `WorkLeases.listen_for_changes`. It gives None: settings do not report writes."""


def _read(text: str | None) -> list[Any]:
    """Return the leases; empty if the setting has another form."""
    try:
        found = json.loads(text) if text else []
    except ValueError:
        return []
    return found if isinstance(found, list) else []


def _lasts(lease: object, now: float) -> bool:
    """Return whether a lease is valid and not expired, even if the clock was set back since."""
    if not isinstance(lease, dict) or not isinstance(lease.get("names"), list):
        return False
    if not isinstance(lease.get("queue"), str) or not isinstance(lease.get("holder"), str):
        return False
    until, seconds = lease.get("until"), lease.get("seconds")
    if not isinstance(until, int | float) or not isinstance(seconds, int | float):
        return False
    return now < until <= now + min(seconds, _LONGEST) + _APART
