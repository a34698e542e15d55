"""The documents of a restricted caller."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import attrs

from triptych.access.view import AccessView
from triptych.contracts.rules import check_delete, check_if_version, outcome_of, plan_put
from triptych.errors import ConflictError, StoreAwayError, TriptychError
from triptych.records import (
    Condition,
    DocumentInfo,
    FilterTree,
    NewDocument,
    PutOutcome,
    SourceDocument,
)
from triptych.records.documents import expired_by, living_version
from triptych.records.filters import NAME, all_of
from triptych.search.file_location import check_sync_roots

_TRIES = 8
"""How often a document is looked at again that others change meanwhile."""


@attrs.frozen(eq=False)
class AccessDocuments:
    """A `DocumentRepo` of what an access shows.

    Under a filter each write names the version of the document that was looked at: a document
    that passes the filter no longer is never written over.
    """

    _view: AccessView

    def put(self, dataset_id: str, document: NewDocument) -> SourceDocument:
        """See `DocumentRepo.put`.

        Raises:
            AccessDeniedError: the document is not the caller's, or would not be afterwards; or it
                is to be of a folder that the store's own machine syncs.
        """
        view, documents = self._view, self._view.store.documents
        view.check_write(dataset_id)
        for left in reversed(range(_TRIES)):
            try:
                return documents.put(dataset_id, self._ready(dataset_id, document))
            except ConflictError:
                if view.tree is None or document.if_version is not None or not left:
                    raise
        raise AssertionError("unreachable")

    def put_many(self, dataset_id: str, documents: Sequence[NewDocument]) -> Sequence[PutOutcome]:
        """See `DocumentRepo.put_many`. A document that may not be written is one that failed."""
        view = self._view
        view.check_write(dataset_id)
        if view.tree is None and not any(each.sync_root for each in documents):
            return view.store.documents.put_many(dataset_id, documents)
        outcomes: dict[int, PutOutcome] = {}
        batch: dict[str, tuple[int, NewDocument]] = {}
        for at, new in enumerate(documents):
            if new.name in batch:
                outcomes |= self._put_batch(dataset_id, documents, batch)
                batch = {}
            try:
                batch[new.name] = at, self._ready(dataset_id, new)
            except TriptychError as error:
                outcomes[at] = failed_put(new, error)
        outcomes |= self._put_batch(dataset_id, documents, batch)
        return [outcomes[at] for at in range(len(documents))]

    def _put_batch(
        self,
        dataset_id: str,
        documents: Sequence[NewDocument],
        batch: Mapping[str, tuple[int, NewDocument]],
    ) -> dict[int, PutOutcome]:
        if not batch:
            return {}
        ready = [new for _, new in batch.values()]
        done = self._view.store.documents.put_many(dataset_id, ready)
        outcomes: dict[int, PutOutcome] = {}
        for (at, _), outcome in zip(batch.values(), done, strict=True):
            asked = documents[at]
            is_raced = isinstance(outcome.error, ConflictError) and asked.if_version is None
            if is_raced and self._view.tree is not None:
                outcome = self._put_again(dataset_id, asked)
            outcomes[at] = outcome
        return outcomes

    def _put_again(self, dataset_id: str, document: NewDocument) -> PutOutcome:
        """The outcome of a document that others changed while it was put."""
        try:
            before = self.get_info(dataset_id, document.name)
            stored = self.put(dataset_id, document)
        except TriptychError as error:
            return failed_put(document, error)
        return outcome_of(before, stored)

    def _ready(self, dataset_id: str, new: NewDocument) -> NewDocument:
        """``new`` with the version that it may be put over.

        Raises:
            AccessDeniedError: the document is not the caller's, or would not be afterwards; or it
                is to be of a folder that the store's own machine syncs.
            ConflictError: it is of another version than ``new`` says.
        """
        view = self._view
        check_sync_roots(view.capabilities.settings, [(new.name, new.sync_root)])
        if view.tree is None:
            return new
        documents = view.store.documents
        # The text of a hidden one is not read: how long that takes would tell of it.
        info = documents.get_info(dataset_id, new.name)
        stored = documents.get(dataset_id, new.name) if info and view.admits(info) else None
        # Versions are compared last, so that a name tells nothing where none may be put.
        after = plan_put(dataset_id, attrs.evolve(new, if_version=None), stored, 0)
        if not all(view.admits(each) for each in (info, stored, after) if each is not None):
            raise view.refused(new.name)
        version = 0 if stored is None else stored.version
        check_if_version(dataset_id, new, version, None if stored is None else stored.system)
        return attrs.evolve(new, if_version=living_version(stored))

    def load(self, document: SourceDocument) -> None:
        """See `DocumentRepo.load`.

        Raises:
            AccessDeniedError: the access has a filter: a version is loaded over whatever there is;
                or the document is of a folder that the store's own machine syncs.
        """
        self._view.check_whole(document.dataset_id, "loading versions")
        folder = document.name, document.system.sync_root
        check_sync_roots(self._view.capabilities.settings, [folder])
        self._view.store.documents.load(document)

    def get(self, dataset_id: str, name: str) -> SourceDocument | None:
        view = self._view
        if view.tree is not None and view.info(dataset_id, name) is None:
            return None
        if not view.access.names(dataset_id):
            return None
        return view.admitted(view.store.documents.get(dataset_id, name))

    def get_info(self, dataset_id: str, name: str) -> DocumentInfo | None:
        return self._view.info(dataset_id, name)

    def list(
        self,
        dataset_id: str,
        *,
        prefix: str = "",
        after: str = "",
        limit: int | None = None,
        where: FilterTree | None = None,
    ) -> Sequence[DocumentInfo]:
        view = self._view
        if not view.access.names(dataset_id):
            return []
        if view.tree is not None and prefix:
            # The prefix is a condition, too: names that are not the caller's are not compared.
            where = all_of(where, Condition(NAME, "starts", (("text", prefix),)))
            prefix = ""
        return view.store.documents.list(
            dataset_id, prefix=prefix, after=after, limit=limit, where=view.where(where)
        )

    def count(self, dataset_id: str, *, where: FilterTree | None = None) -> int:
        view = self._view
        if not view.access.names(dataset_id):
            return 0
        return view.store.documents.count(dataset_id, where=view.where(where))

    def with_expired(self, dataset_ids: Sequence[str], moment: datetime) -> Sequence[str]:
        view = self._view
        found = view.store.documents.with_expired(view.named(dataset_ids), moment)
        if view.tree is None:
            return found
        where = view.where(expired_by(moment))
        return [each for each in found if view.store.documents.list(each, where=where, limit=1)]

    def list_datasets(self) -> Sequence[str]:
        return self._view.datasets()

    def create_dataset(self, dataset_id: str) -> bool:
        view = self._view
        view.check_write(dataset_id)
        if view.tree is not None and view.access.dataset_ids is None:
            view.check_whole(dataset_id, "making a dataset")
        return view.store.documents.create_dataset(dataset_id)

    def delete(self, dataset_id: str, name: str, *, if_version: int | None = None) -> bool:
        view, documents = self._view, self._view.store.documents
        view.check_write(dataset_id)
        if view.tree is None:
            return documents.delete(dataset_id, name, if_version=if_version)
        for left in reversed(range(_TRIES)):
            info = view.info(dataset_id, name)
            version = 0 if info is None else info.version
            check_delete(dataset_id, name, if_version, version)
            if info is None:
                return False
            try:
                return documents.delete(dataset_id, name, if_version=version)
            except ConflictError:
                if if_version is not None or not left:
                    raise
        raise AssertionError("unreachable")

    def delete_many(self, dataset_id: str, versions: Mapping[str, int]) -> Sequence[str]:
        view = self._view
        view.check_write(dataset_id)
        if view.tree is not None:
            there = view.infos(dataset_id, list(versions))
            versions = {
                name: version
                for name, version in versions.items()
                if name in there and there[name].version == version
            }
        return view.store.documents.delete_many(dataset_id, versions)

    def delete_dataset(self, dataset_id: str) -> bool:
        self._view.check_whole(dataset_id, "deleting a dataset")
        return self._view.store.documents.delete_dataset(dataset_id)

    def delete_orphans(self, dataset_id: str, names: Collection[str]) -> Sequence[str]:
        """See `DocumentRepo.delete_orphans`. Under a filter there are none: what has lost its
        document is nobody's."""
        view = self._view
        view.check_write(dataset_id)
        if view.tree is not None:
            return []
        return view.store.documents.delete_orphans(dataset_id, names)


@attrs.frozen(eq=False)
class AccessVersions:
    """A `VersionReader` of what an access shows."""

    _view: AccessView

    def versions(self, dataset_id: str, name: str) -> Sequence[DocumentInfo]:
        """See `VersionReader.versions`, down to the last version that is not the caller's."""
        return self._view.history(dataset_id, name)

    def get_version(self, dataset_id: str, name: str, version: int) -> SourceDocument | None:
        view, reader = self._view, self._view.capabilities.versions
        if reader is None:
            return None
        if not any(each.version == version for each in view.history(dataset_id, name)):
            return None
        return view.admitted(reader.get_version(dataset_id, name, version))

    def deleted_version(self, dataset_id: str) -> int | None:
        """See `VersionReader.deleted_version`; None under a filter."""
        view, reader = self._view, self._view.capabilities.versions
        if reader is None or view.tree is not None or not view.access.names(dataset_id):
            return None
        return reader.deleted_version(dataset_id)


def failed_put(document: NewDocument, error: Exception) -> PutOutcome:
    """The outcome of a put that failed; what says that the store is away is raised."""
    if isinstance(error, StoreAwayError):
        raise error
    return PutOutcome(name=document.name, change="failed", error=error)
