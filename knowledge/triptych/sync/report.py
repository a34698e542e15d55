"""What a sync did, or would do."""

from __future__ import annotations

import attrs

from triptych.parsing.files import Skipped
from triptych.records import Failure, RebuildReport

__all__ = ["SyncPlan", "SyncReport"]


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
        skipped: files and folders that were passed over, and why.
        notes: remarks on files that were read: an encoding that was guessed, for one.
        failed: what could not be done, by document name; of a folder that cannot be read, the
            name ends in a slash. The last good version serves, and the next sync tries again.
        chunks, embedded, reused, pending: as in `PutReport`. Documents whose files were not read,
            but which lacked vectors from an earlier run, are counted in the last three.
    """

    checked: int = 0
    added: int = 0
    updated: int = 0
    unchanged: int = 0
    repaired: int = 0
    renamed: tuple[tuple[str, str], ...] = ()
    deleted: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()
    failed: tuple[Failure, ...] = ()
    chunks: int = 0
    embedded: int = 0
    reused: int = 0
    pending: int = 0

    def __add__(self, other: SyncReport) -> SyncReport:
        """Both together."""
        return SyncReport(
            **{
                field.name: getattr(self, field.name) + getattr(other, field.name)
                for field in attrs.fields(SyncReport)
            }
        )

    def as_rebuild(self) -> RebuildReport:
        """The same as a Rebuilder tells it."""
        rebuilt = self.added + self.updated + len(self.renamed) + self.repaired
        return RebuildReport(
            checked=self.unchanged - self.repaired + rebuilt + len(self.failed),
            fresh=self.unchanged - self.repaired,
            rebuilt=rebuilt,
            embedded=self.embedded,
            reused=self.reused,
            pending=self.pending,
            removed=len(self.deleted) + len(self.renamed),
            failed=self.failed,
        )


@attrs.frozen(kw_only=True, slots=True)
class SyncPlan:
    """What a sync would do, and what it would cost; nothing was written.

    Attributes:
        added, updated, renamed, deleted: names, as `SyncReport` counts them.
        unchanged: how many documents are as their files are; ``repaired`` names those of them
            whose chunks are missing or stale.
        chunks: how many chunks would be derived.
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
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()
    failed: tuple[Failure, ...] = ()
    chunks: int = 0
    embedded: int = 0
    model_calls: int = 0

    def __add__(self, other: SyncPlan) -> SyncPlan:
        """Both together."""
        return SyncPlan(
            **{
                field.name: getattr(self, field.name) + getattr(other, field.name)
                for field in attrs.fields(SyncPlan)
            }
        )
