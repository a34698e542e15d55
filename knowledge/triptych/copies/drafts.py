"""Backups that are under way: noted in the store, so that drafts of killed ones are found."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from triptych._internal.drafts import drafts_of, left_drafts
from triptych.contracts import SettingsStore
from triptych.errors import StoreError

__all__ = ["BACKUPS", "abandoned_drafts", "noted_backup"]

BACKUPS: Final = "backup."
"""What the keys of these notes begin with in the settings of a store."""


@contextmanager
def noted_backup(settings: SettingsStore | None, path: Path) -> Iterator[None]:
    """Within it, a store that can be written to notes that a draft of ``path`` is there."""
    value = json.dumps([platform.node(), str(path.resolve())])
    key = BACKUPS + sha256(value.encode()).hexdigest()[:16]
    with suppress(StoreError):
        if settings is not None:
            settings.set_setting(key, value, expected=None)
    try:
        yield
    finally:
        with suppress(StoreError):
            if settings is not None and len(drafts_of(path)) == 1:
                settings.set_setting(key, None, expected=value)


def abandoned_drafts(settings: SettingsStore | None, *, remove: bool) -> list[Path]:
    """What killed backups of the store have left on this machine; ``remove`` removes it."""
    found: list[Path] = []
    for key, value in () if settings is None else settings.list_settings(BACKUPS).items():
        with suppress(ValueError, TypeError, StoreError):  # others wrote it, or it is only read
            host, path = json.loads(value)
            if host == platform.node():
                found += left_drafts(Path(path), remove=remove)
                if remove and settings is not None and not drafts_of(Path(path)):
                    settings.set_setting(key, None, expected=value)
    return found
