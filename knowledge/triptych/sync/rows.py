"""Mirroring the rows of an external source, such as a table, into a dataset."""

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
from triptych.records.documents import living_version
from triptych.records.filters import NAME
from triptych.records.metadata import same_metadata
from triptych.records.reports import Summed, raise_first, reported
from triptych.service import Service
from triptych.signatures import content_sha256
from triptych.sync.target import DELETED_AT_ONCE, delete_documents

PAGE: Final = 200
_IDS: Final = 5_000


@attrs.frozen(kw_only=True)
class SourceRow:
    """A row converted to a document; its name is the row's id."""

    name: str
    content: str
    metadata: Metadata


@attrs.frozen(kw_only=True)
class RowPage:
    """Rows in the order of their changes. ``cursor`` is for the next page; ``more`` tells whether
    there may be one."""

    rows: Sequence[SourceRow]
    cursor: str
    more: bool


class RowSource(Protocol):
    """A source of rows for `follow_rows`."""

    @property
    def key(self) -> str:
        """Identifies the documents of this source: their `SystemData.sync_root`."""
        ...

    @property
    def shape(self) -> str:
        """Options that affect the documents, such as the columns. If it changes, all rows are read
        again."""
        ...

    def resume(self, cursor: str) -> str:
        """Return an earlier cursor from which to resume, before changes that were committed
        late."""
        ...

    def changed(self, cursor: str, limit: int) -> RowPage:
        """Return a page of the rows changed after ``cursor`` ("": all), oldest change first."""
        ...

    def read(self, names: Sequence[str]) -> Sequence[SourceRow]:
        """Return the current state of those rows that exist."""
        ...

    def names(self, after: str, limit: int) -> Sequence[str]:
        """Return the names of rows after ``after``, in code point order."""
        ...


@attrs.frozen(kw_only=True)
class RowReport(Summed):
    """The report of one pass.

    Attributes:
        checked: the number of rows read, including rows read again as a precaution.
        added, updated, unchanged: numbers of documents.
        deleted: the names of deleted documents, whose rows are gone.
        held: names that were not deleted, because they are more than half of the source's
            documents.
        documents: the number of the source's documents if deletions are held.
        failed: rows that could not be stored; they are tried again when they change, and with
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
        """The number of documents written or deleted."""
        return self.added + self.updated + len(self.deleted)

    def raise_for_failures(self) -> None:
        """Raise the first failure's error, if any; its notes name the others and held deletions."""
        failed = list(self.failed)
        if self.held:
            error = DeletionHeldError(
                f"{len(self.held)} of {self.documents} documents have no row any more, maybe "
                "because a filter or a view has changed: none was deleted; confirm the deletion, "
                "or restore the rows",
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
    """Mirror the rows of ``source`` into the dataset in one pass; return a report.

    It reads the rows changed since the last pass, and some earlier ones. It writes a document only
    if text or metadata differ. The position is stored after each page, so that an interrupted pass
    continues. Several passes may run concurrently.

    Args:
        full: read every row, even if unchanged.
        compare: also compare the ids: delete documents without a row, and read rows without a
            document.
        delete_most: whether more than half of the source's documents may be deleted.
        adopt: whether a row may replace a document from elsewhere with its name.

    Raises:
        ValidationError: ``dataset_id`` is invalid.
        StoreError: the source or the store failed.
        CancelledError: the deadline passed; stored documents remain.
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
        """Write the documents of all changed rows."""
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
        """Delete the documents without a row, and read rows without a document."""
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
                    f"several rows have the id {row.name!r}, but only one of them became a "
                    "document: name a unique column as id"
                )
                failed.append(Failure(dataset_id=self.dataset_id, name=row.name, error=twice))
                if self._is_stored(row, versions.get(row.name)):
                    continue
            try:
                documents.append(self._document(row, versions.get(row.name)))
            except (ValidationError, ConflictError) as refused:
                failed.append(Failure(dataset_id=self.dataset_id, name=row.name, error=refused))
        if documents:
            put = reported(lambda: self.service.put_documents(self.dataset_id, documents))
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
        """Return the document to store.

        Raises:
            ValidationError: the row's id is not a valid document name.
            ConflictError: the document of this name came from elsewhere.
        """
        if info is not None and info.system.sync_root != self.source.key and not self.adopt:
            raise ConflictError(
                f"the document {row.name!r} came from elsewhere: follow the rows into a separate "
                "dataset, or adopt these documents"
            )
        return NewDocument(
            name=row.name,
            content=row.content,
            metadata=row.metadata,
            sync_root=self.source.key,
            if_version=living_version(info),
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
