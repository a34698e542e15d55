"""Documents: files and sidecars, read through their mirror."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

from triptych.contracts import rules
from triptych.errors import ConflictError
from triptych.records import DocumentInfo, FilterTree, NewDocument, PutOutcome, SourceDocument
from triptych.records.metadata import same_metadata
from triptych_backends.filesystem import change_detection, history
from triptych_backends.filesystem.adoption import adopt_by_name, adopt_now
from triptych_backends.filesystem.checks import list_problems
from triptych_backends.filesystem.contents import RejectedFile
from triptych_backends.filesystem.disk import disk_errors
from triptych_backends.filesystem.formats import Sidecar
from triptych_backends.filesystem.layout import INTENT
from triptych_backends.filesystem.reconcile import delete_dataset, reconcile
from triptych_backends.filesystem.writer import Writer
from triptych_backends.sql.deletes import sourceless
from triptych_backends.sql.documents import SqlDocuments
from triptych_backends.sql.transaction import find_dataset


class FilesDocuments:
    """`DocumentRepo` and `VersionReader` over a `FilesStore`.

    Every method looks at the files it tells of first, and takes over what was edited by hand.
    """

    def __init__(self, writer: Writer, mirror: SqlDocuments) -> None:
        self.writer = writer
        self.workspace = writer.workspace
        self.mirror = mirror

    def problems(self) -> tuple[RejectedFile, ...]:
        return list_problems(self.workspace)

    def put(self, dataset_id: str, document: NewDocument) -> SourceDocument:
        """See `DocumentRepo.put`.

        Raises:
            CorruptStoreError: a file that is not UTF-8 stands where this one goes.
        """
        problem = change_detection.refresh_document(self.writer, dataset_id, document.name)
        if problem is not None:
            raise problem.error(self.workspace.where)
        unchanged = self._unchanged(dataset_id, document)
        if unchanged is not None:
            return unchanged
        return rules.document_of(self.put_many(dataset_id, [document])[0])

    def _unchanged(self, dataset_id: str, document: NewDocument) -> SourceDocument | None:
        with disk_errors(self.workspace.where):
            # A change that failed half-way is carried out first, and may be of this document.
            if self.workspace.disk.entry(INTENT) is not None:
                return None
        return self.mirror.find_unchanged(dataset_id, document)

    def put_many(self, dataset_id: str, documents: Sequence[NewDocument]) -> Sequence[PutOutcome]:
        """See `DocumentRepo.put_many`. A file in the way fails its document alone."""
        if not documents:
            return []
        writer, workspace = self.writer, self.workspace
        with writer.locked():
            change = writer.change(dataset_id)
            problems = {
                name: adopt_by_name(change, name)
                for name in dict.fromkeys(document.name for document in documents)
            }
            change.commit()
            change = writer.change(dataset_id)
            now = datetime.now(UTC)
            stored: dict[str, Sidecar | None] = {}
            outcomes = []
            for document in documents:
                name = document.name
                problem = problems[name]
                if problem is not None:
                    outcomes.append(
                        PutOutcome(name=name, change="failed", error=problem.error(workspace.where))
                    )
                    continue
                if name not in stored:
                    stored[name] = workspace.cache.document(dataset_id, name)
                old = stored[name]
                content = document.content.encode()
                digest = hashlib.sha256(content).hexdigest()
                same = old is not None and old.sha256 == digest
                used = change.home.deleted_version
                try:
                    made = rules.plan_change(
                        dataset_id, document, old, used, same_content=same, now=now
                    )
                except ConflictError as error:
                    outcomes.append(PutOutcome(name=name, change="failed", error=error))
                    continue
                done: Literal["added", "updated", "unchanged"] = "updated" if old else "added"
                if made is None:
                    assert old is not None
                    new, done = old, "unchanged"
                else:
                    new = Sidecar.of(made, old.path if old else change.new_path(name), digest)
                    change.put(new, content)
                stored[name] = new
                outcomes.append(
                    PutOutcome(
                        name=name, change=done, document=new.document(dataset_id, document.content)
                    )
                )
            change.commit()
            return outcomes

    def load(self, document: SourceDocument) -> None:
        writer, workspace = self.writer, self.workspace
        with writer.locked():
            adopt_now(writer.change(document.dataset_id), document.name)
            change = writer.change(document.dataset_id)
            old = workspace.cache.document(document.dataset_id, document.name)
            new = Sidecar.of(document, old.path if old else change.new_path(document.name))
            if old == new and old is not None and same_metadata(old.metadata, new.metadata):
                return
            rules.check_unused(document, old.version if old else 0, change.home.deleted_version)
            change.put(new, document.content.encode())
            change.commit()

    def get(self, dataset_id: str, name: str) -> SourceDocument | None:
        """See `DocumentRepo.get`.

        Raises:
            CorruptStoreError: its file is not text any more; the message says what to do.
        """
        problem = change_detection.refresh_document(self.writer, dataset_id, name)
        if problem is not None:
            raise problem.error(self.workspace.where)
        return self.mirror.get(dataset_id, name)

    def get_info(self, dataset_id: str, name: str) -> DocumentInfo | None:
        """See `DocumentRepo.get_info`. Of a file that is no longer text: its last version."""
        change_detection.refresh_document(self.writer, dataset_id, name)
        return self.mirror.get_info(dataset_id, name)

    def list(
        self,
        dataset_id: str,
        *,
        prefix: str = "",
        after: str = "",
        limit: int | None = None,
        where: FilterTree | None = None,
    ) -> Sequence[DocumentInfo]:
        """See `DocumentRepo.list`. Folders are looked through for a first page alone."""
        if not after:
            change_detection.refresh_dataset(self.writer, dataset_id)
        return self.mirror.list(dataset_id, prefix=prefix, after=after, limit=limit, where=where)

    def count(self, dataset_id: str, *, where: FilterTree | None = None) -> int:
        """See `DocumentRepo.count`. The folder is looked through first."""
        change_detection.refresh_dataset(self.writer, dataset_id)
        return self.mirror.count(dataset_id, where=where)

    def with_expired(self, dataset_ids: Sequence[str], moment: datetime) -> Sequence[str]:
        return self.mirror.with_expired(dataset_ids, moment)

    def list_datasets(self) -> Sequence[str]:
        """See `DocumentRepo.list_datasets`. Folders that came or went are seen."""
        change_detection.refresh_datasets(self.writer)
        return self.mirror.list_datasets()

    def versions(self, dataset_id: str, name: str) -> Sequence[DocumentInfo]:
        return history.versions(self.workspace, self.get_info(dataset_id, name))

    def get_version(self, dataset_id: str, name: str, version: int) -> SourceDocument | None:
        return history.get_version(self.workspace, self.get(dataset_id, name), version)

    def deleted_version(self, dataset_id: str) -> int:
        change_detection.refresh_dataset(self.writer, dataset_id)
        return self.mirror.deleted_version(dataset_id)

    def create_dataset(self, dataset_id: str) -> bool:
        """See `DocumentRepo.create_dataset`. Its folder is made, for people to put files into."""
        writer, workspace = self.writer, self.workspace
        with writer.locked():
            if workspace.folder(dataset_id) is not None:
                reconcile(workspace, dataset_id)
            change = writer.change(dataset_id)
            if change.home.live:
                return False
            change.create()
            change.commit()
            return True

    def delete(self, dataset_id: str, name: str, *, if_version: int | None = None) -> bool:
        """See `DocumentRepo.delete`.

        Raises:
            CorruptStoreError: its file is not text any more: nobody adopted what is in it.
        """
        writer, workspace = self.writer, self.workspace
        with writer.locked():
            if workspace.folder(dataset_id) is None:
                # What was noted of a dataset that never had a file.
                return self.mirror.delete(dataset_id, name, if_version=if_version)
            adopt_now(writer.change(dataset_id), name)
            known = workspace.cache.document(dataset_id, name)
            version = known.version if known else 0
            rules.check_delete(dataset_id, name, if_version, version)
            change = writer.change(dataset_id)
            if known is None:
                change.remove_leftovers(name)
            else:
                change.remove(known, known.sha256)
            change.commit()
            return known is not None

    def delete_orphans(self, dataset_id: str, names: Collection[str]) -> Sequence[str]:
        """See `DocumentRepo.delete_orphans`. Files that were put by hand count as documents."""
        writer, workspace = self.writer, self.workspace
        if not names:
            return []
        with writer.locked():
            if workspace.folder(dataset_id) is None:
                return self.mirror.delete_orphans(dataset_id, names)
            reconcile(workspace, dataset_id)
            change = writer.change(dataset_id)
            with workspace.database.reading() as session:
                dataset = find_dataset(session, dataset_id)
                found = sourceless(session, dataset, names) if dataset else []
            for name in found:
                change.remove_leftovers(name)
            change.commit()
            return change.leftovers

    def delete_many(self, dataset_id: str, versions: Mapping[str, int]) -> Sequence[str]:
        """See `DocumentRepo.delete_many`. One whose file is not text any more stays: nobody adopted
        what is in it."""
        writer, workspace = self.writer, self.workspace
        with writer.locked():
            if not versions or workspace.folder(dataset_id) is None:
                return []
            change = writer.change(dataset_id)
            problems = {name: adopt_by_name(change, name) for name in versions}
            change.commit()
            change = writer.change(dataset_id)
            removed = []
            for name in sorted(versions):
                known = (
                    workspace.cache.document(dataset_id, name) if problems[name] is None else None
                )
                if known is not None and known.version == versions[name]:
                    change.remove(known, known.sha256)
                    removed.append(name)
            change.commit()
            return removed

    def delete_dataset(self, dataset_id: str) -> bool:
        """See `DocumentRepo.delete_dataset`. Files that are no documents are left."""
        writer, workspace = self.writer, self.workspace
        with writer.locked():
            if workspace.folder(dataset_id) is None:
                # What was noted of a dataset that never had a file.
                return self.mirror.delete_dataset(dataset_id)
            return delete_dataset(workspace, dataset_id)
