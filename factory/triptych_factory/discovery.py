"""Where the store is when nobody says: in this folder, in one above it, or the user's own."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

STORE_FOLDER = ".triptych"
STORE_FILE = "kb.db"

_FILES_MARK = "store.json"
"""What a store of plain files has in its own folder of the same name."""

_IGNORE = "# Made by triptych: a store is not a part of the work beside it.\n*\n"


def find_store(directory: Path) -> str | None:
    """The URL of the nearest store in ``directory`` or above it, None where there is none.

    In each folder these count, in this order: ``.triptych/kb.db``, a store of plain files, and
    ``kb.db``, where older versions put it. Above ``directory`` only what belongs to the user
    counts, so that nobody else leads a command to a store of theirs.
    """
    directory = directory.absolute()
    for folder in (directory, *directory.parents):
        found = store_in(folder)
        if found is not None and (folder == directory or _is_own(folder)):
            return found
    return None


def user_store(environ: Mapping[str, str] | None = None) -> Path:
    """The user's own store, which serves where no other is found."""
    return _user_folder("XDG_DATA_HOME", ".local/share", environ) / STORE_FILE


def user_config_file(environ: Mapping[str, str] | None = None) -> Path:
    """The user's own settings, below those of a folder."""
    return _user_folder("XDG_CONFIG_HOME", ".config", environ) / "config.toml"


def make_store_folder(file: Path) -> None:
    """Make the folder of a store's file, if it is one of Triptych's own: no other is made.

    A ``.triptych`` ignores itself for Git.

    Raises:
        OSError: it cannot be made.
    """
    folder = file.parent
    if folder.name == STORE_FOLDER:
        folder.mkdir(exist_ok=True)
        ignore = folder / ".gitignore"
        if not ignore.exists():
            ignore.write_text(_IGNORE, encoding="utf-8")
    elif file == user_store():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def store_in(folder: Path) -> str | None:
    """The URL of the store that belongs to ``folder`` itself, None for none."""
    own = folder / STORE_FOLDER
    if (own / STORE_FILE).is_file():
        return str(own / STORE_FILE)
    if (own / _FILES_MARK).is_file():
        return f"files://{folder.as_posix()}"
    return str(folder / STORE_FILE) if (folder / STORE_FILE).is_file() else None


def _is_own(folder: Path) -> bool:
    if not hasattr(os, "getuid"):
        return True
    try:
        return folder.stat().st_uid == os.getuid()
    except OSError:
        return False


def _user_folder(variable: str, fallback: str, environ: Mapping[str, str] | None) -> Path:
    """By the XDG rules; without the variable, where each system keeps such things."""
    environ = os.environ if environ is None else environ
    given = environ.get(variable, "")
    # A relative path is to be ignored, says the specification.
    if given and Path(given).is_absolute():
        return Path(given, "triptych")
    if sys.platform == "win32":
        return Path(environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local", "triptych")
    if sys.platform == "darwin":
        return Path.home() / "Library/Application Support/triptych"
    return Path.home() / fallback / "triptych"
