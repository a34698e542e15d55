"""Documents: files and sidecars, read through their mirror."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from triptych import rules
from triptych.errors import ConflictError
from triptych.records import DocumentInfo, NewDocument, PutOutcome, SourceDocument
from triptych.signatures import document_info
from triptych_backends.filesystem import (
    change_detection as noticing,
    history,
    reconcile as scanning,
)
from triptych_backends.filesystem.disk import disk_errors
from triptych_backends.filesystem.formats import Sidecar
from triptych_backends.filesystem.layout import INTENT
from triptych_backends.filesystem.problems import RejectedFile
from triptych_backends.sql.deletes import sourceless
from triptych_backends.sql.documents import SqlDocuments
from triptych_backends.sql.transaction import find_dataset

if TYPE_CHECKING:
    from triptych_backends.filesystem.store import FilesStore

__all__ = ["FilesDocuments"]


class FilesDocuments(SqlDocuments):
    """`DocumentRepo` and `VersionReader` over a `FilesStore`.

    Every method looks at the files it tells of first, and takes over what was edited by hand.
    """

    def __init__(self, files: FilesStore) -> None:
        super().__init__(files.sql)
        self._files = files
        self._keeper = files.keeper

    def scrub(self) -> None:
        """See `FilesStore.scrub`."""
        self._files.scrub()

    def problems(self) -> tuple[RejectedFile, ...]:
        """See `FilesStore.problems`."""
        return self._files.problems()

    def put(self, dataset_id: str, document: NewDocument) -> SourceDocument:
        """See `DocumentRepo.put`.

        Raises:
            CorruptStoreError: a file that is not UTF-8 stands where this one goes.
        """
        problem = noticing.refresh_document(self._keeper, dataset_id, document.name)
        if problem is not None:
            raise problem.error(self._keeper.where)
        return super().put(dataset_id, document)

    def _unchanged(self, dataset_id: str, document: NewDocument) -> SourceDocument | None:
        with disk_errors(self._keeper.where):
            # A change that failed half-way is carried out first, and may be of this document.
            if self._keeper.disk.entry(INTENT) is not None:
                return None
        return super()._unchanged(dataset_id, document)

    def put_many(self, dataset_id: str, documents: Sequence[NewDocument]) -> Sequence[PutOutcome]:
        """See `DocumentRepo.put_many`. A file in the way fails its document alone."""
        if not documents:
            return []
        keeper = self._keeper
        with keeper.locked():
            change = keeper.change(dataset_id)
            problems = {
                name: keeper.look_by_name(change, name)
                for name in dict.fromkeys(document.name for document in documents)
            }
            change.commit()
            change = keeper.change(dataset_id)
            now = datetime.now(UTC)
            stored: dict[str, Sidecar | None] = {}
            outcomes = []
            for document in documents:
                name = document.name
                problem = problems[name]
                if problem is not None:
                    outcomes.append(
                        PutOutcome(name=name, change="failed", error=problem.error(keeper.where))
                    )
                    continue
                if name not in stored:
                    known = keeper.known(dataset_id, name)
                    stored[name] = known.sidecar if known else None
                old = stored[name]
                actual = old.version if old else 0
                try:
                    rules.check_if_version(dataset_id, document, actual)
                except ConflictError as error:
                    outcomes.append(PutOutcome(name=name, change="failed", error=error))
                    continue
                content = document.content.encode()
                digest = hashlib.sha256(content).hexdigest()
                metadata = rules.metadata_after(document, old.metadata if old else None)
                done: Literal["added", "updated", "unchanged"] = "updated" if old else "added"
                if old and (old.sha256, old.metadata) == (digest, metadata):
                    new, done = old, "unchanged"
                else:
                    new = Sidecar(
                        name=name,
                        path=old.path if old else keeper.new_path(change, name),
                        sha256=digest,
                        version=rules.next_version(actual, change.home.deleted_version),
                        updated_at=now,
                        metadata=metadata,
                        original_sha256=document.original_sha256,
                        parser_sig=document.parser_sig,
                    )
                    change.put(new, content, write=True)
                stored[name] = new
                outcomes.append(
                    PutOutcome(
                        name=name,
                        change=done,
                        document=new.document(dataset_id, document.content),
                    )
                )
            change.commit()
            return outcomes

    def load(self, document: SourceDocument) -> None:
        """See `DocumentRepo.load`."""
        keeper = self._keeper
        content = document.content.encode()
        with keeper.locked():
            change = keeper.change(document.dataset_id)
            problem = keeper.look_by_name(change, document.name)
            if problem is not None:
                raise problem.error(keeper.where)
            change.commit()
            change = keeper.change(document.dataset_id)
            known = keeper.known(document.dataset_id, document.name)
            old = known.sidecar if known else None
            new = Sidecar(
                name=document.name,
                path=old.path if old else keeper.new_path(change, document.name),
                sha256=hashlib.sha256(content).hexdigest(),
                version=document.version,
                updated_at=document.updated_at,
                metadata=dict(document.metadata),
                original_sha256=document.original_sha256,
                parser_sig=document.parser_sig,
            )
            if old == new:
                return
            rules.check_unused(document, old.version if old else 0, change.home.deleted_version)
            change.put(new, content, write=True)
            change.commit()

    def get(self, dataset_id: str, name: str) -> SourceDocument | None:
        """See `DocumentRepo.get`.

        Raises:
            CorruptStoreError: its file is no text any more; the message says what to do.
        """
        problem = noticing.refresh_document(self._keeper, dataset_id, name)
        if problem is not None:
            raise problem.error(self._keeper.where)
        return super().get(dataset_id, name)

    def get_info(self, dataset_id: str, name: str) -> DocumentInfo | None:
        """See `DocumentRepo.get_info`. A file that is no text any more is told as it was last."""
        noticing.refresh_document(self._keeper, dataset_id, name)
        return super().get_info(dataset_id, name)

    def list(
        self, dataset_id: str, *, prefix: str = "", after: str = "", limit: int | None = None
    ) -> Sequence[DocumentInfo]:
        """See `DocumentRepo.list`. Folders are looked through for a first page alone."""
        if not after:
            noticing.refresh_dataset(self._keeper, dataset_id)
        return super().list(dataset_id, prefix=prefix, after=after, limit=limit)

    def list_datasets(self) -> Sequence[str]:
        """See `DocumentRepo.list_datasets`. Folders that came or went are seen."""
        noticing.refresh_datasets(self._keeper)
        return super().list_datasets()

    def versions(self, dataset_id: str, name: str) -> Sequence[DocumentInfo]:
        """See `VersionReader.versions`. While another writes this document, the oldest may be
        missing already."""
        current = self.get_info(dataset_id, name)
        if current is None:
            return []
        keeper = self._keeper
        with disk_errors(keeper.where):
            folder = keeper.folder(dataset_id)
            numbers = history.kept(keeper.disk, folder, name) if folder else []
        below = [number for number in numbers if number < current.version]
        old = [self._kept(dataset_id, name, number) for number in below]
        return [current, *(document_info(each) for each in old if each is not None)]

    def get_version(self, dataset_id: str, name: str, version: int) -> SourceDocument | None:
        """See `VersionReader.get_version`."""
        current = self.get(dataset_id, name)
        if current is None or version >= current.version:
            return current if current is not None and version == current.version else None
        return self._kept(dataset_id, name, version)

    def _kept(self, dataset_id: str, name: str, version: int) -> SourceDocument | None:
        keeper = self._keeper
        with disk_errors(keeper.where):
            folder = keeper.folder(dataset_id)
            if folder is None:
                return None
            where = keeper.where
            return history.read_version(keeper.disk, where, dataset_id, folder, name, version)

    def create_dataset(self, dataset_id: str) -> bool:
        """See `DocumentRepo.create_dataset`. Its folder is made, for people to put files into."""
        keeper = self._keeper
        with keeper.locked():
            if keeper.folder(dataset_id) is not None:
                scanning.reconcile(keeper, dataset_id)
            change = keeper.change(dataset_id)
            if change.home.live:
                return False
            change.create()
            change.commit()
            return True

    def delete(self, dataset_id: str, name: str, *, if_version: int | None = None) -> bool:
        """See `DocumentRepo.delete`.

        Raises:
            CorruptStoreError: its file is no text any more: nobody adopted what is in it.
        """
        keeper = self._keeper
        if keeper.sql.read_only:
            return super().delete(dataset_id, name, if_version=if_version)
        with keeper.locked():
            if keeper.folder(dataset_id) is None:
                # What was noted of a dataset that never had a file.
                return super().delete(dataset_id, name, if_version=if_version)
            change = keeper.change(dataset_id)
            problem = keeper.look_by_name(change, name)
            if problem is not None:
                raise problem.error(keeper.where)
            change.commit()
            known = keeper.known(dataset_id, name)
            version = known.sidecar.version if known else 0
            rules.check_delete(dataset_id, name, if_version, version)
            change = keeper.change(dataset_id)
            if known is None:
                change.remove_leftovers(name)
            else:
                change.remove(name, known.sidecar.path, version, known.sidecar.sha256)
            change.commit()
            return known is not None

    def delete_orphans(self, dataset_id: str, names: Collection[str]) -> Sequence[str]:
        """See `DocumentRepo.delete_orphans`. Files that were put by hand count as documents."""
        keeper = self._keeper
        if keeper.sql.read_only or not names:
            return super().delete_orphans(dataset_id, names)
        with keeper.locked():
            if keeper.folder(dataset_id) is None:
                return super().delete_orphans(dataset_id, names)
            scanning.reconcile(keeper, dataset_id)
            change = keeper.change(dataset_id)
            with keeper.sql.reading() as session:
                dataset = find_dataset(session, dataset_id)
                found = sourceless(session, dataset, names) if dataset else []
            for name in found:
                change.remove_leftovers(name)
            change.commit()
            return change.leftovers

    def delete_many(self, dataset_id: str, versions: Mapping[str, int]) -> Sequence[str]:
        """See `DocumentRepo.delete_many`. One whose file is no text any more stays: nobody adopted
        what is in it."""
        keeper = self._keeper
        if keeper.sql.read_only:
            return super().delete_many(dataset_id, versions)
        with keeper.locked():
            if not versions or keeper.folder(dataset_id) is None:
                return []
            change = keeper.change(dataset_id)
            problems = {name: keeper.look_by_name(change, name) for name in versions}
            change.commit()
            change = keeper.change(dataset_id)
            removed = []
            for name in sorted(versions):
                known = keeper.known(dataset_id, name) if problems[name] is None else None
                if known is not None and known.sidecar.version == versions[name]:
                    sidecar = known.sidecar
                    change.remove(name, sidecar.path, sidecar.version, sidecar.sha256)
                    removed.append(name)
            change.commit()
            return removed

    def delete_dataset(self, dataset_id: str) -> bool:
        """See `DocumentRepo.delete_dataset`. Files that are no documents are left."""
        keeper = self._keeper
        with keeper.locked():
            if keeper.folder(dataset_id) is None:
                # What was noted of a dataset that never had a file.
                return super().delete_dataset(dataset_id)
            return scanning.delete_dataset(keeper, dataset_id)
