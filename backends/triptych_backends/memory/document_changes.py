"""The log of documents that others follow, in dicts."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from copy import copy

import attrs

from triptych.contracts.change_pages import ChangeRow, LogHead, read_page
from triptych.records import ChangeCursor, ChangeKind, ChangePage

KEPT_DELETIONS = 100_000
"""So many deletions the log keeps, of all datasets together."""


@attrs.frozen
class _Entry:
    """A document's last change; one that is deleted and put again has another entry.

    ``added`` is the number that it was added under.
    """

    dataset_id: str
    name: str
    added: int
    number: int
    version: int
    deleted: bool


@attrs.define
class DocumentLog:
    """Entries by number.

    ``numbers`` are those of all entries in order, and of some that moved on since. ``current`` has
    the entry of each document that is there, and ``deleted`` those of each name that was deleted,
    oldest first. ``forgotten`` is, of each dataset, the greatest number of a deletion that is not
    here any more.
    """

    entries: dict[int, _Entry] = attrs.field(factory=dict)
    numbers: list[int] = attrs.field(factory=list)
    current: dict[tuple[str, str], _Entry] = attrs.field(factory=dict)
    deleted: dict[tuple[str, str], tuple[_Entry, ...]] = attrs.field(factory=dict)
    deletions: int = 0
    forgotten: dict[str, int] = attrs.field(factory=dict)

    def copy(self) -> DocumentLog:
        """The log as it is now."""
        return DocumentLog(*(copy(getattr(self, name)) for name in attrs.fields_dict(DocumentLog)))

    def put(self, dataset_id: str, name: str, version: int, number: int) -> None:
        """Note that a document was added or changed."""
        old = self.current.get((dataset_id, name))
        added = old.added if old else number
        entry = _Entry(dataset_id, name, added, number, version, deleted=False)
        self._move(old, entry)
        self.current[dataset_id, name] = entry

    def delete(self, dataset_id: str, name: str, number: int) -> None:
        """Note that a document was deleted."""
        place = dataset_id, name
        old = self.current.pop(place)
        entry = attrs.evolve(old, number=number, deleted=True)
        self._move(old, entry)
        self.deleted[place] = (*self.deleted.get(place, ()), entry)
        self.deletions += 1
        if self.deletions > KEPT_DELETIONS:
            self.forget(KEPT_DELETIONS - KEPT_DELETIONS // 10)

    def forget(self, keep: int = 0) -> None:
        """Forget all deletions but the newest ``keep``."""
        gone = [entry for entry in self.entries.values() if entry.deleted]
        for entry in gone[: len(gone) - keep]:
            del self.entries[entry.number]
            self.forgotten[entry.dataset_id] = entry.number
            place = entry.dataset_id, entry.name
            left = self.deleted.pop(place)[1:]
            if left:
                self.deleted[place] = left
        self.deletions = min(self.deletions, keep)

    def after(self, number: int) -> Iterator[_Entry]:
        """The entries with greater numbers, in order."""
        for at in range(bisect_right(self.numbers, number), len(self.numbers)):
            entry = self.entries.get(self.numbers[at])
            if entry is not None:
                yield entry

    def _move(self, old: _Entry | None, new: _Entry) -> None:
        if old is not None:
            del self.entries[old.number]
        self.entries[new.number] = new
        self.numbers.append(new.number)
        if len(self.numbers) > 2 * len(self.entries) + 64:
            self.numbers = list(self.entries)


@attrs.frozen
class DocumentLogReader:
    """`ChangeLogReader` of one state of the log, of a dataset or (None) of all."""

    log: DocumentLog
    end: LogHead
    dataset_id: str | None

    def head(self) -> LogHead:
        return self.end

    def mark(self, number: int) -> str:
        return self.end.mark

    def forgotten(self) -> int:
        if self.dataset_id is not None:
            return self.log.forgotten.get(self.dataset_id, 0)
        return max(self.log.forgotten.values(), default=0)

    def rows(self, *, after: int, base: int, until: int, limit: int) -> Sequence[ChangeRow]:
        found: list[ChangeRow] = []
        for entry in self.log.after(after):
            if entry.number > until or len(found) == limit:
                break
            if self.dataset_id in (None, entry.dataset_id):
                row = self._row(entry, base, until)
                if row is not None:
                    found.append(row)
        return found

    def _row(self, entry: _Entry, base: int, until: int) -> ChangeRow | None:
        place = entry.dataset_id, entry.name
        deleted = self.log.deleted.get(place, ())
        known = any(each.added <= base < each.number for each in deleted) or entry.added <= base
        if not entry.deleted:
            kind: ChangeKind = "updated" if known else "added"
            return ChangeRow(entry.number, *place, entry.version, kind)
        if not known:
            return None
        current = self.log.current.get(place)
        is_last = not any(
            entry.number < each.number <= until or each.added <= until < each.number
            for each in deleted
        ) and (current is None or current.added > until)
        return (
            ChangeRow(entry.number, *place, entry.version, "deleted") if known and is_last else None
        )

    def page(self, since: ChangeCursor | None, limit: int) -> ChangePage:
        return read_page(self, since, limit)
