"""Mapping changes of files to the smallest events that cover them."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Mapping, Sequence

import attrs

from triptych.parsing.files import MARKERS_INSIDE, folders_beside
from triptych.records import ChangeEvent, EventKind, RebuildScope
from triptych.sync.patterns import IGNORE_FILES
from triptych.sync.roots import Root, SyncRoot
from triptych.sync.scanner import Scanner
from triptych.sync.state import SyncRecord

_MANY = 1000
"""More changed paths than this at once are not looked at one by one."""

Running = Mapping[str, Sequence[str] | None]
"""The datasets that are being synced, and of which documents; None means of all."""

StoredBelow = Callable[[str, str], Sequence[str] | None]
"""Documents of a dataset whose names begin with a folder's (which ends in a slash): at least one
more than a scope can name if there are so many. None where that is unknown."""


def events_of(
    roots: Sequence[tuple[SyncRoot, Scanner]],
    known: Mapping[Root, Mapping[str, SyncRecord]],
    paths: Sequence[str],
    *,
    running: Running,
    stored_below: StoredBelow,
) -> list[ChangeEvent]:
    """The events that changes at the absolute ``paths`` make, each once, in order."""
    found: dict[ChangeEvent, None] = {}
    for root, scanner in roots:
        changes = _Changes(
            root=root,
            scanner=scanner,
            known=known.get(root, {}),
            running=running,
            stored_below=stored_below,
        )
        below = [relative for path in paths if (relative := _below(root, path)) is not None]
        found |= dict.fromkeys(changes.events(list(dict.fromkeys(below))))
    return list(found)


def _below(root: SyncRoot, path: str) -> str | None:
    """``path`` from the root, "" for the root itself, None outside of it."""
    base = str(root.path)
    if path == base:
        return ""
    prefix = base.rstrip(os.sep) + os.sep
    return path[len(prefix) :].replace(os.sep, "/") if path.startswith(prefix) else None


class _TooWideError(Exception):
    """What has changed is not known document by document."""


@attrs.frozen(kw_only=True, slots=True)
class _Changes:
    """The changes below one root."""

    root: SyncRoot
    scanner: Scanner
    known: Mapping[str, SyncRecord]
    running: Running
    stored_below: StoredBelow

    def events(self, changed: Sequence[str]) -> list[ChangeEvent]:
        """One for each document that may have changed, or one for the dataset."""
        found: dict[ChangeEvent, None] = {}
        folders: set[str] = set()
        looked_at = 0
        try:
            for relative in changed:
                if self._left_out(relative) or any(each in folders for each in _above(relative)):
                    continue
                looked_at += 1
                if os.path.isdir(self.root.path / relative):
                    folders.add(relative)
                found |= dict.fromkeys(self._told(relative, folder=relative in folders))
                if looked_at > _MANY or len(found) > RebuildScope.MAX_DOC_NAMES:
                    raise _TooWideError
        except _TooWideError:
            return [ChangeEvent(kind=EventKind.BULK, dataset_id=self.root.dataset_id)]
        return list(found)

    def _left_out(self, relative: str) -> bool:
        *above, name = relative.split("/")
        if any(part.startswith(".") for part in above):
            return True
        if name.startswith(".") and name not in IGNORE_FILES:
            return True
        return self.scanner.is_excluded_path(str(self.root.path / relative))

    def _told(self, relative: str, *, folder: bool) -> list[ChangeEvent]:
        """
        Raises:
            _TooWideError: the dataset has to be looked through.
        """
        name = relative.rpartition("/")[2]
        if not relative or name in IGNORE_FILES or self._is_marker(relative, name):
            raise _TooWideError
        if folder:
            return self._folder(relative)
        scan = self.scanner.look(relative)
        one = self._event(relative, there=bool(scan.files))
        if relative in self.known or scan.failed:
            return [one]
        # What is new may have taken the place of a folder, and what is gone may have been one.
        if scan.files:
            return [one, *self._deleted(relative)]
        if os.path.lexists(self.root.path / relative):
            return self._deleted(relative)
        self._check_running(relative)
        mine = [one] if self.scanner.wants(relative) else []
        return [*mine, *self._deleted(relative)]

    def _is_marker(self, relative: str, name: str) -> bool:
        """Whether, with this file, folders come to be left out, or to be taken."""
        if self.scanner.all_folders:
            return False
        path = self.root.path / relative
        if relative in self.known and os.path.lexists(path):
            return False  # it was there, and is
        return name in MARKERS_INSIDE or any(
            os.path.isdir(path.with_name(each)) for each in folders_beside(name)
        )

    def _folder(self, relative: str) -> list[ChangeEvent]:
        self._check_running(relative)
        scan = self.scanner.scan_below(relative, RebuildScope.MAX_DOC_NAMES)
        # Behind links, a file may be that of documents elsewhere.
        if scan is None or scan.unlisted or scan.failed or scan.links:
            raise _TooWideError
        found = [self._event(each, there=True) for each in scan.files]
        if relative in self.known or self.scanner.wants(relative):
            # It may have taken the place of a file.
            found.append(self._event(relative, there=False))
        return found + self._deleted(relative, but=scan.files)

    def _deleted(self, relative: str, *, but: Container[str] = ()) -> list[ChangeEvent]:
        """One for each document below what is, or was, a folder, that has no file there."""
        dataset_id = self.root.dataset_id
        names = self.stored_below(dataset_id, f"{self.root.name_of(relative)}/")
        if names is None or len(names) > RebuildScope.MAX_DOC_NAMES:
            raise _TooWideError
        return [
            self._event(below, there=False)
            for name in names
            if (below := self.root.relative_of(name)) is not None and below not in but
        ]

    def _check_running(self, folder: str) -> None:
        """A sync that runs may have read files there that no store has yet."""
        dataset_id, below = self.root.dataset_id, f"{self.root.name_of(folder)}/"
        names = self.running.get(dataset_id, ())
        if names is None or any(name.startswith(below) for name in names):
            raise _TooWideError

    def _event(self, relative: str, *, there: bool) -> ChangeEvent:
        return ChangeEvent(
            kind=EventKind.PUT if there else EventKind.DELETE,
            dataset_id=self.root.dataset_id,
            doc_name=self.root.name_of(relative),
        )


def _above(relative: str) -> list[str]:
    parts = relative.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]
