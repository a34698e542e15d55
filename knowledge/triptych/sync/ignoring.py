"""Ignore files and patterns, with git's rules (gitignore(5)); `pathspec` does the matching."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

import attrs
from pathspec import GitIgnoreSpec, Pattern

from triptych.errors import ValidationError

__all__ = ["IGNORE_FILES", "IgnoreStack", "compile_patterns", "ignore_stack"]

IGNORE_FILES = (".gitignore", ".triptychignore")
"""Later files win over earlier ones of the same folder."""

_CLASS = re.compile(r"\[:([a-z]+):\]")
_CLASSES = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "xdigit": "0-9a-fA-F",
    "space": " \t\n\r\f\v",
    "blank": " \t",
}

_MOST = 1024 * 1024
"""Bytes of an ignore file that are read."""


def compile_patterns(patterns: Sequence[str]) -> GitIgnoreSpec:
    """The patterns of an option.

    Raises:
        ValidationError: one of them is no pattern, or none that anything can match, such as an
            empty one: as the only one to include, it would leave out, and delete, everything.
    """
    for pattern in patterns:
        try:
            spec = GitIgnoreSpec.from_lines([_plain(pattern)])
        except ValueError as error:
            raise ValidationError(f"{pattern!r} is no pattern: {error}") from error
        if all(each.include is None for each in spec.patterns):
            raise ValidationError(
                f"{pattern!r} is no pattern that anything matches: it is empty, a comment, or has "
                "an open bracket"
            )
    return GitIgnoreSpec.from_lines([_plain(pattern) for pattern in patterns])


def _plain(pattern: str) -> str:
    """``pattern`` with git's classes of characters, such as ``[:alpha:]``, written out: pathspec
    does not know them."""
    return _CLASS.sub(lambda found: _CLASSES.get(found[1], found[0]), pattern)


@attrs.frozen(slots=True)
class _Level:
    """One folder's patterns: ``lead`` + a path below the root, less ``strip`` characters of it."""

    strip: int
    lead: str
    spec: GitIgnoreSpec


@attrs.frozen(slots=True)
class IgnoreStack:
    """The ignore files in force in one folder, outermost first."""

    levels: tuple[_Level, ...] = ()

    def entered(self, folder: str, path: str) -> IgnoreStack:
        """The stack inside ``folder`` (relative to the root, "" for it), which is at ``path``.

        Raises:
            OSError: an ignore file is there and cannot be read.
        """
        spec = _read(path)
        if spec is None:
            return self
        strip = len(folder) + 1 if folder else 0
        return IgnoreStack((*self.levels, _Level(strip, "", spec)))

    def ignores(self, relative: str, *, folder: bool = False) -> bool:
        """Whether the file or folder is ignored; what it lies in is not."""
        end = "/" if folder else ""
        for level in reversed(self.levels):
            path = f"{level.lead}{relative[level.strip :]}{end}"
            for pattern in reversed(tuple(level.spec.patterns)):
                if pattern.include is not None and _names(pattern, path):
                    return pattern.include
        return False


def _names(pattern: Pattern, path: str) -> bool:
    """Whether a pattern is about the path itself, not a folder above it: pathspec lets what names a
    folder hold for all below it, which Git decides anew, entry by entry."""
    found = pattern.match_file(path)
    if found is None:
        return False
    match = found.match
    return match.groupdict().get("ps_d") is None or match.end() == len(path)


def ignore_stack(root: str) -> IgnoreStack:
    """What holds in ``root`` before its own ignore files: those above it, in a git work tree.

    A root that is itself ignored there was named all the same: nothing above it counts then.

    Raises:
        OSError: an ignore file is there and cannot be read.
    """
    above: list[str] = []
    folder = root
    while not os.path.lexists(os.path.join(folder, ".git")):
        folder, before = os.path.dirname(folder), folder
        if folder == before:
            return IgnoreStack()  # no work tree
        above.append(folder)
    levels: list[_Level] = []
    for folder in reversed(above):
        spec = _read(folder)
        if spec is not None:
            lead = os.path.relpath(root, folder).replace(os.sep, "/")
            levels.append(_Level(0, f"{lead}/", spec))
    if any(level.spec.match_file(level.lead) for level in levels):
        return IgnoreStack()
    return IgnoreStack(tuple(levels))


def _read(folder: str) -> GitIgnoreSpec | None:
    lines: list[str] = []
    for name in IGNORE_FILES:
        path = os.path.join(folder, name)
        # A link could lead out of the root, and git does not follow one here either.
        if os.path.islink(path) or not os.path.isfile(path):
            continue
        with open(path, "rb") as file:
            data = file.read(_MOST)
        lines += data.decode("utf-8-sig", "surrogateescape").splitlines()
    return _lenient(lines) if lines else None


def _lenient(lines: Iterable[str]) -> GitIgnoreSpec:
    """As git does, pass over a line that is no pattern."""
    kept = []
    for line in map(_plain, lines):
        try:
            GitIgnoreSpec.from_lines([line])
        except ValueError:
            continue
        kept.append(line)
    return GitIgnoreSpec.from_lines(kept)
