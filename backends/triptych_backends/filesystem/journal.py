"""Atomic changes of several files, even if interrupted.

A change is first written beside the files, as parts, and synced; then the intent, which lists
what is to be renamed and removed, appears in one rename. From then on it happens: whoever finds
an intent carries it out. Since the parts were on the disk before it, a part that is missing has
been renamed already.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping, Sequence

import attrs

from triptych.errors import CorruptStoreError, StoreError
from triptych_backends.filesystem.disk import Disk
from triptych_backends.filesystem.formats import FormatError, dump, parse
from triptych_backends.filesystem.layout import DATASETS, HISTORY, INTENT, JOURNAL, fold

_DRAFT = f"{INTENT}.new"


@attrs.define
class Intent:
    """Files to write and files to remove, of ``datasets`` (ids).

    ``removals`` maps to the SHA-256 that a file must have when it is removed late, after a crash:
    what a person put there since is left. None for any.
    """

    datasets: set[str] = attrs.field(factory=set)
    writes: dict[str, bytes] = attrs.field(factory=dict)
    removals: dict[str, str | None] = attrs.field(factory=dict)


class Journal:
    """The journal in a store's own folder. Only who holds the writers' lock may use it."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def apply(self, plan: Intent) -> None:
        """Bring the files into the planned state, durably. `finish` ends it.

        Raises OSError, StoreError: nothing has changed; or, if it fails after the intent was
        written, the rest is done by the next `recover`.
        """
        disk = self._disk
        for path in plan.writes:
            self._make_way(path)
            found = disk.entry(path)
            if found is not None and found.kind == "link":
                raise disk.refused(path)
            if found is not None and found.kind == "folder":
                raise StoreError(
                    f"the folder {disk.real(path)} has the path of a file of the store: move it "
                    "elsewhere"
                )
        # What cannot be carried out must not become an intent, which is in the way of all others.
        for folder in sorted({path.rpartition("/")[0] for path in plan.writes}):
            disk.check_writable(folder)
        for folder in sorted({path.rpartition("/")[0] for path in plan.removals}):
            found = disk.entry(folder) if folder else None
            if found is not None and found.kind == "folder":
                disk.check_writable(folder)
        parts: list[tuple[str, str]] = []
        try:
            # A name of its own: an intent that a power cut brings back must not take it for its.
            change = secrets.token_hex(8)
            for number, (path, data) in enumerate(plan.writes.items()):
                part = f"{JOURNAL}/{change}.{number}.part"
                parts.append((part, path))
                disk.write(part, data)
            if len(plan.writes) + len(plan.removals) > 1:
                disk.sync_folder(JOURNAL)
                disk.write(
                    _DRAFT,
                    dump(
                        {
                            "datasets": sorted(plan.datasets),
                            "writes": parts,
                            "removals": plan.removals,
                        }
                    ),
                )
                disk.rename(_DRAFT, INTENT)
        except BaseException:
            if disk.entry(INTENT) is None:
                for part, _ in parts:
                    disk.remove(part)
            raise
        if len(plan.writes) + len(plan.removals) > 1:
            disk.sync_folder(JOURNAL)
        for part, path in parts:
            disk.rename(part, path)
        written = _by_fold(plan.writes)
        for path in plan.removals:
            found = disk.entry(path)
            if found is None or found.kind == "folder" or self._is_written(path, written):
                continue
            disk.remove(path)
        self._sync([*plan.writes, *plan.removals])

    def finish(self) -> None:
        """Forget what has been carried out."""
        self._disk.remove(INTENT)

    def recover(self) -> set[str] | None:
        """Carry out an intent that was left; the ids of its datasets, None without one.

        `finish` ends it, once its datasets have been looked at.

        Raises:
            CorruptStoreError: the intent cannot be read.
        """
        disk = self._disk
        if disk.entry(INTENT) is None:
            return None
        data, _ = disk.read(INTENT)
        try:
            intent = parse(data)
            writes = [(str(part), str(path)) for part, path in intent["writes"]]
            removals: dict[str, str | None] = dict(intent["removals"])
            datasets = set(intent["datasets"])
            _check(writes, removals)
        except (FormatError, ValueError, KeyError, TypeError) as error:
            raise CorruptStoreError(
                f"the journal {disk.real(INTENT)} is damaged: restore it, or remove it, which "
                "loses the interrupted write"
            ) from error
        for part, path in writes:
            if disk.entry(part) is not None:
                self._make_way(path)
                disk.rename(part, path)
        written = _by_fold(path for _, path in writes)
        for path, digest in removals.items():
            found = disk.entry(path)
            if found is None or found.kind != "file":
                continue
            if self._is_written(path, written):
                continue
            if digest in (None, hashlib.sha256(disk.read(path)[0]).hexdigest()):
                disk.remove(path)
        self._sync([*(path for _, path in writes), *removals])
        return datasets

    def clear(self) -> None:
        """Remove parts that no intent names any more."""
        if self._disk.entry(INTENT) is None:
            for name, found in self._disk.names(JOURNAL):
                if found.kind != "folder":
                    self._disk.remove(f"{JOURNAL}/{name}")

    def _is_written(self, path: str, written: Mapping[str, Sequence[str]]) -> bool:
        """Whether a disk that ignores case takes ``path`` for one of ``written``, by fold."""
        twins = written.get(fold(path), ())
        return any(self._disk.entry(twin) == self._disk.entry(path) for twin in twins)

    def _make_way(self, path: str) -> None:
        """Make the folders that ``path`` needs, durably."""
        parts = path.split("/")[:-1]
        folder = "/".join(parts)
        found = self._disk.entry(folder)
        if found is not None and found.kind == "folder":
            return
        for end in range(1, len(parts) + 1):
            if self._disk.make_folder("/".join(parts[:end])):
                self._disk.sync_folder("/".join(parts[: end - 1]))

    def _sync(self, paths: Iterable[str]) -> None:
        for folder in sorted({path.rpartition("/")[0] for path in paths}):
            found = self._disk.entry(folder) if folder else None
            if not folder or (found is not None and found.kind == "folder"):
                self._disk.sync_folder(folder)


def _by_fold(paths: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in paths:
        found.setdefault(fold(path), []).append(path)
    return found


def _check(writes: Iterable[tuple[str, str]], removals: Iterable[str]) -> None:
    """An intent may come from elsewhere (a clone): it moves parts to the store's files alone.

    Raises ValueError.
    """
    for part, _ in writes:
        if not part.startswith(f"{JOURNAL}/") or not part.endswith(".part"):
            raise ValueError(part)
    for path in [*(path for _, path in writes), *removals]:
        path.encode()
        inside = path.removeprefix(f"{DATASETS}/").removeprefix(f"{HISTORY}/")
        if any(name.startswith(".") for name in inside.split("/")):
            raise ValueError(path)
