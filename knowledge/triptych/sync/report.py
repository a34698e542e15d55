"""Reports and plans of syncs, and the guard against deleting most of a folder."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import attrs

from triptych.errors import DeletionHeldError
from triptych.parsing.files import Skipped
from triptych.records import Failure, RebuildReport
from triptych.records.reports import Summed, raise_first

WAVE = 60.0
"""Seconds without a deletion after which counting restarts. A watched folder that is emptied
reports a few files at a time, and each group alone is less than half."""


@attrs.define(slots=True)
class Wave:
    """Successive deletions of a root: the number of documents before, and of deletions so far."""

    documents: int
    deleted: int
    last: float


class DeletionGuard:
    """Counts the deletions of one `DirectorySync` by root. Not thread-safe.

    A disk that is not mounted leaves an empty folder, and a wrong pattern excludes files. So a pass
    that would delete more than half of a root's documents deletes none of them, and reports it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waves: dict[str, Wave] = {}

    def holds(self, key: str, count: int, documents: Callable[[], int]) -> Wave | None:
        """Return the current `Wave` if ``count`` more deletions are too many, else None.

        ``documents`` returns the number of the root's documents; it is called only at the start of
        a wave.
        """
        wave = self._waves.get(key)
        if wave is None or self._clock() - wave.last > WAVE:
            wave = self._waves[key] = Wave(documents(), 0, self._clock())
        return wave if 2 * (wave.deleted + count) > wave.documents else None

    def deleted(self, key: str, count: int) -> None:
        """Note that ``count`` documents of the root were deleted, after a call of `holds`."""
        if (wave := self._waves.get(key)) is not None:
            wave.deleted += count
            wave.last = self._clock()


@attrs.frozen(kw_only=True, slots=True)
class HeldDeletions:
    """Deletions that a pass did not make, because they are more than half of a root's documents.

    Attributes:
        root: the folder, or the location of a source.
        names: the documents without a file, sorted.
        documents: the number of the root's documents, including these.
        deleted: the number of documents that were deleted shortly before, in smaller groups.
    """

    root: Path | str
    dataset_id: str
    names: tuple[str, ...]
    documents: int
    deleted: int = 0

    @property
    def failure(self) -> Failure:
        """This as a failure of the folder."""
        of = f"{len(self.names)} of the {self.documents} documents"
        why = "have no file any more, maybe because a disk is not mounted"
        if isinstance(self.root, str):
            why = "are not listed any more, maybe because the source was damaged or replaced"
        before = f" (before them, {self.deleted} more)" if self.deleted else ""
        error = DeletionHeldError(
            f"{of} of {str(self.root)!r} {why}: none of them was deleted{before}; confirm the "
            "deletion, or restore the files",
            names=self.names,
            documents=self.documents,
        )
        return Failure(dataset_id=self.dataset_id, name=f"{self.root}/", error=error)


@attrs.frozen(kw_only=True, slots=True)
class SyncReport(Summed):
    """The report of a sync.

    Attributes:
        checked: the number of included files, with failed ones.
        added, updated: numbers of documents, without renamed ones.
        unchanged: the number of unchanged documents; ``repaired`` of them had missing or stale
            chunks or lacked vectors, and have them now. The last good version of a file that fails
            is in both counts if it had such chunks.
        renamed: (old name, new name) of renamed documents.
        deleted: names of documents whose file is gone or no longer included.
        held: deletions that wait for confirmation, because they are more than half of a root.
        skipped: skipped files and folders, and why.
        notes: notes on files that were read, such as a guessed encoding.
        failed: failures by document name, or by folder name with a final slash. The last good
            version is kept, and the next sync tries again.
        chunks, embedded, reused, pending: as in `PutReport`. The last three include documents whose
            files were not read, but which lacked vectors from an earlier run.
        expired: the number of deleted expired documents from outside the folders of this sync:
            files decide about their documents. Syncs of single files delete none.
    """

    checked: int = 0
    added: int = 0
    updated: int = 0
    unchanged: int = 0
    repaired: int = 0
    renamed: tuple[tuple[str, str], ...] = ()
    deleted: tuple[str, ...] = ()
    held: tuple[HeldDeletions, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()
    failed: tuple[Failure, ...] = ()
    chunks: int = 0
    embedded: int = 0
    reused: int = 0
    pending: int = 0
    expired: int = 0

    def raise_for_failures(self) -> None:
        """Raise the first failure's error, if any; its notes name the others and held deletions."""
        raise_first((*self.failed, *(each.failure for each in self.held)))

    def as_rebuild(self) -> RebuildReport:
        """This as the report of a Rebuilder; held deletions are failures of their folder."""
        rebuilt = self.added + self.updated + len(self.renamed) + self.repaired
        failed = (*self.failed, *(each.failure for each in self.held))
        return RebuildReport(
            checked=self.unchanged - self.repaired + rebuilt + len(failed),
            fresh=self.unchanged - self.repaired,
            rebuilt=rebuilt,
            embedded=self.embedded,
            reused=self.reused,
            pending=self.pending,
            removed=len(self.deleted) + len(self.renamed),
            expired=self.expired,
            failed=failed,
        )


@attrs.frozen(kw_only=True, slots=True)
class SyncPlan(Summed):
    """What a sync would do and cost; nothing was written.

    Attributes:
        added, updated, renamed, deleted: names, as `SyncReport` counts them; ``held`` likewise.
        unchanged: the number of unchanged documents; ``repaired`` names those with missing or stale
            chunks.
        chunks: the number of chunks to derive. None, like the next two, if a server derives them.
        embedded: the number of texts without a vector, including documents that lack vectors from
            an earlier run.
        model_calls: the number of calls of the embedder for them.
    """

    checked: int = 0
    added: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    unchanged: int = 0
    repaired: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    deleted: tuple[str, ...] = ()
    held: tuple[HeldDeletions, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()
    failed: tuple[Failure, ...] = ()
    chunks: int | None = 0
    embedded: int | None = 0
    model_calls: int | None = 0
