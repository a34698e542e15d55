"""Finding the included files of a root, by a walk or one by one."""

from __future__ import annotations

import errno
import math
import os
import stat
import sys
from collections.abc import Callable, Container, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import attrs

from triptych import deadlines
from triptych.parsing.files import PICTURES, Skipped, generated_kind, markers_beside
from triptych.sync.patterns import IgnoreStack, compile_patterns, ignore_stack
from triptych.sync.roots import SyncOptions
from triptych.sync.tree import Folder, Tree, is_hidden, is_link

_SETTINGS_FILE = "triptych.toml"
"""It says how to index, and is nothing to look for."""

_LENIENT_NAMES = sys.platform in ("darwin", "win32")


@attrs.frozen(slots=True)
class FileStat:
    """What changes when a file does, as far as the file system tells; times in nanoseconds."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, found: os.stat_result) -> FileStat:
        """The part of ``found`` that counts."""
        return cls(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


@attrs.define(slots=True)
class Scan:
    """What a look at a root found; paths are relative to it, with slashes.

    Attributes:
        files: the files that are taken.
        skipped: what was skipped.
        failed: what could not be looked at, and why.
        unlisted: folders of which it is not known what they hold; "" is the root.
        links: whether a file is taken that is a link, or below one.
    """

    files: dict[str, FileStat] = attrs.field(factory=dict)
    skipped: list[Skipped] = attrs.field(factory=list)
    failed: dict[str, OSError] = attrs.field(factory=dict)
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
        tree: the open root.
        prefix: "", or its path with a slash after, as its files are named.
        parts: its real path, which differs below a link.
        ignores: what holds in it.
        linked: whether a link leads to it.
    """

    tree: Tree
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
        with self._started(found) as place:
            if place is not None:
                self._walk(place, found)
        return found

    def look(self, relative: str) -> Scan:
        """The file at ``relative``, as far as it is taken."""
        found = Scan()
        try:
            os.lstat(os.path.join(self._root, relative))
        except FileNotFoundError:
            # A root that is gone itself gets an error of its own.
            if os.path.isdir(self._root):
                return found
        except OSError:
            pass  # reported below, where it is known at which folder
        *above, name = relative.split("/")
        with self._started(found) as place:
            place = self._descend(place, above, found)
            if place is not None:
                self._one(place, name, found, want_folder=False)
        return found

    def scan_below(self, relative: str, most: int) -> Scan | None:
        """Everything below the folder at ``relative``, nothing where it is not gone into.

        None: it holds more than ``most`` entries.
        """
        found = Scan()
        with self._started(found) as place:
            place = self._descend(place, relative.split("/"), found)
            found.skipped.clear()
            if place is not None:
                self._walk(place, found, most)
        return None if len(found.files) + len(found.skipped) > most else found

    def wants(self, relative: str) -> bool:
        """Whether a file of this name is taken, by its name alone."""
        if self._include is not None:
            return self._include.covers(relative)
        return self._takes(relative)

    def is_excluded_path(self, path: str) -> bool:
        """Whether ``path`` is, or lies in, what `SyncOptions.exclude_paths` names."""
        return any(path == each or path.startswith(each + os.sep) for each in self._exclude_paths)

    # The walk

    @contextmanager
    def _started(self, found: Scan) -> Iterator[_Place | None]:
        with ExitStack() as stack:
            try:
                tree = stack.enter_context(Tree(self._root))
                outer = ignore_stack(self._root)
                with tree.folder(()) as opened:
                    place: _Place | None = _Place(tree, "", (), outer.entered("", opened))
            except OSError as error:
                found.failed[""] = error
                found.unlisted.add("")
                place = None
            yield place

    def _descend(self, place: _Place | None, names: list[str], found: Scan) -> _Place | None:
        for name in names:
            if place is not None:
                place = self._one(place, name, found, want_folder=True)
        return place

    def _walk(self, start: _Place, found: Scan, most: float = math.inf) -> None:
        """Stops in the folder where there are more than ``most`` entries."""
        places = [start]
        while places and len(found.files) + len(found.skipped) <= most:
            deadlines.check("looking through the folder")
            place = places.pop()
            try:
                with place.tree.folder(place.parts) as opened:
                    # In order, so that what is found does not depend on the file system's.
                    entries = opened.entries()
            except OSError as error:
                self._not_listed(place.prefix[:-1], error, found)
                continue
            below = []
            beside = {name for name, _ in entries}
            for name, status in entries:
                if isinstance(status, OSError):
                    self._not_listed(place.prefix + name, status, found)
                    continue
                inside = self._judge(place, name, status, beside, found)
                if inside is not None:
                    below.append(inside)
            places += reversed(below)

    def _one(self, place: _Place, name: str, found: Scan, *, want_folder: bool) -> _Place | None:
        try:
            with place.tree.folder(place.parts) as opened:
                status = opened.status(name)
                # Some systems find a file under names that differ in case or composition.
                if _LENIENT_NAMES and name not in opened.names():
                    return None
                beside = [each for each in markers_beside(name) if opened.has(each)]
        except OSError as error:
            self._not_listed(place.prefix + name, error, found)
            return None
        one = Scan()
        inside = self._judge(place, name, status, beside, one)
        if want_folder or inside is None:
            found.skipped += one.skipped
            found.failed.update(one.failed)
            found.unlisted |= one.unlisted
            found.links = found.links or one.links
            if not want_folder:
                found.files.update(one.files)
        return inside if want_folder else None

    @staticmethod
    def _not_listed(relative: str, error: OSError, found: Scan) -> None:
        # What vanishes during the walk, or becomes a link, is gone; but of the root that is no
        # knowledge. Before a document is deleted, its file is looked up once more.
        gone = isinstance(error, FileNotFoundError) or is_link(error)
        if gone and relative:
            return
        found.failed[relative] = error
        found.unlisted.add(relative)

    # The rules

    def _judge(
        self, place: _Place, name: str, status: os.stat_result, beside: Container[str], found: Scan
    ) -> _Place | None:
        """Note the file in ``found``, or give the folder to go into; ``beside`` has at least the
        `markers_beside` it."""
        relative, parts = place.prefix + name, (*place.parts, name)
        if stat.S_ISLNK(status.st_mode):
            return self._judge_link(place, relative, parts, beside, found)
        if stat.S_ISDIR(status.st_mode):
            return self._judge_folder(place, relative, parts, beside, found)
        self._judge_file(place, relative, status, found)
        return None

    def _judge_folder(
        self,
        place: _Place,
        relative: str,
        parts: tuple[str, ...],
        beside: Container[str],
        found: Scan,
        *,
        linked: bool = False,
    ) -> _Place | None:
        reason = self._left_out(place, relative, is_folder=True)
        ignores = place.ignores
        try:
            if not reason:
                with place.tree.folder(parts) as opened:
                    reason = self._generated(place, relative, beside, opened)
                    ignores = ignores.entered(relative, opened)
        except OSError as error:
            self._not_listed(relative, error, found)
            return None
        if reason:
            found.skipped.append(Skipped(name=f"{relative}/", reason=reason))
            return None
        return _Place(place.tree, f"{relative}/", parts, ignores, linked or place.linked)

    def _judge_file(
        self, place: _Place, relative: str, status: os.stat_result, found: Scan
    ) -> None:
        reason = self._left_out(place, relative, is_folder=False)
        if not reason and not stat.S_ISREG(status.st_mode):
            reason = "not a file"
        if not reason and not self.wants(relative):
            reason = "not asked for" if self._include is not None else _ending(relative)
        if not reason and status.st_size > self._max_bytes:
            reason = f"larger than {self._max_bytes} bytes"
        if reason:
            found.skipped.append(Skipped(name=relative, reason=reason))
            return
        found.files[relative] = FileStat.of(status)
        found.links = found.links or place.linked

    def _judge_link(
        self,
        place: _Place,
        relative: str,
        parts: tuple[str, ...],
        beside: Container[str],
        found: Scan,
    ) -> _Place | None:
        try:
            target, status = _target(place.tree, parts)
        except OSError:
            found.skipped.append(Skipped(name=relative, reason="a link that leads nowhere"))
            return None
        reason = ""
        if target is None:
            reason = "a link out of the folder"
        elif is_hidden(target):
            reason = "a link to what is hidden"
        if stat.S_ISDIR(status.st_mode):
            if not reason and place.linked:
                reason = "a link to a folder, below another"
            if not reason and target == place.parts[: len(target or ())]:
                reason = "a link to a folder that it lies in"
            if reason or target is None:
                found.skipped.append(Skipped(name=f"{relative}/", reason=reason))
                return None
            return self._judge_folder(place, relative, target, beside, found, linked=True)
        if reason:
            found.skipped.append(Skipped(name=relative, reason=reason))
            return None
        before = len(found.files)
        self._judge_file(place, relative, status, found)
        found.links = found.links or len(found.files) > before
        return None

    def _left_out(self, place: _Place, relative: str, *, is_folder: bool) -> str:
        if relative.rpartition("/")[2].startswith("."):
            return "hidden"
        if self.is_excluded_path(os.path.join(self._root, relative.replace("/", os.sep))):
            return "the store itself"
        if not is_folder and relative.rpartition("/")[2] == _SETTINGS_FILE:
            return "settings of Triptych"
        if self._exclude and self._exclude.verdict(os.fsencode(relative), folder=is_folder):
            return "excluded"
        return "ignored" if place.ignores.verdict(relative, folder=is_folder) else ""

    def _generated(
        self, place: _Place, relative: str, beside: Container[str], opened: Folder
    ) -> str:
        if self.all_folders or place.ignores.verdict(relative, folder=True) is False:
            return ""
        return generated_kind(relative[relative.rfind("/") + 1 :], beside, opened.has)


def _target(tree: Tree, parts: tuple[str, ...]) -> tuple[tuple[str, ...] | None, os.stat_result]:
    """Where a link leads, as `Tree.resolve` tells it, and the status of what is there.

    Raises:
        OSError: it leads nowhere, or was changed meanwhile.
    """
    real = tree.resolve("/".join(parts))
    if real is None:
        # Outside, only whether it is a folder matters, for its name in the report.
        return None, os.stat(os.path.join(tree.path, *parts))
    with tree.folder(real[:-1]) as opened:
        status = opened.status(real[-1] if real else ".")
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), "/".join(parts))
    return real, status


def _ending(relative: str) -> str:
    ending = os.path.splitext(relative)[1]
    if ending.lower() in PICTURES:
        return f"ends in {ending}, which --ocr reads"
    return f"ends in {ending}" if ending else "has no ending"
