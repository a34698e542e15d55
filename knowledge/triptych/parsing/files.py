"""Text files on their way in: which ones a folder gives, their names, and what is in them."""

from __future__ import annotations

import os
from collections.abc import Container
from functools import partial
from pathlib import Path, PurePosixPath

import attrs

from triptych.errors import NotFoundError, ValidationError
from triptych.parsing.generated_folders import generated_kind

__all__ = ["ENDINGS", "Skipped", "decode", "name_of", "read_text", "text_files"]

ENDINGS = frozenset(
    (".adoc", ".asciidoc", ".markdown", ".md", ".mdown", ".mdx", ".org", ".rst", ".text", ".txt")
)
"""What is taken from a folder. A file that is named itself may end in anything."""


@attrs.frozen(kw_only=True, slots=True)
class Skipped:
    """A file or folder (``name`` ends in a slash) that was passed over, and why."""

    name: str
    reason: str


def text_files(
    directory: Path, endings: Container[str] = ENDINGS, *, all_folders: bool = False
) -> tuple[list[Path], list[Skipped]]:
    """The text files below ``directory``, by path, and what was passed over, by name.

    Taken are files whose ending is one of ``endings``, in any case, at any depth. Hidden files
    and folders are passed over, a folder as a whole; so are folders of installed or generated files
    (`generated_kind`), unless ``all_folders``; links to folders too, for they may lead in
    circles.

    Raises:
        NotFoundError: there is no such directory.
    """
    if not directory.is_dir():
        raise NotFoundError(f"there is no directory {str(directory)!r}")
    taken: list[Path] = []
    skipped: list[Skipped] = []

    def skip(path: Path, reason: str, *, folder: bool = False) -> None:
        name = path.relative_to(directory).as_posix() + "/" * folder
        skipped.append(Skipped(name=name, reason=reason))

    def unreadable(error: OSError) -> None:
        skip(Path(error.filename), f"cannot be read: {error.strerror}", folder=True)

    for folder, folders, files in os.walk(directory, onerror=unreadable):
        here = Path(folder)
        beside = {*folders, *files}
        for name in list(folders):
            if name.startswith("."):
                skip(here / name, "hidden", folder=True)
                folders.remove(name)
            elif (here / name).is_symlink():
                skip(here / name, "a link to a folder", folder=True)
            elif not all_folders:
                kind = generated_kind(name, beside, partial(_has, here / name))
                if kind:
                    skip(here / name, kind, folder=True)
                    folders.remove(name)
        for name in files:
            path = here / name
            if name.startswith("."):
                skip(path, "hidden")
            elif path.suffix.lower() not in endings:
                skip(path, f"ends in {path.suffix}" if path.suffix else "has no ending")
            elif not path.is_file():
                skip(path, "not a file")
            else:
                taken.append(path)
    return sorted(taken), sorted(skipped, key=lambda each: each.name)


def _has(folder: Path, name: str) -> bool:
    return os.path.lexists(folder / name)


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


def read_text(path: Path) -> str:
    """The file's text, every byte kept: line ends and byte order mark too.

    Raises:
        ValidationError: it is not UTF-8, or cannot be read.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ValidationError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    except ValueError as error:  # a NUL in the path
        raise ValidationError(f"{str(path)!r} cannot be read: {error}") from error
    return decode(data, str(path))


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
