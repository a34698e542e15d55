"""Rows of something else, such as a table, followed into a dataset: what changed is written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol

import attrs

from triptych import deadlines
from triptych._internal.digests import digest
from triptych._internal.progress import Progress, ProgressCallback
from triptych.errors import ConflictError, DeletionHeldError, ValidationError
from triptych.records import (
    Condition,
    DocumentInfo,
    Failure,
    Metadata,
    NewDocument,
    check_identifier,
)
from triptych.records.filters import NAME
from triptych.records.metadata import same_metadata
from triptych.records.reports import Summed, raise_first
from triptych.service import Service
from triptych.signatures import content_sha256
from triptych.sync.target import DELETED_AT_ONCE, delete_documents

PAGE: Final = 200
_IDS: Final = 5_000


@attrs.frozen(kw_only=True)
class SourceRow:
    """A row as a document: the name is its id."""

    name: str
    content: str
    metadata: Metadata


@attrs.frozen(kw_only=True)
class RowPage:
    """Rows in the order of their changes. ``cursor`` is where the next page begins; ``more`` is
    whether there may be another."""

    rows: Sequence[SourceRow]
    cursor: str
    more: bool


class RowSource(Protocol):
    """What `follow_rows` reads."""

    @property
    def key(self) -> str:
        """What distinguishes the documents of this source: their `SystemData.sync_root`."""
        ...

    @property
    def shape(self) -> str:
        """What decides the documents beside the rows, such as the columns. Where it has changed,
        every row is read again."""
        ...

    def resume(self, cursor: str) -> str:
        """Where to begin again after ``cursor``: before whatever may have been committed late."""
        ...

    def changed(self, cursor: str, limit: int) -> RowPage:
        """The rows that changed after ``cursor`` ("": all), oldest change first."""
        ...

    def read(self, names: Sequence[str]) -> Sequence[SourceRow]:
        """Those of the rows that are there, as they are now."""
        ...

    def names(self, after: str, limit: int) -> Sequence[str]:
        """The names of all rows that come after ``after``, in order of their code points."""
        ...


@attrs.frozen(kw_only=True)
class RowReport(Summed):
    """What a pass did.

    Attributes:
        checked: rows that were read; those that are read again by precaution are among them.
        added, updated, unchanged: documents.
        deleted: names of documents whose row is gone.
        held: names that were not deleted, for they are more than half of the source's documents.
        documents: how many documents the source had where deletions are held.
        failed: what could not be stored; it is tried again when the row changes, and by a pass with
            ``full``.
        embedded, pending: as in `PutReport`.
    """

    checked: int = 0
    added: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    documents: int = 0
    failed: tuple[Failure, ...] = ()
    embedded: int = 0
    pending: int = 0

    @property
    def changed(self) -> int:
        """How many documents were written or deleted."""
        return self.added + self.updated + len(self.deleted)

    def raise_for_failures(self) -> None:
        """Raise the first failure's error, whose notes name the others; held deletions are one."""
        failed = list(self.failed)
        if self.held:
            error = DeletionHeldError(
                f"{len(self.held)} of {self.documents} documents have no row any more, which may "
                "be a filter or a view that has changed: none of them was deleted; confirm it, or "
                "bring the rows back",
                names=self.held,
                documents=self.documents,
            )
            failed.append(Failure(dataset_id="", name="", error=error))
        raise_first(failed)


def follow_rows(
    service: Service,
    dataset_id: str,
    source: RowSource,
    *,
    full: bool = False,
    compare: bool = True,
    delete_most: bool = False,
    adopt: bool = False,
    progress: ProgressCallback | None = None,
) -> RowReport:
    """Bring the dataset up to the rows of ``source``: one pass; a report.

    Rows that changed since the last pass are read, and a little further back. A document is
    written only where its text or metadata differ. How far the pass came is kept in the store after
    each page: killed and run again, it goes on. Several may run at a time.

    Args:
        full: read every row, whatever was read before.
        compare: compare the ids, too: documents whose row is gone are deleted, and rows that were
            never seen are read.
        delete_most: whether more than half of the source's documents may be deleted.
        adopt: whether a document that came from elsewhere is replaced by a row of its name.

    Raises:
        ValidationError: ``dataset_id`` is invalid.
        StoreError: the source or the store failed.
        CancelledError: the deadline passed; what was stored stays.
    """
    check_identifier(dataset_id, "dataset_id")
    follower = _Follower(service, dataset_id, source, adopt, progress)
    report = follower.read_changes(full=full)
    service.create_dataset(dataset_id)  # a table without rows is a dataset without documents
    if compare:
        report += follower.compare(delete_most=delete_most)
    return report


@attrs.frozen
class _Follower:
    service: Service
    dataset_id: str
    source: RowSource
    adopt: bool
    progress: ProgressCallback | None

    def read_changes(self, *, full: bool) -> RowReport:
        """Write the documents of all rows that changed."""
        known = "" if full else self._cursor()
        cursor = self.source.resume(known) if known else ""
        report = RowReport()
        while True:
            deadlines.check("following rows")
            page = self.source.changed(cursor, PAGE)
            report += self._store(page.rows)
            if self.progress is not None:
                self.progress(Progress(phase="reading rows", done=report.checked))
            cursor = page.cursor
            # A pass that is killed goes on here; one that began before the last end keeps that.
            if cursor:
                self._keep(cursor)
            if not page.more:
                return report

    def compare(self, *, delete_most: bool) -> RowReport:
        """Delete the documents whose rows are gone, and read rows that have no document."""
        there = self._documents()
        ours = sum(info.system.sync_root == self.source.key for info in there.values())
        gone = {
            name: info for name, info in there.items() if info.system.sync_root == self.source.key
        }
        report = RowReport()
        for names in self._names():
            deadlines.check("following rows")
            missing = [name for name in names if name not in there]
            for name in names:
                gone.pop(name, None)
            for start in range(0, len(missing), PAGE):
                report += self._store(self.source.read(missing[start : start + PAGE]))
        if 2 * len(gone) > ours and not delete_most:
            return report + RowReport(held=tuple(sorted(gone)), documents=ours)
        return report + self._delete(list(gone.values()))

    def _names(self) -> Iterator[Sequence[str]]:
        after = ""
        while names := self.source.names(after, _IDS):
            yield names
            after = names[-1]

    def _documents(self) -> dict[str, DocumentInfo]:
        if self.dataset_id not in self.service.documents.list_datasets():
            return {}
        return {info.name: info for info in self.service.documents.list(self.dataset_id)}

    def _delete(self, infos: Sequence[DocumentInfo]) -> RowReport:
        report = RowReport()
        for start in range(0, len(infos), DELETED_AT_ONCE):
            deadlines.check("following rows")
            several = infos[start : start + DELETED_AT_ONCE]
            # A row may have come back since its id was looked for.
            back = {row.name for row in self.source.read([info.name for info in several])}
            deleted, failed = delete_documents(
                self.service, self.dataset_id, [each for each in several if each.name not in back]
            )
            report += RowReport(deleted=tuple(deleted), failed=tuple(failed))
        return report

    def _store(self, rows: Sequence[SourceRow]) -> RowReport:
        """Write those of ``rows`` that differ from their documents."""
        if not rows:
            return RowReport()
        versions = self._infos([row.name for row in rows])
        differing = [row.name for row in rows if not self._is_stored(row, versions.get(row.name))]
        report = RowReport(checked=len(rows), unchanged=len(rows) - len(differing))
        if not differing:
            return report
        # Read once more, now that the versions are known: who reads an older state than another
        # follower wrote has an older version, and is refused.
        documents, failed = [], []
        read: dict[str, SourceRow] = {}
        repeated: set[str] = set()
        for row in self.source.read(list(dict.fromkeys(differing))):
            if row.name in read:
                repeated.add(row.name)
            # The same one in each pass, so that the document is not written again and again.
            read[row.name] = min(
                read.get(row.name, row),
                row,
                key=lambda each: (each.content, repr(sorted(each.metadata.items()))),
            )
        for row in read.values():
            if row.name in repeated:
                twice = ValidationError(
                    f"several rows have the id {row.name!r}, and the document is of one of them: "
                    "name a column as id that is unique"
                )
                failed.append(Failure(dataset_id=self.dataset_id, name=row.name, error=twice))
                if self._is_stored(row, versions.get(row.name)):
                    continue
            try:
                documents.append(self._document(row, versions.get(row.name)))
            except (ValidationError, ConflictError) as refused:
                failed.append(Failure(dataset_id=self.dataset_id, name=row.name, error=refused))
        if documents:
            put = self.service.put_documents(self.dataset_id, documents)
            failed += [each for each in put.failed if not isinstance(each.error, ConflictError)]
            report += RowReport(
                added=put.added,
                updated=put.updated,
                unchanged=put.unchanged,
                embedded=put.embedded,
                pending=put.pending,
            )
        return report + RowReport(failed=tuple(failed))

    def _infos(self, names: Sequence[str]) -> Mapping[str, DocumentInfo]:
        wanted = Condition(NAME, "in", tuple(("text", name) for name in dict.fromkeys(names)))
        found = self.service.documents.list(self.dataset_id, where=wanted)
        return {info.name: info for info in found}

    def _is_stored(self, row: SourceRow, info: DocumentInfo | None) -> bool:
        return (
            info is not None
            and info.system.sync_root == self.source.key
            and info.content_sha256 == content_sha256(row.content)
            and same_metadata(info.metadata, row.metadata)
        )

    def _document(self, row: SourceRow, info: DocumentInfo | None) -> NewDocument:
        """The document to put.

        Raises:
            ValidationError: the row's id cannot be the name of a document.
            ConflictError: the document of its name came from elsewhere.
        """
        if info is not None and info.system.sync_root != self.source.key and not self.adopt:
            raise ConflictError(
                f"the document {row.name!r} came from elsewhere: follow the rows into a dataset of "
                "their own, or adopt such documents"
            )
        return NewDocument(
            name=row.name,
            content=row.content,
            metadata=row.metadata,
            sync_root=self.source.key,
            if_version=0 if info is None else info.version,
        )

    # How far the last pass came

    @property
    def _setting(self) -> str:
        return f"rows.{digest(self.dataset_id, self.source.key)[:16]}"

    def _cursor(self) -> str:
        settings = self.service.capabilities.settings
        text = None if settings is None else settings.get_setting(self._setting)
        try:
            kept = json.loads(text or "{}")
        except ValueError:
            return ""
        same = isinstance(kept, dict) and kept.get("shape") == self.source.shape
        return str(kept.get("cursor", "")) if same else ""

    def _keep(self, cursor: str) -> None:
        settings = self.service.capabilities.settings
        if settings is None:
            return  # each pass reads every row
        before = settings.get_setting(self._setting)
        kept = json.dumps({"cursor": cursor, "shape": self.source.shape})
        if kept != before:
            # Where another follower was first, its place is as good.
            settings.set_setting(self._setting, kept, expected=before)
