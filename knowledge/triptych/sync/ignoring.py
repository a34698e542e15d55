"""Ignore files, with Git's rules (gitignore(5))."""

from __future__ import annotations

import os
from collections.abc import Iterator

import attrs

from triptych import deadlines
from triptych.sync.patterns import Pattern, Patterns, parse_pattern

__all__ = ["IGNORE_FILES", "IgnoreStack", "ignore_stack"]

IGNORE_FILES = (".gitignore", ".triptychignore")
"""Later files win over earlier ones of the same folder."""

_MOST = 1024 * 1024
"""Bytes of an ignore file that are read."""

_MARK = b"\xef\xbb\xbf"


@attrs.frozen(slots=True)
class _Level:
    """One folder's patterns; ``strip`` is the length of its path from the top, with a slash."""

    strip: int
    patterns: Patterns


@attrs.frozen(slots=True)
class IgnoreStack:
    """The ignore files in force in one folder, outermost first.

    ``lead`` is the path of the synced root from the top of its work tree, with a slash behind, or
    "" where there is none.
    """

    levels: tuple[_Level, ...] = ()
    lead: str = ""

    def entered(self, folder: str, path: str) -> IgnoreStack:
        """The stack inside ``folder`` (relative to the root, "" for it), which is at ``path``.

        Raises:
            OSError: an ignore file is there and cannot be read.
        """
        patterns = _read(path)
        if not patterns.reverse:
            return self
        strip = len(os.fsencode(self.lead + folder)) + bool(folder)
        return attrs.evolve(self, levels=(*self.levels, _Level(strip, patterns)))

    def verdict(self, relative: str, *, folder: bool = False) -> bool | None:
        """Whether the file or folder is ignored (True) or a negated pattern keeps it (False);
        None when no pattern matches. The folders it lies in are not considered."""
        path = os.fsencode(self.lead + relative)
        for level in reversed(self.levels):
            found = level.patterns.verdict(path[level.strip :], folder=folder)
            if found is not None:
                return found
        return None


def ignore_stack(root: str) -> IgnoreStack:
    """What holds in ``root`` before its own ignore files: those above it, in a git work tree.

    A root that is itself ignored there was named all the same: nothing above it counts then.

    Raises:
        OSError: an ignore file is there and cannot be read.
    """
    above: list[str] = []
    top = root
    while not os.path.lexists(os.path.join(top, ".git")):
        top, before = os.path.dirname(top), top
        if top == before:
            return IgnoreStack()  # no work tree
        above.append(os.path.basename(before))
    stack, folder, path = IgnoreStack(), "", top
    for name in reversed(above):
        stack = stack.entered(folder, path)
        folder, path = f"{folder}/{name}" if folder else name, os.path.join(path, name)
        if stack.verdict(folder, folder=True):
            return IgnoreStack()
    return attrs.evolve(stack, lead=f"{folder}/" if folder else "")


def _read(folder: str) -> Patterns:
    return Patterns.of(pattern for name in IGNORE_FILES for pattern in _lines(folder, name))


def _lines(folder: str, name: str) -> Iterator[Pattern]:
    path = os.path.join(folder, name)
    # A link could lead out of the root, and git does not follow one here either.
    if os.path.islink(path) or not os.path.isfile(path):
        return
    with open(path, "rb") as file:
        data = file.read(_MOST)
    for line in data.removeprefix(_MARK).split(b"\n"):
        deadlines.check("reading ignore files")
        pattern = parse_pattern(line.removesuffix(b"\r"))
        if pattern is not None:
            yield pattern
