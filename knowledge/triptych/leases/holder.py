"""The leases of one worker, renewed while it works."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from triptych import deadlines
from triptych._internal.close_on_exit import CloseOnExit
from triptych.contracts import WorkLeases
from triptych.errors import StoreError

__all__ = ["LEASE", "LeaseHolder"]

LEASE = 10.0
"""Seconds a lease lasts after its last renewal: so long the work of a killed process waits."""


class LeaseHolder(CloseOnExit):
    """The names of one queue that one worker has, or wants.

    A name must be claimed first, then its work looked up in the store, then done, then stored, then
    released: so nobody who claims it later does it again. Leases are renewed while the holder is
    `working`; one that ends without `close` has them for ``seconds``, by
    default `LEASE`. Use it as a context manager.
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
        """Claim the first ``limit`` of ``names``, or all, that nobody else has; what is ours.

        Raises:
            CancelledError: the deadline has passed.
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
        """Give up ``names``; others see it at the next claim, or at `close`."""
        with self._lock:
            for name in names:
                self._ours.pop(name, None)

    @contextmanager
    def working(self) -> Iterator[None]:
        """While this runs, what is claimed is worked on."""
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
