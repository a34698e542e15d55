"""A notifier for changes in folders that uses watchfiles (extra ``watch``).

The operating system reports the changes: inotify, FSEvents or ReadDirectoryChangesW.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from triptych.errors import NotAvailableError
from triptych.installation import install_command
from triptych.records import ChangeEvent
from triptych.records.values import check_number
from triptych.sync import DirectorySync

if TYPE_CHECKING:
    from collections.abc import Generator

    from watchfiles.main import FileChange

_STEP_MS = 20
_GATHER_MS = 100
_LOOK_MS = 200
"""How often a quiet watch checks that its folders were not replaced."""

_Folders = dict[str, tuple[int, int]]
"""Real paths of watched folders, with device and inode."""


class WatchfilesNotifier:
    """An `EventNotifier` that reports changes below the roots of a `DirectorySync`.

    It starts with an event for each dataset once the watch is active, because earlier changes are
    unknown. It waits for missing roots. A root that was deleted, moved or mounted over is watched
    again when its path exists again, and then fully compared. Because systems drop events when too
    many occur at once, it also compares everything every ``resync`` seconds.
    """

    def __init__(self, sync: DirectorySync, *, resync: float = 600.0) -> None:
        """Nothing is watched yet.

        Raises:
            ValidationError: ``resync`` is not a number of seconds above 0.
            NotAvailableError: watchfiles is not installed.
        """
        check_number(resync, "resync", above=True, of="seconds")
        try:
            import watchfiles  # noqa: F401 - only whether it is there
        except ImportError as error:
            raise NotAvailableError(
                f"watching needs watchfiles: {install_command(extra='watch')}, or poll: --poll 10"
            ) from error
        self._sync = sync
        self._resync = resync
        self._stop = threading.Event()

    def events(self) -> Iterator[ChangeEvent]:
        """Yield each change that the system reports; end soon after `close`.

        Raises:
            NotAvailableError: the system allows no more watches.
        """
        folders = self._there()
        if not folders:
            yield from self._sync.everything()
        while not self._stop.is_set():
            if folders:
                yield from self._watch(folders)
            elif self._stop.wait(_LOOK_MS / 1000):
                return
            folders = self._there()

    def close(self) -> None:
        """End `events`. Idempotent."""
        self._stop.set()

    def _watch(self, folders: _Folders) -> Iterator[ChangeEvent]:
        """The changes below these folders, until other folders are to be watched."""
        changes = self._start(folders)
        try:
            begun = False
            due = time.monotonic() + self._resync
            while True:
                try:
                    # The first answer comes when the watch stands, changes or not.
                    batch = next(changes, None)
                except OSError as error:
                    if self._there() != folders:
                        return  # a folder went away while it was being looked through
                    raise NotAvailableError(
                        f"the folders cannot be watched ({error}): allow more watches "
                        "(on Linux: sysctl fs.inotify.max_user_watches), or poll"
                    ) from error
                if batch is None:
                    return
                if not begun or time.monotonic() >= due:
                    begun, due = True, time.monotonic() + self._resync
                    yield from self._sync.everything()
                elif batch:
                    yield from self._sync.changes(sorted(self._named(batch)))
                if self._there() != folders:
                    return
        finally:
            changes.close()

    def _start(self, folders: _Folders) -> Generator[set[FileChange], None, None]:
        from watchfiles import watch

        return watch(
            *folders,
            watch_filter=None,
            debounce=_GATHER_MS,
            step=_STEP_MS,
            stop_event=self._stop,
            rust_timeout=_LOOK_MS,
            yield_on_timeout=True,
            raise_interrupt=False,
            ignore_permission_denied=True,
        )

    def _there(self) -> _Folders:
        """The roots that are there now."""
        found: _Folders = {}
        for root in self._sync.roots:
            try:
                real = os.path.realpath(root.path)
                status = os.stat(real)
                if os.path.isdir(real):
                    found[real] = (status.st_dev, status.st_ino)
            except OSError:
                continue
        return found

    def _named(self, batch: set[FileChange]) -> set[str]:
        """The changed paths, below the roots as they were named."""
        roots = [(str(root.path), os.path.realpath(root.path)) for root in self._sync.roots]
        named = set()
        for _, path in batch:
            for name, real in roots:
                if path == real or path.startswith(real.rstrip(os.sep) + os.sep):
                    named.add(name + path[len(real.rstrip(os.sep)) :] if real != name else path)
        return named
