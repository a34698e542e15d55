"""Claims of texts: of several fillers of one dataset, one asks the embedder for a text."""

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
from triptych.contracts import SettingsStore
from triptych.errors import StoreError

__all__ = ["CLAIMS", "LEASE", "Pace", "TextClaims"]

CLAIMS = "embedding"
"""The setting that holds the claims of all fillers of a store, while there are any."""
LEASE = 10.0
"""Seconds a claim holds after its last renewal: so long the texts of a killed process wait."""
_RENEW = LEASE / 4
_CHEAP = 0.02
"""A call that is shorter than so many seconds costs little more than claiming its texts."""


class Pace:
    """How long the last call of an embedder took, for all that call it in this process."""

    def __init__(self) -> None:
        self._call = float("inf")
        self._each = 0.0

    def took(self, seconds: float, texts: int) -> None:
        """A call for so many texts took so long."""
        self._call, self._each = seconds, seconds / max(texts, 1)

    def is_cheap(self, texts: int) -> bool:
        """Whether a call for so many texts is too short to claim them; False before the first."""
        return max(self._call, self._each * texts) < _CHEAP


class TextClaims(CloseOnExit):
    """The texts that one filler of a dataset asks for, by digest, where other fillers see them.

    A text must be claimed first, then looked up in the store, then embedded, then stored, then
    released: so nobody who claims it later misses its vector. Claims are one setting of the
    store, changed by compare-and-set. They are renewed while the embedder is `asking`; a filler
    that ends without `close` holds them for `LEASE` seconds. Use it as a context manager.
    """

    def __init__(self, settings: SettingsStore, dataset_id: str, space: str) -> None:
        self._settings = settings
        self._where = [dataset_id, space]
        self._holder = secrets.token_hex(8)
        self._ours: set[str] = set()
        self._is_written = False
        self._lock = threading.Lock()
        self._asking = 0
        self._ended = threading.Event()
        self._renewer: threading.Thread | None = None

    def claim(self, digests: Sequence[str]) -> set[str]:
        """Claim those of ``digests`` that no other filler has; all that are ours.

        Raises:
            CancelledError: the deadline has passed.
            StoreError: the claim cannot be written.
        """
        deadlines.check("embedding")
        with self._lock:
            ours = self._write(digests)
        if ours and self._renewer is None:
            self._renewer = threading.Thread(
                target=self._renew, name="triptych-claims", daemon=True
            )
            self._renewer.start()
        return ours

    def release(self, digests: Iterable[str]) -> None:
        """Give up ``digests``; others see it at the next claim, or at `close`."""
        with self._lock:
            self._ours.difference_update(digests)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """While this runs, an embedder works on what is claimed."""
        with self._lock:
            self._asking += 1
        try:
            yield
        finally:
            with self._lock:
                self._asking -= 1

    def close(self) -> None:
        """Release everything. Idempotent."""
        self._ended.set()
        if self._renewer is not None:
            self._renewer.join()
            self._renewer = None
        with self._lock:
            self._ours.clear()
            # A store that fails here fails its caller elsewhere, and the claims end by themselves.
            with suppress(StoreError):
                if self._is_written:
                    self._write(())

    def _write(self, wanted: Sequence[str]) -> set[str]:
        """Write what is ours with those of ``wanted`` that are free; these."""
        while True:
            text = self._settings.get_setting(CLAIMS)
            now = time.time()
            others = {
                holder: claim
                for holder, claim in _read(text).items()
                if holder != self._holder and _holds(claim, now)
            }
            taken = {
                digest
                for claim in others.values()
                if claim["of"] == self._where
                for digest in claim["texts"]
            }
            free = [digest for digest in wanted if digest not in taken]
            if wanted and not free:
                return set()
            ours = sorted(self._ours.union(free))
            claims = dict(others)
            if ours:
                claims[self._holder] = {"of": self._where, "until": now + LEASE, "texts": ours}
            value = json.dumps(claims) if claims else None
            if self._settings.set_setting(CLAIMS, value, expected=text):
                self._ours.update(free)
                self._is_written = bool(ours)
                return set(free)

    def _renew(self) -> None:
        while not self._ended.wait(_RENEW):
            with self._lock, suppress(StoreError):
                if self._asking and self._ours:
                    self._write(())


def _read(text: str | None) -> dict[str, Any]:
    """The claims; none where somebody else wrote something else there."""
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _holds(claim: object, now: float) -> bool:
    """Whether a claim is one, and has not run out: also where the clock was set back since."""
    if not isinstance(claim, dict) or not isinstance(claim.get("texts"), list):
        return False
    until = claim.get("until")
    return isinstance(until, int | float) and now < until <= now + LEASE
