"""Which files of a root are taken: found by a walk over all, or looked up one by one."""

from __future__ import annotations

import math
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import attrs

from triptych import deadlines
from triptych.files import Skipped
from triptych.sync.ignoring import IgnoreStack, ignore_stack
from triptych.sync.patterns import compile_patterns
from triptych.sync.roots import SyncOptions

__all__ = ["FileStat", "Scan", "Scanner"]

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
        skipped: what was passed over.
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
class _Folder:
    """A folder on the way down: "" or its path with a slash behind; where it is; what holds."""

    prefix: str
    path: str
    ignores: IgnoreStack
    linked: bool = False


class Scanner:
    """Applies the rules to one root. A walk and a look-up of a single file agree.

    Left out are: what is hidden, ignored, excluded or too large; what is no regular file; files
    that no pattern of ``include`` matches, or, without any, that ``takes`` declines; links out of
    the root, to hidden places, and to folders that hold the link itself. A link to a folder
    leads one level of links deep only, so that links which point at one another end.
    """

    def __init__(self, root: Path, options: SyncOptions, takes: Callable[[str], bool]) -> None:
        self._root = str(root)
        self._takes = takes
        self._max_bytes = options.max_bytes
        self._include = compile_patterns(options.include) if options.include else None
        self._exclude = compile_patterns(options.exclude) if options.exclude else None
        self._exclude_paths = tuple(str(path) for path in options.exclude_paths)

    def scan(self) -> Scan:
        """Everything below the root."""
        found = Scan()
        start = self._start(found)
        if start is not None:
            self._walk(start, found)
        return found

    def look(self, relative: str) -> Scan:
        """The file at ``relative``, as far as it is taken."""
        found = Scan()
        try:
            os.lstat(os.path.join(self._root, relative))
        except FileNotFoundError:
            # Of a root that is gone itself, more is to be told than that.
            if os.path.isdir(self._root):
                return found
        except OSError:
            pass  # told below, where it is known at which folder
        folder = self._start(found)
        *above, name = relative.split("/")
        for part in above:
            if folder is None:
                return found
            folder = self._one(folder, part, found, want_folder=True)
        if folder is not None:
            self._one(folder, name, found, want_folder=False)
        return found

    def scan_below(self, relative: str, most: int) -> Scan | None:
        """Everything below the folder at ``relative``, nothing where it is not gone into.

        None: it holds more than ``most`` entries.
        """
        found = Scan()
        folder = self._start(found)
        for part in relative.split("/"):
            if folder is not None:
                folder = self._one(folder, part, found, want_folder=True)
        found.skipped.clear()
        if folder is not None:
            self._walk(folder, found, most)
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

    def _start(self, found: Scan) -> _Folder | None:
        try:
            if not os.path.isdir(self._root):
                # The system's own words for what is the matter.
                os.listdir(self._root)
            outer = ignore_stack(self._root)
            return _Folder("", self._root, outer.entered("", self._root))
        except OSError as error:
            found.failed[""] = error
            found.unlisted.add("")
            return None

    def _walk(self, start: _Folder, found: Scan, most: float = math.inf) -> None:
        """Stops in the folder where there are more than ``most`` entries."""
        folders = [start]
        while folders and len(found.files) + len(found.skipped) <= most:
            deadlines.check("looking through the folder")
            folder = folders.pop()
            try:
                with os.scandir(folder.path) as entries:
                    # Sorted, so that what is found does not depend on the file system's order.
                    listed = sorted(entries, key=lambda entry: entry.name)
            except OSError as error:
                self._not_listed(folder.prefix[:-1], error, found)
                continue
            below = []
            for entry in listed:
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError as error:
                    self._unseen(folder.prefix + entry.name, error, found)
                    continue
                inside = self._judge(folder, entry.name, status, found)
                if inside is not None:
                    below.append(inside)
            folders += reversed(below)

    def _one(self, folder: _Folder, name: str, found: Scan, *, want_folder: bool) -> _Folder | None:
        try:
            status = os.lstat(os.path.join(folder.path, name))
            # Some systems find a file under names that differ in case or composition.
            if _LENIENT_NAMES and name not in os.listdir(folder.path):
                return None
        except OSError as error:
            self._unseen(folder.prefix + name, error, found)
            return None
        one = Scan()
        inside = self._judge(folder, name, status, one)
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
        # What vanishes during the walk is gone; but of the root that is no knowledge.
        if isinstance(error, FileNotFoundError | NotADirectoryError) and relative:
            return
        found.failed[relative] = error
        found.unlisted.add(relative)

    def _unseen(self, relative: str, error: OSError, found: Scan) -> None:
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            return
        found.failed[relative] = error
        found.unlisted.add(relative)

    # The rules

    def _judge(
        self, folder: _Folder, name: str, status: os.stat_result, found: Scan
    ) -> _Folder | None:
        """Note the file in ``found``, or give the folder to go into."""
        relative, path = folder.prefix + name, os.path.join(folder.path, name)
        if stat.S_ISLNK(status.st_mode):
            return self._judge_link(folder, relative, path, found)
        if stat.S_ISDIR(status.st_mode):
            return self._judge_folder(folder, relative, path, found)
        self._judge_file(folder, relative, path, status, found)
        return None

    def _judge_folder(
        self, folder: _Folder, relative: str, path: str, found: Scan, *, linked: bool = False
    ) -> _Folder | None:
        reason = self._left_out(folder, relative, path, is_folder=True)
        if reason:
            found.skipped.append(Skipped(name=f"{relative}/", reason=reason))
            return None
        try:
            ignores = folder.ignores.entered(relative, path)
        except OSError as error:
            self._not_listed(relative, error, found)
            return None
        return _Folder(f"{relative}/", path, ignores, linked or folder.linked)

    def _judge_file(
        self, folder: _Folder, relative: str, path: str, status: os.stat_result, found: Scan
    ) -> None:
        reason = self._left_out(folder, relative, path, is_folder=False)
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
        found.links = found.links or folder.linked

    def _judge_link(self, folder: _Folder, relative: str, path: str, found: Scan) -> _Folder | None:
        try:
            target = os.path.realpath(path, strict=True)
            status = os.stat(target)
        except OSError:
            found.skipped.append(Skipped(name=relative, reason="a link that leads nowhere"))
            return None
        reason = self._bad_target(target)
        if stat.S_ISDIR(status.st_mode):
            here = os.path.realpath(folder.path)
            if not reason and folder.linked:
                reason = "a link to a folder, below another"
            if not reason and (here == target or here.startswith(target + os.sep)):
                reason = "a link to a folder that it lies in"
            if reason:
                found.skipped.append(Skipped(name=f"{relative}/", reason=reason))
                return None
            return self._judge_folder(folder, relative, path, found, linked=True)
        if reason:
            found.skipped.append(Skipped(name=relative, reason=reason))
            return None
        before = len(found.files)
        self._judge_file(folder, relative, path, status, found)
        found.links = found.links or len(found.files) > before
        return None

    def _bad_target(self, target: str) -> str:
        root = os.path.realpath(self._root).rstrip(os.sep)
        if not f"{target}{os.sep}".startswith(f"{root}{os.sep}"):
            return "a link out of the folder"
        if any(part.startswith(".") for part in target[len(root) :].split(os.sep)):
            return "a link to what is hidden"
        return ""

    def _left_out(self, folder: _Folder, relative: str, path: str, *, is_folder: bool) -> str:
        if relative.rpartition("/")[2].startswith("."):
            return "hidden"
        if self.is_excluded_path(path):
            return "the store itself"
        if self._exclude and self._exclude.verdict(os.fsencode(relative), folder=is_folder):
            return "excluded"
        return "ignored" if folder.ignores.verdict(relative, folder=is_folder) else ""


def _ending(relative: str) -> str:
    ending = os.path.splitext(relative)[1]
    return f"ends in {ending}" if ending else "has no ending"
