"""What a sync did, or would do, and what keeps it from deleting most of a folder by surprise."""

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
"""Seconds without a deletion after which the next one is counted from the beginning. A watched
folder that is emptied tells of its files a few at a time, and each few alone are no half."""


@attrs.define(slots=True)
class Wave:
    """Deletions of a root that follow each other: how many it had before, how many are done."""

    documents: int
    deleted: int
    last: float


class DeletionGuard:
    """Counts what the passes of one `DirectorySync` delete, root by root. Not thread-safe.

    A disk that is not mounted leaves an empty folder, and a mistaken pattern leaves files out:
    neither is a reason to delete the documents. So a pass that would delete more than half of a
    root's documents deletes none of them, and reports it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waves: dict[str, Wave] = {}

    def holds(self, key: str, count: int, documents: Callable[[], int]) -> Wave | None:
        """What the root had and lost so far, if ``count`` more deletions are too many; else None.

        ``documents`` counts those that it has; it is asked only at the beginning of a wave.
        """
        wave = self._waves.get(key)
        if wave is None or self._clock() - wave.last > WAVE:
            wave = self._waves[key] = Wave(documents(), 0, self._clock())
        return wave if 2 * (wave.deleted + count) > wave.documents else None

    def deleted(self, key: str, count: int) -> None:
        """Note that ``count`` documents of the root were deleted, if `holds` was asked of them."""
        if (wave := self._waves.get(key)) is not None:
            wave.deleted += count
            wave.last = self._clock()


@attrs.frozen(kw_only=True, slots=True)
class HeldDeletions:
    """What a pass did not delete, for it would have been more than half of a root's documents.

    Attributes:
        root: the folder.
        names: the documents that have no file any more, ordered.
        documents: how many documents the root had, these included.
        deleted: how many of them were deleted shortly before, in smaller numbers.
    """

    root: Path
    dataset_id: str
    names: tuple[str, ...]
    documents: int
    deleted: int = 0

    @property
    def failure(self) -> Failure:
        """The same as a failure of the folder."""
        more = f" more, after {self.deleted}" if self.deleted else ""
        of = f"{len(self.names)}{more} of the {self.documents} documents"
        error = DeletionHeldError(
            f"{of} of {str(self.root)!r} have no file there any more, which may be a disk that is "
            "not mounted: none of them was deleted; confirm it, or bring the files back",
            names=self.names,
            documents=self.documents,
        )
        return Failure(dataset_id=self.dataset_id, name=f"{self.root}/", error=error)


@attrs.frozen(kw_only=True, slots=True)
class SyncReport(Summed):
    """What a sync did.

    Attributes:
        checked: files that are taken, failed ones included.
        added, updated: documents; a renamed one is in neither.
        unchanged: documents that were as their files are; ``repaired`` of them had chunks that
            were missing or stale, or lacked vectors, and have them now. The last good version of
            a file that fails is in both counts if it had such chunks.
        renamed: (old name, new name) of documents whose content is now under another name.
        deleted: names of documents whose file is gone or no longer taken.
        held: deletions that wait to be confirmed, for they are more than half of a root; all
            else was done.
        skipped: files and folders that were skipped, and why.
        notes: remarks on files that were read: an encoding that was guessed, for one.
        failed: what could not be done, by document name; of a folder that cannot be read, the
            name ends in a slash. The last good version serves, and the next sync tries again.
        chunks, embedded, reused, pending: as in `PutReport`. Documents whose files were not read,
            but which lacked vectors from an earlier run, are counted in the last three.
        expired: documents that were deleted because they have expired, of no folder of this sync:
            a file decides about its own. Syncs of single files delete none.
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
        """Raise the first failure's error, whose notes name the others; held deletions are some."""
        raise_first((*self.failed, *(each.failure for each in self.held)))

    def as_rebuild(self) -> RebuildReport:
        """The same as a Rebuilder tells it; held deletions are failures of their folder."""
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
    """What a sync would do, and what it would cost; nothing was written.

    Attributes:
        added, updated, renamed, deleted: names, as `SyncReport` counts them; ``held`` likewise.
        unchanged: how many documents are as their files are; ``repaired`` names those of them
            whose chunks are missing or stale.
        chunks: how many chunks would be derived. None, and so the next two, where another side
            cuts and embeds, which alone knows.
        embedded: how many texts have no vector yet, those of documents that lack vectors from an
            earlier run included.
        model_calls: how many calls of the embedder that makes.
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
