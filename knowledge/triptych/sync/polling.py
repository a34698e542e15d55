"""A notifier that looks for itself: for network disks, whose servers tell nobody of changes."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator

from triptych.errors import ValidationError
from triptych.records import ChangeEvent
from triptych.sync.directory import DirectorySync
from triptych.sync.scanner import FileStat

_RACY_NS = 2_000_000_000


class PollingNotifier:
    """An `EventNotifier` that compares the files of a `DirectorySync` with those of before.

    It looks at names, sizes and times, and reads no file. What it cannot see keeps its documents;
    when it can be seen again, all is compared. It begins with an event for each dataset, since
    nobody knows what happened before.
    """

    def __init__(self, sync: DirectorySync, *, every: float = 5.0) -> None:
        """Look every ``every`` seconds.

        Raises:
            ValidationError: ``every`` is not a number of seconds above 0.
        """
        number = isinstance(every, int | float) and not isinstance(every, bool)
        if not number or not math.isfinite(every) or every <= 0:
            raise ValidationError(f"every is a number of seconds above 0, not {every!r:.60}")
        self._sync = sync
        self._every = every
        self._stop = threading.Event()

    def events(self) -> Iterator[ChangeEvent]:
        """Every change, as it is seen; ends soon after `close`."""
        if self._stop.is_set():
            return
        before, young = self._look()
        yield from self._sync.everything()
        while not self._stop.wait(self._every):
            now, still_young = self._look()
            unseen = {path for path, stat in now.items() if stat is None}
            seen_again = any(s is None and path not in unseen for path, s in before.items())
            changed = {path for path in {**before, **now} if before.get(path) != now.get(path)}
            # Once more when it is no longer young: what it is then, it stays under these times.
            changed |= young - still_young
            before, young = now, still_young
            if seen_again:
                yield from self._sync.everything()
            elif changed:
                yield from self._sync.changes(sorted(changed))

    def close(self) -> None:
        """End `events`. Idempotent."""
        self._stop.set()

    def _look(self) -> tuple[dict[str, FileStat | None], set[str]]:
        """The files, and those that are so young that they may change under the same times."""
        started = time.time_ns() - _RACY_NS
        found = self._sync.snapshot()
        young = {path for path, stat in found.items() if stat and stat.mtime_ns >= started}
        return found, young
