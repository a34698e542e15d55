"""The vocabulary of tiktoken: found on this machine, or fetched when somebody asks for it.

tiktoken downloads a vocabulary at its first use, and by default keeps it in the folder for
temporary files. A program that counts tokens should neither wait for a network nor depend on
one, so nothing here downloads but `fetch_vocabulary`.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from triptych.errors import NotAvailableError
from triptych.installation import lacking

ENCODING: Final = "o200k_base"
"""The vocabulary that tiktoken is asked for."""

ENCODING_SHA256: Final = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
"""The SHA-256 of its file. tiktoken has the same one, and downloads again what differs."""

_VARIABLE: Final = "TIKTOKEN_CACHE_DIR"
_ADDRESS: Final = f"https://openaipublic.blob.core.windows.net/encodings/{ENCODING}.tiktoken"
# tiktoken names a file it keeps by the SHA-1 of its address.
_FILE_NAME: Final = hashlib.sha1(_ADDRESS.encode(), usedforsecurity=False).hexdigest()


def find_vocabulary() -> Path | None:
    """The file of the vocabulary, None if it is not on this machine or is damaged.

    Looks where tiktoken keeps it (TIKTOKEN_CACHE_DIR, DATA_GYM_CACHE_DIR, the folder for
    temporary files) and where `fetch_vocabulary` does.
    """
    for folder in _folders():
        path = folder / _FILE_NAME
        try:
            if hashlib.sha256(path.read_bytes()).hexdigest() == ENCODING_SHA256:
                return path
        except OSError:
            continue
    return None


def load_encoding() -> Any | None:
    """tiktoken's encoding, None if its vocabulary is not on this machine. Never downloads.

    Raises:
        ImportError: tiktoken is not installed.
    """
    tiktoken = importlib.import_module("tiktoken")
    path = find_vocabulary()
    if path is None:
        return None
    with _kept_in(path.parent):
        return tiktoken.get_encoding(ENCODING)


def fetch_vocabulary() -> Path:
    """Download the vocabulary unless it is on this machine; the path of its file.

    It is kept in TIKTOKEN_CACHE_DIR, else in the user's folder for caches.

    Raises:
        NotAvailableError: tiktoken is not installed, or the download failed.
    """
    try:
        tiktoken = importlib.import_module("tiktoken")
    except ImportError as error:
        raise lacking("tiktoken is not installed", "tokens") from error
    found = find_vocabulary()
    if found is not None:
        return found
    given = os.environ.get(_VARIABLE)
    folder = Path(given) if given else _own_folder()
    try:
        with _kept_in(folder):
            tiktoken.get_encoding(ENCODING)
    except Exception as error:  # whatever tiktoken's network layer raises
        raise NotAvailableError(
            f"tiktoken's vocabulary {ENCODING} could not be downloaded from {_ADDRESS} "
            f"({type(error).__name__}): try again with a network, or copy that file to "
            f"{folder / _FILE_NAME}"
        ) from error
    return folder / _FILE_NAME


def _folders() -> Iterator[Path]:
    # The variables are tiktoken's own; "" switches its cache off.
    for variable in (_VARIABLE, "DATA_GYM_CACHE_DIR"):
        if given := os.environ.get(variable):
            yield Path(given)
    yield _own_folder()
    yield Path(tempfile.gettempdir()) / "data-gym-cache"


def _own_folder() -> Path:
    """Where `fetch_vocabulary` keeps it: unlike the folder for temporary files, it stays."""
    home = Path.home()
    if sys.platform == "win32":
        caches = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        caches = home / "Library" / "Caches"
    else:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return caches / "triptych" / "tiktoken"


@contextmanager
def _kept_in(folder: Path) -> Iterator[None]:
    """Let tiktoken look in ``folder`` and nowhere else; it can be told by its variable only."""
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before
