"""Ignore files, with Git's rules (gitignore(5))."""

from __future__ import annotations

import os
from collections.abc import Iterator

import attrs

from triptych import deadlines
from triptych.sync.patterns import Pattern, Patterns, parse_pattern
from triptych.sync.tree import Folder, Tree

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

    ``lead`` is the path of the synced root from the top of its work tree, with a slash after, or
    "" where there is none.
    """

    levels: tuple[_Level, ...] = ()
    lead: str = ""

    def entered(self, relative: str, folder: Folder) -> IgnoreStack:
        """The stack inside ``folder``, whose path from the root is ``relative``, "" for the root.

        Raises:
            OSError: an ignore file is there and cannot be read.
        """
        patterns = _read(folder)
        if not patterns.reverse:
            return self
        strip = len(os.fsencode(self.lead + relative)) + bool(relative)
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
    stack, relative, path = IgnoreStack(), "", top
    for name in reversed(above):
        with Tree(path) as tree, tree.folder(()) as folder:
            stack = stack.entered(relative, folder)
        relative, path = f"{relative}/{name}" if relative else name, os.path.join(path, name)
        if stack.verdict(relative, folder=True):
            return IgnoreStack()
    return attrs.evolve(stack, lead=f"{relative}/" if relative else "")


def _read(folder: Folder) -> Patterns:
    # A link could lead out of the root, and Git does not follow one here either.
    found = [folder.read(name, _MOST) for name in IGNORE_FILES]
    return Patterns.of(pattern for data in found if data for pattern in _parsed(data))


def _parsed(data: bytes) -> Iterator[Pattern]:
    for line in data.removeprefix(_MARK).split(b"\n"):
        deadlines.check("reading ignore files")
        pattern = parse_pattern(line.removesuffix(b"\r"))
        if pattern is not None:
            yield pattern
