"""The locations of synced files, without importing the syncs."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING

from triptych.errors import AccessDeniedError

if TYPE_CHECKING:
    from triptych.contracts import SettingsStore
    from triptych.records import DocumentInfo

FOLDER_SETTINGS = "sync.folder."
"""What the keys of `synced_folders` begin with, among the settings of the store."""


def synced_folders(store: SettingsStore) -> Mapping[str, tuple[Path, str]]:
    """The folder and the prefix of each root that was synced into the store, by the root's key.

    They are settings of the store, and a help for finding files: what is missing or damaged is
    known again after the next sync.
    """
    found: dict[str, tuple[Path, str]] = {}
    for key, text in store.list_settings(FOLDER_SETTINGS).items():
        with suppress(ValueError, TypeError):
            path, prefix = json.loads(text)
            found[key.removeprefix(FOLDER_SETTINGS)] = Path(path), str(prefix)
    return found


def file_locator(store: SettingsStore) -> Callable[[], Callable[[DocumentInfo], Path | None]]:
    """What finds the files of synced documents; see `ServiceOptions.locate`.

    A name that leads out of its folder, by itself or over a link, has no file; nor has any while
    its folder is away. A file that was deleted has the path where it was.
    """

    def locate() -> Callable[[DocumentInfo], Path | None]:
        folders: Mapping[str, tuple[Path, str, str]] | None = None

        def file_of(info: DocumentInfo) -> Path | None:
            nonlocal folders
            root = info.system.sync_root
            if not root:
                return None
            # Read where a document is of a sync at all: every search asks.
            if folders is None:
                # To its separator: the name of a folder beside it may begin with its name.
                folders = {
                    key: (folder, prefix, os.path.join(os.path.realpath(folder), ""))
                    for key, (folder, prefix) in synced_folders(store).items()
                }
            folder, prefix, within = folders.get(root, (None, "", ""))
            if folder is None or not info.name.startswith(prefix):
                return None
            path = folder / info.name.removeprefix(prefix)
            inside = os.path.realpath(path).startswith(within)
            return path if inside and os.path.isdir(folder) else None

        return file_of

    return locate


_READ = 16 << 20
"""Bytes of a file that a search reads to see whether it has changed, if it was touched."""


def changed_since(path: Path, info: DocumentInfo) -> str:
    """What has become of a document's file since it was stored: "changed", "gone" or "".

    A file that was written after the document is compared by its digest, unless it is large. An
    edit with an older time of modification, such as that of a copied file, is not seen.
    """
    with suppress(OSError):
        try:
            found = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return "gone"
        if not S_ISREG(found.st_mode):
            return "gone"
        known = info.original_sha256
        if not known or found.st_mtime <= info.updated_at.timestamp() or found.st_size > _READ:
            return ""
        return "" if _digest(path, found.st_mtime_ns, found.st_size) == known else "changed"
    return ""


# A checkout touches every file, and a file that is as it was is asked for at each search.
@lru_cache(1024)
def _digest(path: Path, mtime_ns: int, size: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check_sync_roots(store: SettingsStore | None, puts: Iterable[tuple[str, str | None]]) -> None:
    """Refuse puts from outside into a folder of this machine; ``puts`` are names and sync_roots.

    A ``store`` of None has no folders.

    Raises:
        AccessDeniedError: only a sync on this machine may name the folder.
    """
    given = [(name, key) for name, key in puts if key]
    own = synced_folders(store) if store is not None and given else {}
    for name, key in given:
        if key in own:
            raise AccessDeniedError(
                f"the sync_root of {name!r}, {key!r}, is the key of a folder that this knowledge "
                "base syncs itself: leave sync_root out, or give your folder another key "
                "(`triptych sync --key`)"
            )


def remember_folder(store: SettingsStore, key: str, path: Path, prefix: str) -> None:
    """Add a root to what `synced_folders` knows."""
    key, text = FOLDER_SETTINGS + key, json.dumps([str(path), prefix])
    before = store.get_setting(key)
    if before != text:
        # Another sync of the same root writes the same.
        store.set_setting(key, text, expected=before)
