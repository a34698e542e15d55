"""Which files ``triptych put`` takes, under which names, and what is in them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import attrs

from triptych.errors import NotFoundError, ValidationError

__all__ = ["ENDINGS", "FileToPut", "find_files", "read_text"]

ENDINGS = frozenset(
    (".adoc", ".asciidoc", ".markdown", ".md", ".mdown", ".mdx", ".org", ".rst", ".text", ".txt")
)
"""What is taken from a directory. A file that is named itself may end in anything."""


@attrs.frozen(kw_only=True, slots=True)
class FileToPut:
    """A file and the document name it goes under."""

    path: Path
    name: str


def find_files(paths: Sequence[Path], *, name: str | None = None) -> list[FileToPut]:
    """The files that ``paths`` mean, ordered as given, and by name within a directory.

    A file in a directory is named by its POSIX path from there. A file that is named itself
    keeps the path it was given by, from the current directory; one outside of it, its last
    part. ``name`` names a single file.

    Raises:
        NotFoundError: a path does not exist.
        ValidationError: two files would get one name, or ``name`` is given for more than one.
    """
    found: list[FileToPut] = []
    for path in paths:
        if path.is_dir():
            found.extend(
                FileToPut(path=file, name=file.relative_to(path).as_posix())
                for file in sorted(_walk(path))
            )
        elif path.exists():
            found.append(FileToPut(path=path, name=_own_name(path)))
        else:
            raise NotFoundError(f"there is no file or directory {str(path)!r}")
    if name is not None:
        if len(paths) != 1 or paths[0].is_dir():
            raise ValidationError("--name names a single file: give one file with it")
        return [attrs.evolve(found[0], name=name)]
    seen: dict[str, Path] = {}
    for file in found:
        if file.name in seen:
            raise ValidationError(
                f"{str(seen[file.name])!r} and {str(file.path)!r} would both be named "
                f"{file.name!r}: put them one by one, with --name, or into two datasets"
            )
        seen[file.name] = file.path
    return found


def read_text(path: Path) -> str:
    """The file's text, every byte kept: line ends and byte order mark too.

    Raises:
        ValidationError: it is not UTF-8, or cannot be read.
    """
    try:
        return decode(path.read_bytes(), str(path))
    except OSError as error:
        raise ValidationError(f"{str(path)!r} cannot be read: {error.strerror}") from error


def decode(data: bytes, where: str) -> str:
    """``data`` as UTF-8.

    Raises:
        ValidationError: it is something else; the message tells at which byte.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValidationError(
            f"{where!r} is not UTF-8 text (byte {error.start}): convert it first, for example "
            "with iconv"
        ) from error


def _walk(root: Path) -> Iterator[Path]:
    # Links to directories are not followed: they may lead in circles.
    for folder, folders, files in os.walk(root):
        folders[:] = [each for each in folders if not each.startswith(".")]
        for file in files:
            path = Path(folder, file)
            if not file.startswith(".") and path.suffix.lower() in ENDINGS and path.is_file():
                yield path


def _own_name(path: Path) -> str:
    plain = PurePosixPath(Path(os.path.normpath(path)).as_posix())
    if plain.is_absolute() or ".." in plain.parts:
        here = Path.cwd()
        absolute = Path(os.path.normpath(here / path))
        return absolute.relative_to(here).as_posix() if absolute.is_relative_to(here) else path.name
    return str(plain)
