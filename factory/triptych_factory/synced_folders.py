"""Where the files of synced documents are; apart from the syncs, which a search need not import."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from triptych.contracts import SettingsStore
    from triptych.records import DocumentInfo
    from triptych.service import Service
    from triptych.sync import SyncRoot
    from triptych_factory.settings import Settings

__all__ = ["file_locator", "remember_folders", "synced_folders"]

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


def file_locator(
    store: SettingsStore, base: Path | None
) -> Callable[[], Callable[[DocumentInfo], Path | None]]:
    """What finds the files of synced documents; see `ServiceOptions.locate`.

    ``base`` is where the store lies. A folder that was moved along with its store is found among
    those that are remembered, which costs the import of all of the sync.
    """

    def locate() -> Callable[[DocumentInfo], Path | None]:
        folders = synced_folders(store)
        remembered: list[Callable[[DocumentInfo], Path | None]] = []

        def file_of(info: DocumentInfo) -> Path | None:
            if not info.system.sync_root:
                return None
            folder, prefix = folders.get(info.system.sync_root, (None, ""))
            if folder is not None and info.name.startswith(prefix):
                path = folder / info.name.removeprefix(prefix)
                if path.is_file():
                    return path
            if not remembered:
                from triptych.sync.remembered import RememberedRoots

                remembered.append(RememberedRoots(store, base).locator())
            return remembered[0](info)

        return file_of

    return locate


def remember_folders(service: Service, settings: Settings, roots: Sequence[SyncRoot]) -> None:
    """Add ``roots`` to what `synced_folders` knows; without a place to keep it, nothing."""
    store = service.capabilities.settings
    if store is None or settings.read_only:
        return
    for root in roots:
        key, text = _FOLDER + root.key, json.dumps([str(root.path), root.prefix])
        before = store.get_setting(key)
        if before != text:
            # Another sync of the same root writes the same.
            store.set_setting(key, text, expected=before)
