"""The changes that an access shows, and cursors that count nothing else."""

from __future__ import annotations

import secrets

import attrs

from triptych import deadlines
from triptych.access.cursor_seal import CursorSeal
from triptych.access.dataset_changes import DatasetsChanges
from triptych.access.view import AccessView
from triptych.contracts import ChangeReader, SettingsStore
from triptych.errors import (
    CorruptStoreError,
    NotAvailableError,
    StoreError,
    StoreLockedError,
)
from triptych.records import ChangeCursor, ChangePage, DocumentChange, Subject
from triptych.records.filters import NAME, conditions_of

__all__ = ["AccessChanges"]

_SETTING = "access/secret"
_MOST_AT_ONCE = 10_000


class AccessChanges:
    """A `ChangeReader` of what an access shows.

    The numbers of a store's log count the changes of all datasets: under an access the cursors are
    sealed, so that nobody reads them. The log keeps the names of deleted documents and not their
    metadata: an access with a filter on metadata has no changes.
    """

    def __init__(
        self, view: AccessView, reader: ChangeReader, settings: SettingsStore | None
    ) -> None:
        sealed_before = False
        if isinstance(reader, AccessChanges):
            # Restricted again: the cursors of the store are merged, and sealed once.
            sealed_before, settings = reader.seals, reader._settings
            reader = reader._shown
        self._shown: _ShownChanges = _ShownChanges(view, reader)
        self._settings: SettingsStore | None = settings
        self._seal: CursorSeal | None = None
        is_whole = view.access.dataset_ids is None and view.tree is None
        self.seals: bool = sealed_before or not is_whole

    def change_head(self) -> str:
        """See `ChangeReader.change_head`."""
        return self._shown.change_head()

    def read_changes(
        self, since: ChangeCursor | None, *, dataset_id: str | None, limit: int
    ) -> ChangePage:
        """See `ChangeReader.read_changes`.

        Raises:
            NotAvailableError: the access has a filter on something else than names; or the store
                can keep no secret.
        """
        if not self.seals:
            return self._shown.read_changes(since, dataset_id=dataset_id, limit=limit)
        self._shown.check()
        seal = self._sealed()
        position = None if since is None else seal.open(since)
        page = self._shown.read_changes(position, dataset_id=dataset_id, limit=limit)
        changes = (attrs.evolve(each, cursor=seal.close(each.cursor)) for each in page.changes)
        return attrs.evolve(page, changes=tuple(changes), cursor=seal.close(page.cursor))

    def _sealed(self) -> CursorSeal:
        if self._seal is None:
            self._seal = CursorSeal(_secret(self._settings))
        return self._seal


class _ShownChanges:
    """A `ChangeReader` of what an access shows, with the cursors of the store."""

    def __init__(self, view: AccessView, reader: ChangeReader) -> None:
        self._view = view
        names = view.access.dataset_ids
        self._reader = reader if names is None else DatasetsChanges(reader, names)

    def check(self) -> None:
        if any(condition.field != NAME for condition in conditions_of(self._view.tree)):
            raise NotAvailableError(
                "this access has a filter on metadata, and the log of changes does not keep the "
                "metadata of deleted documents: compare list_documents, which has names and "
                "versions, with what you have; or ask for an access by doc_prefix, doc_name or "
                "datasets"
            )

    def change_head(self) -> str:
        return self._reader.change_head()

    def read_changes(
        self, since: ChangeCursor | None, *, dataset_id: str | None, limit: int
    ) -> ChangePage:
        self.check()
        if self._view.tree is None:
            return self._reader.read_changes(since, dataset_id=dataset_id, limit=limit)
        found: list[DocumentChange] = []
        reset = False
        position, more, at_end = since, True, ""
        while more and len(found) <= limit:
            deadlines.check("reading the changes")
            page = self._reader.read_changes(
                position, dataset_id=dataset_id, limit=min(limit + 1, _MOST_AT_ONCE)
            )
            if page.reset and found:
                # The log was cut off while it was read: begin again, as the reset says.
                found = []
            reset = reset or page.reset
            found += [each for each in page.changes if self._shows(each)]
            # There may be more of others alone: whether the caller has more is read.
            position, more, at_end = ChangeCursor.parse(page.cursor), page.more, page.cursor
        shown = tuple(found[:limit])
        cut = len(found) > limit
        cursor = shown[-1].cursor if cut else at_end
        return ChangePage(changes=shown, cursor=cursor, reset=reset, more=cut)

    def _shows(self, change: DocumentChange) -> bool:
        return self._view.access.admits(Subject(name=change.name))


def _secret(settings: SettingsStore | None) -> bytes:
    """The store's secret, made when it is first needed: whoever opens the store has the same.

    Raises:
        NotAvailableError: there is none, and the store cannot keep one.
        StoreError: the store is busy, or damaged.
    """
    if settings is None:
        raise NotAvailableError(
            "this store keeps no settings, and the changes of an access need a secret there"
        )
    kept = settings.get_setting(_SETTING)
    if kept is None:
        made = secrets.token_hex(32)
        try:
            kept = made if settings.set_setting(_SETTING, made, expected=None) else None
        except (StoreLockedError, CorruptStoreError):
            raise
        except StoreError as error:
            raise NotAvailableError(
                "the changes of an access need a secret in the store, which cannot be written "
                f"({error}): read them once where the store is open for writing"
            ) from error
        kept = kept or settings.get_setting(_SETTING)
    return bytes.fromhex(kept or "")
