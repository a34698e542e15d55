"""Which files ``triptych put`` takes, and under which names."""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path

import attrs

from triptych.errors import NotFoundError, ValidationError
from triptych.parsing.files import ENDINGS, Skipped, name_of, text_files

__all__ = ["FileToPut", "find_files"]


@attrs.frozen(kw_only=True, slots=True)
class FileToPut:
    """A file and the document name it goes under."""

    path: Path
    name: str


def find_files(
    paths: Sequence[Path],
    *,
    name: str | None = None,
    endings: Container[str] = ENDINGS,
    all_folders: bool = False,
) -> tuple[list[FileToPut], list[Skipped]]:
    """The files that ``paths`` mean, ordered as given, and by name within a directory, where
    those of ``endings`` are taken; and what was passed over in directories.

    A file in a directory is named by its POSIX path from there. A file that is named itself
    keeps the path it was given by, from the current directory; one outside of it, its last
    part. ``name`` names a single file.

    Raises:
        NotFoundError: a path does not exist.
        ValidationError: two files would get one name, or ``name`` is given for more than one.
    """
    found: list[FileToPut] = []
    skipped: list[Skipped] = []
    for path in paths:
        if path.is_dir():
            taken, passed_over = text_files(path, endings, all_folders=all_folders)
            skipped += passed_over
            found.extend(
                FileToPut(path=file, name=file.relative_to(path).as_posix()) for file in taken
            )
        elif path.exists():
            found.append(FileToPut(path=path, name=name_of(path)))
        else:
            raise NotFoundError(f"there is no file or directory {str(path)!r}")
    if name is not None:
        if len(paths) != 1 or paths[0].is_dir():
            raise ValidationError("--name names a single file: give one file with it")
        return [attrs.evolve(found[0], name=name)], skipped
    seen: dict[str, Path] = {}
    for file in found:
        if file.name in seen:
            raise ValidationError(
                f"{str(seen[file.name])!r} and {str(file.path)!r} would both be named "
                f"{file.name!r}: put them one by one, with --name, or into two datasets"
            )
        seen[file.name] = file.path
    return found, skipped
