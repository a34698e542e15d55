"""Files on their way in: the names of documents, and what was skipped."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

import attrs


@attrs.frozen(kw_only=True, slots=True)
class Skipped:
    """A file or folder (``name`` ends in a slash) that was skipped, and why."""

    name: str
    reason: str


def name_of(path: Path) -> str:
    """The document name of a file that is named itself: the path it was given by.

    It is taken from the current directory; a file outside of it has its last part alone.
    """
    plain = PurePosixPath(Path(os.path.normpath(path)).as_posix())
    if plain.is_absolute() or ".." in plain.parts:
        here = Path.cwd()
        absolute = Path(os.path.normpath(here / path))
        return absolute.relative_to(here).as_posix() if absolute.is_relative_to(here) else path.name
    return str(plain)
