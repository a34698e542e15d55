"""Where the files of synced documents are; apart from the syncs, which a search need not import."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from triptych.contracts import SettingsStore
    from triptych.records import DocumentInfo

__all__ = ["file_locator", "remember_folder", "synced_folders"]

_FOLDER = "sync.folder."
"""What the keys of `synced_folders` begin with, among the settings of the store."""


def synced_folders(store: SettingsStore) -> Mapping[str, tuple[Path, str]]:
    """The folder and the prefix of each root that was synced into the store, by the root's key.

    They are settings of the store, and a help for finding files: what is missing or damaged is
    known again after the next sync.
    """
    found: dict[str, tuple[Path, str]] = {}
    for key, text in store.list_settings(_FOLDER).items():
        with suppress(ValueError, TypeError):
            path, prefix = json.loads(text)
            found[key.removeprefix(_FOLDER)] = Path(path), str(prefix)
    return found


def file_locator(store: SettingsStore) -> Callable[[], Callable[[DocumentInfo], Path | None]]:
    """What finds the files of synced documents; see `ServiceOptions.locate`."""

    def locate() -> Callable[[DocumentInfo], Path | None]:
        folders = synced_folders(store)

        def file_of(info: DocumentInfo) -> Path | None:
            folder, prefix = folders.get(info.system.sync_root, (None, ""))
            if folder is None or not info.name.startswith(prefix):
                return None
            path = folder / info.name.removeprefix(prefix)
            return path if path.is_file() else None

        return file_of

    return locate


def remember_folder(store: SettingsStore, key: str, path: Path, prefix: str) -> None:
    """Add a root to what `synced_folders` knows."""
    key, text = _FOLDER + key, json.dumps([str(path), prefix])
    before = store.get_setting(key)
    if before != text:
        # Another sync of the same root writes the same.
        store.set_setting(key, text, expected=before)
