"""Purges of a store, which its copies repeat."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Sequence
from typing import Final

import attrs

from triptych.contracts import Capabilities, SettingsStore, Store
from triptych.repositories import capabilities_of

__all__ = ["ERASED", "Erasures", "note_purge"]

ERASED: Final = "erased"
"""The setting that each purge changes. Keys of what copies have repeated begin with it, too."""


def note_purge(settings: SettingsStore | None) -> None:
    """Tell the copies of a store that it was purged, once what is purged is deleted."""
    if settings is not None:
        _write(settings, ERASED, secrets.token_hex(8))


@attrs.define
class Erasures:
    """The purges of a source that a copy of it has yet to repeat."""

    source: SettingsStore | None
    copy: Capabilities
    key: str
    _repeated: str | None = None
    """The mark of the last purge that was repeated; a copy with settings keeps it there."""

    @classmethod
    def between(cls, source: Store, destination: Store, datasets: Sequence[str] | None) -> Erasures:
        """Those of a copy of ``datasets`` (None: of all)."""
        scope = None if datasets is None else sorted(set(datasets))
        key = f"{ERASED}.{hashlib.sha256(json.dumps(scope).encode()).hexdigest()[:16]}"
        return cls(capabilities_of(source).settings, capabilities_of(destination), key)

    def mark(self) -> str | None:
        """The mark of the source's last purge; None if there was none."""
        return None if self.source is None else self.source.get_setting(ERASED)

    def pending(self) -> str | None:
        """The mark of a purge to repeat, None where there is none.

        Read it before what is copied: all that was purged by then is missing there.
        """
        mark, kept = self.mark(), self.copy.settings
        done = self._repeated if kept is None else kept.get_setting(self.key)
        return None if mark == done else mark

    def repeat(self, mark: str | None, *, scrub: bool = True) -> bool:
        """Erase from the copy what it has deleted, and note that; whether there was a ``mark``.

        ``scrub`` False notes it only, of a copy that began with nothing.

        Raises:
            StoreLockedError: the copy is in use; nothing was noted.
        """
        if mark is None:
            return False
        if scrub:
            if self.copy.eraser is not None:
                self.copy.eraser.scrub()
            note_purge(self.copy.settings)  # for copies of the copy
        if self.copy.settings is not None:
            _write(self.copy.settings, self.key, mark)
        self._repeated = mark
        return scrub


def _write(settings: SettingsStore, key: str, value: str) -> None:
    while not settings.set_setting(key, value, expected=settings.get_setting(key)):
        pass
