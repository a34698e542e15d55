"""Optional packages: found where they are used, named with their extra when missing."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

from triptych.errors import NotAvailableError
from triptych.installation import lacking


def _missing(package: str, extra: str, user: str) -> NotAvailableError:
    return lacking(f"{user} needs the package {package}, which is not installed", extra)


def require(module: str, *, extra: str, user: str) -> ModuleType:
    """Import ``module`` for the embedder ``user``.

    Raises:
        NotAvailableError: it is not installed; the message names ``extra``.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise _missing(module, extra, user) from error


def package_file(module: str, name: str, *, extra: str, user: str) -> Path:
    """The path of the data file ``name`` inside the installed package ``module``.

    Raises:
        NotAvailableError: the package is not installed, or has no such file.
    """
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise _missing(module, extra, user)
    return Path(spec.origin).parent / name


def verified_bytes(path: Path, sha256: str, *, user: str) -> bytes:
    """The bytes of ``path``, whose SHA-256 is ``sha256``.

    What is checked is what is returned: a file swapped after the check changes nothing.

    Raises:
        NotAvailableError: the file cannot be read, or is another one.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise NotAvailableError(
            f"{user} cannot read {path.name} ({error.strerror}): reinstall its package"
        ) from error
    actual = hashlib.sha256(data).hexdigest()
    if actual != sha256:
        raise NotAvailableError(
            f"{user} refuses {path.name}: its SHA-256 is {actual}, expected {sha256}; "
            "reinstall its package in the pinned version"
        )
    return data
