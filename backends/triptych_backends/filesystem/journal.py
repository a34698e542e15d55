"""Atomic changes of several files, even if interrupted.

A change is first written beside the files, as parts, and synced; then the intent, which lists
what is to be renamed and removed, appears in one rename. From then on it happens: whoever finds
an intent carries it out. Since the parts were on the disk before it, a part that is missing has
been renamed already.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping

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
        self._check_places(plan)
        parts = self._write_parts(plan)
        self._carry_out(parts, plan.writes, dict.fromkeys(plan.removals))

    def _check_places(self, plan: Intent) -> None:
        """Refuse what cannot be carried out: as an intent, it would be in the way of all others."""
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
        for folder in _folders([*plan.writes, *plan.removals]):
            if folder and disk.is_folder(folder):
                disk.check_writable(folder)

    def _write_parts(self, plan: Intent) -> list[tuple[str, str]]:
        """Write the parts, with their paths, and the intent if there are several changes."""
        disk, parts = self._disk, list[tuple[str, str]]()
        is_one = len(plan.writes) + len(plan.removals) == 1
        # A name of its own: an intent that a power cut brings back must not take it for its.
        change = secrets.token_hex(8)
        try:
            for number, (path, data) in enumerate(plan.writes.items()):
                part = f"{JOURNAL}/{change}.{number}.part"
                parts.append((part, path))
                disk.write(part, data)
            if not is_one:
                disk.sync_folder(JOURNAL)
                intent = {"writes": parts, "removals": plan.removals}
                disk.write(_DRAFT, dump({"datasets": sorted(plan.datasets), **intent}))
                disk.rename(_DRAFT, INTENT)
        except BaseException:
            if disk.entry(INTENT) is None:
                for part, _ in parts:
                    disk.remove(part)
            raise
        if not is_one:
            disk.sync_folder(JOURNAL)
        return parts

    def _carry_out(
        self,
        parts: Iterable[tuple[str, str]],
        writes: Iterable[str],
        removals: Mapping[str, str | None],
    ) -> None:
        """Move ``parts`` to their paths, which are among ``writes``, and remove files."""
        disk = self._disk
        for part, path in parts:
            disk.rename(part, path)
        written: dict[str, list[str]] = {}
        for path in writes:
            written.setdefault(fold(path), []).append(path)
        for path, digest in removals.items():
            found = disk.entry(path)
            if found is None or found.kind == "folder":
                continue
            # A disk that ignores case takes the path for one that was written.
            if any(disk.entry(twin) == found for twin in written.get(fold(path), ())):
                continue
            if digest is None or (
                found.kind == "file" and digest == hashlib.sha256(disk.read(path)[0]).hexdigest()
            ):
                disk.remove(path)
        for folder in _folders([*writes, *removals]):
            if disk.is_folder(folder):
                disk.sync_folder(folder)

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
        parts = [(part, path) for part, path in writes if disk.entry(part) is not None]
        for _, path in parts:
            self._make_way(path)
        self._carry_out(parts, [path for _, path in writes], removals)
        return datasets

    def clear(self) -> None:
        """Remove parts that no intent names any more."""
        if self._disk.entry(INTENT) is None:
            for name, found in self._disk.names(JOURNAL):
                if found.kind != "folder":
                    self._disk.remove(f"{JOURNAL}/{name}")

    def _make_way(self, path: str) -> None:
        """Make the folders that ``path`` needs, durably."""
        parts = path.split("/")[:-1]
        if self._disk.is_folder("/".join(parts)):
            return
        for end in range(1, len(parts) + 1):
            if self._disk.make_folder("/".join(parts[:end])):
                self._disk.sync_folder("/".join(parts[: end - 1]))


def _folders(paths: Iterable[str]) -> list[str]:
    return sorted({path.rpartition("/")[0] for path in paths})


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
