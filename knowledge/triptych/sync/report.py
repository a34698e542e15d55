"""What a sync did, or would do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs

from triptych.errors import DeletionHeldError
from triptych.parsing.files import Skipped
from triptych.records import Failure, RebuildReport
from triptych.records.reports import raise_first


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
class SyncReport:
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

    def __add__(self, other: SyncReport) -> SyncReport:
        """Both together."""
        return SyncReport(
            **{
                field.name: getattr(self, field.name) + getattr(other, field.name)
                for field in attrs.fields(SyncReport)
            }
        )

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
class SyncPlan:
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

    def __add__(self, other: SyncPlan) -> SyncPlan:
        """Both together."""
        return SyncPlan(
            **{
                field.name: _both(getattr(self, field.name), getattr(other, field.name))
                for field in attrs.fields(SyncPlan)
            }
        )


def _both(one: Any, other: Any) -> Any:
    return None if one is None or other is None else one + other
