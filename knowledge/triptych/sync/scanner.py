"""Finding the included files of a root, by a walk or one by one."""

from __future__ import annotations

import errno
import math
import os
import sys
from collections.abc import Callable, Container, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import attrs

from triptych import deadlines
from triptych.errors import TriptychError
from triptych.parsing.files import PICTURES, Skipped, generated_kind, markers_beside
from triptych.scan import FileStat, Folder, Tree, is_hidden, is_link
from triptych.sync.patterns import IgnoreStack, compile_patterns, ignore_stack
from triptych.sync.roots import SyncOptions

_SETTINGS_FILE = "triptych.toml"
"""It says how to index, and is nothing to look for."""

_LENIENT_NAMES = sys.platform in ("darwin", "win32")


@attrs.define(slots=True)
class Scan:
    """What a look at a root found; paths are relative to it, with slashes.

    Attributes:
        files: the files that are taken.
        hints: names to parse files by that have no extension.
        skipped: what was skipped.
        failed: what could not be looked at, and why.
        unlisted: folders of which it is not known what they hold; "" is the root.
        links: whether a file is taken that is a link, or below one.
    """

    files: dict[str, FileStat] = attrs.field(factory=dict)
    hints: dict[str, str] = attrs.field(factory=dict)
    skipped: list[Skipped] = attrs.field(factory=list)
    failed: dict[str, OSError | TriptychError] = attrs.field(factory=dict)
    unlisted: set[str] = attrs.field(factory=set)
    links: bool = False

    def hides(self, relative: str) -> bool:
        """Whether this file may be there unseen."""
        return any(
            not folder or relative == folder or relative.startswith(f"{folder}/")
            for folder in self.unlisted
        )


@attrs.frozen(slots=True)
class _Place:
    """A folder on the way down.

    Attributes:
        prefix: "", or its path with a slash after, as its files are named.
        parts: its real path, which differs below a link.
        ignores: what holds in it.
        linked: whether a link leads to it.
    """

    prefix: str
    parts: tuple[str, ...]
    ignores: IgnoreStack
    linked: bool = False


class Scanner:
    """Applies the rules to one root. A walk and a look-up of a single file agree.

    Skipped are: what is hidden, ignored, excluded or too large; what is not a regular file; folders
    of installed or generated files, unless a negated pattern keeps them or all are wanted; files
    that no pattern of ``include`` matches, or, without any, that ``takes`` declines; links out of
    the root, to hidden places, and to folders that hold the link itself. A link to a folder
    leads one level of links deep only, so that links which point at one another end. A link that
    is swapped in during a look leads nowhere: see `Tree`.
    """

    def __init__(self, root: Path, options: SyncOptions, takes: Callable[[str], bool]) -> None:
        self._root = str(root)
        self._takes = takes
        self._max_bytes = options.max_bytes
        self.all_folders: bool = options.all_folders
        self._include = compile_patterns(options.include) if options.include else None
        self._exclude = compile_patterns(options.exclude) if options.exclude else None
        self._exclude_paths = tuple(str(path) for path in options.exclude_paths)

    def scan(self) -> Scan:
        """Everything below the root."""
        found = Scan()
        with self._start(found) as walk:
            if walk is not None:
                walk.walk(walk.top)
        return found

    def look(self, *relatives: str) -> Scan:
        """The files at these paths, as far as they are taken."""
        found = Scan()
        there = [relative for relative in relatives if not self._is_missing(relative)]
        if there:
            with self._start(found) as walk:
                if walk is not None:
                    for relative in there:
                        *above, name = relative.split("/")
                        place = walk.descend(above)
                        if place is not None:
                            walk.judge_at(place, name)
        return found

    def _is_missing(self, relative: str) -> bool:
        """Whether nothing is there. A root that is gone itself gets an error of its own."""
        try:
            os.lstat(os.path.join(self._root, relative))
        except FileNotFoundError:
            return os.path.isdir(self._root)
        except OSError:
            pass  # reported later, where it is known at which folder
        return False

    def scan_below(self, relative: str, most: int) -> Scan | None:
        """Everything below the folder at ``relative``, nothing where it is not gone into.

        None: it holds more than ``most`` entries.
        """
        found = Scan()
        with self._start(found) as walk:
            place = walk.descend(relative.split("/")) if walk is not None else None
            found.skipped.clear()
            if walk is not None and place is not None:
                walk.walk(place, most)
        return None if len(found.files) + len(found.skipped) > most else found

    def wants(self, relative: str) -> bool:
        """Whether a file of this name is taken, by its name alone."""
        if self._include is not None:
            return self._include.covers(relative)
        return self._takes(relative)

    def is_excluded_path(self, path: str) -> bool:
        """Whether ``path`` is, or lies in, what `SyncOptions.exclude_paths` names."""
        return any(path == each or path.startswith(each + os.sep) for each in self._exclude_paths)

    def left_out(self, ignores: IgnoreStack, relative: str, *, is_folder: bool) -> str:
        """Why a file or folder of this path is skipped, "" if it is not."""
        if relative.rpartition("/")[2].startswith("."):
            return "hidden"
        if self.is_excluded_path(os.path.join(self._root, relative.replace("/", os.sep))):
            return "the store itself"
        if not is_folder and relative.rpartition("/")[2] == _SETTINGS_FILE:
            return "settings of Triptych"
        if self._exclude and self._exclude.verdict(os.fsencode(relative), folder=is_folder):
            return "excluded"
        return "ignored" if ignores.verdict(relative, folder=is_folder) else ""

    def file_left_out(self, ignores: IgnoreStack, relative: str, status: FileStat) -> str:
        """Why a file is skipped, "" if it is not."""
        reason = self.left_out(ignores, relative, is_folder=False)
        if not reason and status.kind != "file":
            reason = "not a file"
        if not reason and not self.wants(relative):
            reason = "not asked for" if self._include is not None else _ending(relative)
        if not reason and status.size > self._max_bytes:
            reason = f"larger than {self._max_bytes} bytes"
        return reason

    def generated(
        self, ignores: IgnoreStack, relative: str, beside: Container[str], opened: Folder
    ) -> str:
        """Why a folder is skipped for what is beside it and in it, "" if it is not."""
        if self.all_folders or ignores.verdict(relative, folder=True) is False:
            return ""
        return generated_kind(relative[relative.rfind("/") + 1 :], beside, opened.has)

    @contextmanager
    def _start(self, found: Scan) -> Iterator[_Walk | None]:
        with ExitStack() as stack:
            walk = None
            try:
                tree = stack.enter_context(Tree.of(self._root))
                outer = ignore_stack(self._root)
                with tree.folder(()) as opened:
                    walk = _Walk(self, tree, _Place("", (), outer.entered("", opened)), found)
            except OSError as error:
                found.failed[""] = error
                found.unlisted.add("")
            yield walk


@attrs.define(eq=False)
class _Walk:
    """One look at a root: it notes what the rules say in ``found``."""

    rules: Scanner
    tree: Tree
    top: _Place
    found: Scan

    def walk(self, start: _Place, most: float = math.inf) -> None:
        """Stops in the folder where there are more than ``most`` entries."""
        found, places = self.found, [start]
        while places and len(found.files) + len(found.skipped) <= most:
            deadlines.check("looking through the folder")
            place = places.pop()
            try:
                with self.tree.folder(place.parts) as opened:
                    # In order, so that what is found does not depend on the file system's.
                    entries = opened.entries()
            except OSError as error:
                self.fail(place.prefix[:-1], error)
                continue
            below = []
            beside = {name for name, _ in entries}
            for name, status in entries:
                if isinstance(status, OSError):
                    self.fail(place.prefix + name, status)
                    continue
                inside = self.judge(place, name, status, beside)
                if inside is not None:
                    below.append(inside)
            places += reversed(below)

    def descend(self, names: list[str]) -> _Place | None:
        """The folder at ``names`` below the top; None where it is not gone into."""
        place: _Place | None = self.top
        for name in names:
            if place is None:
                break
            relative = place.prefix + name
            is_known = relative in self.found.files
            place = self.judge_at(place, name)
            if not is_known:  # a file has the place of the folder
                self.found.files.pop(relative, None)
        return place

    def judge_at(self, place: _Place, name: str) -> _Place | None:
        """`judge` the entry of this name."""
        try:
            with self.tree.folder(place.parts) as opened:
                status = opened.status(name)
                # Some systems find a file under names that differ in case or composition.
                if _LENIENT_NAMES and name not in opened.names():
                    return None
                beside = [each for each in markers_beside(name) if opened.has(each)]
        except OSError as error:
            self.fail(place.prefix + name, error)
            return None
        return self.judge(place, name, status, beside)

    def fail(self, relative: str, error: OSError) -> None:
        """Note what could not be looked at."""
        # What vanishes during the walk, or becomes a link, is gone; but of the root that is no
        # knowledge. Before a document is deleted, its file is looked up once more.
        gone = isinstance(error, FileNotFoundError) or is_link(error)
        if not gone or not relative:
            self.found.failed[relative] = error
            self.found.unlisted.add(relative)

    def skip(self, name: str, reason: str) -> None:
        """Note what is not taken."""
        self.found.skipped.append(Skipped(name=name, reason=reason))

    def judge(
        self, place: _Place, name: str, status: FileStat, beside: Container[str]
    ) -> _Place | None:
        """Note a file, or give the folder to go into; ``beside`` has at least the
        `markers_beside` it."""
        relative, parts = place.prefix + name, (*place.parts, name)
        if status.kind == "link":
            return self._judge_link(place, relative, parts, beside)
        if status.kind == "folder":
            return self._judge_folder(place, relative, parts, beside)
        self._judge_file(place, relative, status)
        return None

    def _judge_folder(
        self, place: _Place, relative: str, parts: tuple[str, ...], beside: Container[str]
    ) -> _Place | None:
        reason = self.rules.left_out(place.ignores, relative, is_folder=True)
        ignores = place.ignores
        try:
            if not reason:
                with self.tree.folder(parts) as opened:
                    reason = self.rules.generated(ignores, relative, beside, opened)
                    ignores = ignores.entered(relative, opened)
        except OSError as error:
            self.fail(relative, error)
            return None
        if reason:
            self.skip(f"{relative}/", reason)
            return None
        return _Place(f"{relative}/", parts, ignores, place.linked)

    def _judge_file(self, place: _Place, relative: str, status: FileStat) -> None:
        reason = self.rules.file_left_out(place.ignores, relative, status)
        if reason:
            self.skip(relative, reason)
            return
        self.found.files[relative] = status
        self.found.links |= place.linked

    def _judge_link(
        self, place: _Place, relative: str, parts: tuple[str, ...], beside: Container[str]
    ) -> _Place | None:
        try:
            target, status = _target(self.tree, parts)
        except OSError:
            self.skip(relative, "a link that leads nowhere")
            return None
        is_folder = status.kind == "folder"
        reason = ""
        if target is None:
            reason = "a link out of the folder"
        elif is_hidden(target):
            reason = "a link to what is hidden"
        elif is_folder and place.linked:
            reason = "a link to a folder, below another"
        elif is_folder and target == place.parts[: len(target)]:
            reason = "a link to a folder that it lies in"
        if reason or target is None:
            self.skip(f"{relative}/" if is_folder else relative, reason)
            return None
        linked = attrs.evolve(place, linked=True)
        if is_folder:
            return self._judge_folder(linked, relative, target, beside)
        self._judge_file(linked, relative, status)
        return None


def _target(tree: Tree, parts: tuple[str, ...]) -> tuple[tuple[str, ...] | None, FileStat]:
    """Where a link leads, as `Tree.resolve` tells it, and the status of what is there.

    Raises:
        OSError: it leads nowhere, or was changed meanwhile.
    """
    real = tree.resolve("/".join(parts))
    if real is None:
        # Outside, only whether it is a folder matters, for its name in the report.
        return None, FileStat.of(os.stat(os.path.join(tree.path, *parts)))
    with tree.folder(real[:-1]) as opened:
        status = opened.status(real[-1] if real else ".")
    if status.kind == "link":
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), "/".join(parts))
    return real, status


def _ending(relative: str) -> str:
    ending = os.path.splitext(relative)[1]
    if ending.lower() in PICTURES:
        return f"ends in {ending}, which --ocr reads"
    return f"ends in {ending}" if ending else "has no ending"
