"""Which folders were synced into a store, as remembered beside it.

Apart from `triptych_factory.syncing`, since a search asks for it and need not know how to sync.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from triptych_factory.locations import parse_location, state_folder
from triptych_factory.settings import Settings

if TYPE_CHECKING:
    from triptych.sync import SyncRoot

__all__ = ["remember_folders", "synced_folders"]

_FOLDERS = "folders"
"""The file of `synced_folders`, in the folder of the syncs' state."""


def synced_folders(settings: Settings) -> Mapping[str, tuple[Path, str]]:
    """The folder and the prefix of each root that was synced into the store, by the root's key.

    It is a help for finding files, kept beside the store: lost or damaged, nothing is known until
    the next sync.
    """
    state = state_folder(parse_location(settings.url))
    if state is None:
        return {}
    try:
        entries = json.loads((state / _FOLDERS).read_text(encoding="utf-8"))
        return {
            key: (Path(path), prefix)
            for key, (path, prefix) in entries.items()
            if isinstance(prefix, str)
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def remember_folders(settings: Settings, roots: Sequence[SyncRoot]) -> None:
    """Add ``roots`` to what `synced_folders` knows; without a place to keep it, nothing."""
    state = state_folder(parse_location(settings.url))
    if state is None or settings.read_only:
        return
    known = dict(synced_folders(settings))
    merged = known | {root.key: (root.path, root.prefix) for root in roots}
    if merged == known:
        return
    text = json.dumps({key: [str(path), prefix] for key, (path, prefix) in merged.items()})
    try:
        state.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(prefix=".new-", dir=state)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(draft, state / _FOLDERS)
    except OSError:
        return  # hits then have no file to open, which changes no answer
