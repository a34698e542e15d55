"""Purges of a store, which its copies repeat."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Sequence
from typing import Final

import attrs

from triptych.contracts import SettingsStore, Store

__all__ = ["ERASED", "Erasures", "note_purge"]

ERASED: Final = "erased"
"""The setting that each purge changes. Keys of what copies have repeated begin with it, too."""


def note_purge(
    settings: SettingsStore | None, mark: str | None = None, *, key: str = ERASED
) -> None:
    """Tell the copies of a store that it was purged, once what is purged is deleted."""
    value = mark or secrets.token_hex(8)
    while settings and not settings.set_setting(key, value, expected=settings.get_setting(key)):
        pass


@attrs.define
class Erasures:
    """The purges of a source that a copy of some of its datasets (None: of all) has to repeat."""

    source: Store
    copy: Store
    datasets: Sequence[str] | None

    @property
    def _key(self) -> str:
        scope = None if self.datasets is None else sorted(set(self.datasets))
        return f"{ERASED}.{hashlib.sha256(json.dumps(scope).encode()).hexdigest()[:16]}"

    def mark(self) -> str | None:
        """The mark of the source's last purge; None if there was none."""
        settings = self.source.capabilities.settings
        return None if settings is None else settings.get_setting(ERASED)

    def pending(self) -> str | None:
        """The mark of a purge to repeat, None where there is none.

        Read it before what is copied: all that was purged by then is missing there.
        """
        mark, kept = self.mark(), self.copy.capabilities.settings
        return None if kept is None or mark == kept.get_setting(self._key) else mark

    def repeat(self, mark: str | None, *, scrub: bool = True) -> bool:
        """Erase from the copy what it has deleted, and note that; whether there was a ``mark``.

        ``scrub`` False notes it only, of a copy that began with nothing.

        Raises:
            StoreLockedError: the copy is in use; nothing was noted.
        """
        if mark is None:
            return False
        kept = self.copy.capabilities.settings
        if scrub:
            self.copy.scrub()
            note_purge(kept)  # for copies of the copy
        note_purge(kept, mark, key=self._key)
        return scrub
