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
    """Within it, the store notes that a draft of the archive at ``path`` is there.

    A store that cannot be written to notes nothing.
    """
    value = json.dumps([platform.node(), str(path.resolve())])
    key = BACKUPS + sha256(value.encode()).hexdigest()[:16]
    if settings is not None:
        with suppress(StoreError):
            settings.set_setting(key, value, expected=None)
    try:
        yield
    finally:
        if settings is not None and not left_drafts(path, remove=False):
            with suppress(StoreError):
                settings.set_setting(key, None, expected=value)


def abandoned_drafts(settings: SettingsStore | None, *, remove: bool) -> list[Path]:
    """The drafts that killed backups of the store have left on this machine; ``remove`` removes
    them."""
    found: list[Path] = []
    if settings is None:
        return found
    for key, value in settings.list_settings(BACKUPS).items():
        with suppress(ValueError, TypeError, StoreError):  # others wrote it, or only it may be read
            host, path = json.loads(value)
            if host == platform.node():
                found += left_drafts(Path(path), remove=remove)
                if remove and not drafts_of(Path(path)):
                    settings.set_setting(key, None, expected=value)
    return found
