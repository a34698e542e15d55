"""Documents: the lossless source, its versions, and what filters read of it."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

from triptych.contracts import UpdateOrder, rules
from triptych.errors import ConflictError
from triptych.records import (
    Condition,
    DocumentInfo,
    FilterTree,
    NewDocument,
    PutOutcome,
    SourceDocument,
)
from triptych.records.filters import EXPIRES_AT, NAME, all_of
from triptych.records.metadata import comparison_key
from triptych_backends.sql.database import Repository
from triptych_backends.sql.deferred import bindparam, func, in_list, or_, select, tables as t
from triptych_backends.sql.deletes import (
    remove_dataset,
    remove_document,
    remove_orphans,
    version_of,
)
from triptych_backends.sql.document_rows import COLUMNS, info_in, micros_of
from triptych_backends.sql.document_writes import DocumentRow, read_rows, source_of
from triptych_backends.sql.errors import corrupt
from triptych_backends.sql.filters import documents_passing
from triptych_backends.sql.metadata_entries import entry_of, kind_prefix, next_prefix, prefix_end
from triptych_backends.sql.transaction import Session, find_dataset
from triptych_backends.sql.versions import read_version, read_versions, write_and_keep

Change = Literal["added", "updated", "unchanged"]

_NO_LIMIT = sys.maxsize
_OF_DATASET = t.dataset.c.name == bindparam("dataset")
_GET = (
    select(*COLUMNS, t.document.c.content)
    .join(t.dataset, t.dataset.c.id == t.document.c.dataset_id)
    .where(_OF_DATASET, t.document.c.name == bindparam("name"))
)
_GET_INFO = _GET.with_only_columns(*COLUMNS)
_PAGE = (
    select(*COLUMNS)
    .join(t.dataset, t.dataset.c.id == t.document.c.dataset_id)
    .where(_OF_DATASET, t.document.c.name > bindparam("after"))
    .order_by(t.document.c.name)
    .limit(bindparam("limit"))
)
_PAGE_PREFIX = _PAGE.where(
    t.document.c.name >= bindparam("prefix"),
    func.substr(t.document.c.name, 1, bindparam("length")) == bindparam("prefix"),
)
_PAGE_RANGE = _PAGE.where(
    t.document.c.name >= bindparam("prefix"), t.document.c.name < bindparam("end")
)
_PAGE_OF_IDS = (
    select(*COLUMNS)
    .where(in_list(t.document.c.id, "ids"), t.document.c.name > bindparam("after"))
    .order_by(t.document.c.name)
    .limit(bindparam("limit"))
)
_d = t.document.c
_PAGE_BY_UPDATE = {
    descending: select(*COLUMNS)
    .join(t.dataset, t.dataset.c.id == _d.dataset_id)
    .where(
        _OF_DATASET,
        func.substr(_d.name, 1, bindparam("length")) == bindparam("prefix"),
        (_d.updated_at <= bindparam("moment"))
        if descending
        else (_d.updated_at >= bindparam("moment")),
        or_(_d.updated_at != bindparam("moment"), _d.name > bindparam("after")),
    )
    .order_by(_d.updated_at.desc() if descending else _d.updated_at, _d.name)
    .limit(bindparam("limit"))
    for descending in (True, False)
}
_COUNT = select(func.count()).where(t.document.c.dataset_id == bindparam("dataset"))
_EXPIRIES = kind_prefix(EXPIRES_AT, "time")
_AFTER_EXPIRIES = next_prefix(_EXPIRIES)
_FIRST_EXPIRY = select(
    t.dataset.c.name,
    select(func.min(t.document_meta.c.pair))
    .where(
        t.document_meta.c.dataset_id == t.dataset.c.id,
        t.document_meta.c.pair >= bindparam("first"),
        t.document_meta.c.pair < bindparam("end"),
    )
    .scalar_subquery(),
).where(in_list(t.dataset.c.name, "names"))
_DATASETS = select(t.dataset.c.name).where(t.dataset.c.live).order_by(t.dataset.c.name)

_NOBODY = (0, "", 1, 0, 0, "0" * 64, 0, "", "", "{}", '{"team": "nobody"}')


class SqlDocuments(Repository, UpdateOrder):
    """`DocumentRepo` and `VersionReader` over a `Database`."""

    def put(self, dataset_id: str, document: NewDocument) -> SourceDocument:
        unchanged = self.find_unchanged(dataset_id, document)
        if unchanged is not None:
            return unchanged
        return rules.document_of(self.put_many(dataset_id, [document])[0])

    def find_unchanged(self, dataset_id: str, document: NewDocument) -> SourceDocument | None:
        """What is stored if ``document`` is the same: then no lock is taken at all."""
        with self.database.reading() as session:
            found = session.one(_GET_INFO, dataset=dataset_id, name=document.name)
        if found is None:
            return None
        row = DocumentRow.read(found, self.where)
        if document.if_version not in (None, row.version):
            return None
        same = row.content_sha256 == hashlib.sha256(document.content.encode()).hexdigest()
        if rules.plan_change(dataset_id, document, row, 0, same_content=same) is not None:
            return None
        return source_of(row, dataset_id, document.content)

    def put_many(self, dataset_id: str, documents: Sequence[NewDocument]) -> Sequence[PutOutcome]:
        if not documents:
            return []
        with self.database.writing(dataset_id) as tx:
            now = datetime.now(UTC)
            dataset = find_dataset(tx, dataset_id)
            stored = read_rows(tx, dataset, {document.name for document in documents}, self.where)
            outcomes = []
            for document in documents:
                row = stored.get(document.name)
                content = document.content.encode()
                digest = hashlib.sha256(content).hexdigest()
                same = row is not None and row.content_sha256 == digest
                used = dataset.deleted_version if dataset else 0
                try:
                    made = rules.plan_change(
                        dataset_id, document, row, used, same_content=same, now=now
                    )
                except ConflictError as error:
                    failed = PutOutcome(name=document.name, change="failed", error=error)
                    outcomes.append(failed)
                    continue
                change: Change = "unchanged" if made is None else "updated" if row else "added"
                if made is not None:
                    dataset = (
                        dataset if dataset and dataset.live else tx.dataset(dataset_id, live=True)
                    )
                    if row is None:
                        row = stored[document.name] = DocumentRow.new(tx, document.name)
                    row.change(tx, dataset.id, made, content, digest)
                assert row is not None
                outcomes.append(
                    PutOutcome(
                        name=document.name,
                        change=change,
                        document=made or source_of(row, dataset_id, document.content),
                        input_sig=row.input_sig,
                    )
                )
            if dataset is not None:
                write_and_keep(tx, dataset.id, stored.values(), self.database.history)
            return outcomes

    def load(self, document: SourceDocument) -> None:
        with self.database.writing(document.dataset_id) as tx:
            dataset = find_dataset(tx, document.dataset_id)
            row = read_rows(tx, dataset, {document.name}, self.where).get(document.name)
            if row is not None and row.is_of(document.dataset_id, document):
                return
            used = dataset.deleted_version if dataset else 0
            rules.check_unused(document, row.version if row else 0, used)
            dataset = tx.dataset(document.dataset_id, live=True)
            row = row or DocumentRow.new(tx, document.name)
            row.load(tx, dataset.id, document)
            write_and_keep(tx, dataset.id, [row], self.database.history)

    def get(self, dataset_id: str, name: str) -> SourceDocument | None:
        """See `DocumentRepo.get`. The content is checked against its SHA-256."""
        with self.database.reading() as session:
            return self._get(session, dataset_id, name)

    def _get(self, session: Session, dataset_id: str, name: str) -> SourceDocument | None:
        found = session.one(_GET, dataset=dataset_id, name=name)
        if found is None:
            return None
        row = DocumentRow.read(found, self.where)
        content: bytes = found[-1]
        if hashlib.sha256(content).hexdigest() != row.content_sha256:
            raise corrupt(self.where, f"document {name!r} of {dataset_id!r} fails its SHA-256")
        return source_of(row, dataset_id, content.decode())

    def get_info(self, dataset_id: str, name: str) -> DocumentInfo | None:
        with self.database.reading() as session:
            found = session.one(_GET_INFO, dataset=dataset_id, name=name)
        # A missing name is as much work as a hidden one, so that time does not tell them apart.
        info = info_in(found or _NOBODY, dataset_id, self.where)
        return None if found is None else info

    def list(
        self,
        dataset_id: str,
        *,
        prefix: str = "",
        after: str = "",
        limit: int | None = None,
        where: FilterTree | None = None,
    ) -> Sequence[DocumentInfo]:
        if where is not None:
            return self._passing(dataset_id, where, prefix, after, limit)
        end = prefix_end(prefix)
        page = _PAGE if not prefix else _PAGE_PREFIX if end is None else _PAGE_RANGE
        with self.database.reading() as session:
            found = session.all(
                page,
                dataset=dataset_id,
                after=after,
                limit=_NO_LIMIT if limit is None else max(limit, 0),
                prefix=prefix,
                length=len(prefix),
                end=end,
            )
        return [info_in(row, dataset_id, self.where) for row in found]

    def list_by_update(
        self,
        dataset_id: str,
        *,
        prefix: str,
        descending: bool,
        after: DocumentInfo | None,
        limit: int,
    ) -> Sequence[DocumentInfo]:
        """A page in the order of the last update, ties by name: only its rows are read whole."""
        ends = _NO_LIMIT if descending else -_NO_LIMIT
        with self.database.reading() as session:
            found = session.all(
                _PAGE_BY_UPDATE[descending],
                dataset=dataset_id,
                prefix=prefix,
                length=len(prefix),
                moment=ends if after is None else micros_of(after.updated_at),
                after="" if after is None else after.name,
                limit=limit,
            )
        return [info_in(row, dataset_id, self.where) for row in found]

    def _passing(
        self, dataset_id: str, where: FilterTree, prefix: str, after: str, limit: int | None
    ) -> Sequence[DocumentInfo]:
        tree = all_of(Condition(NAME, "starts", (("text", prefix),)), where) if prefix else where
        most = _NO_LIMIT if limit is None else max(limit, 0)
        with self.database.snapshot() as session:
            dataset = find_dataset(session, dataset_id)
            if dataset is None or tree is None:
                return []
            ids = documents_passing(session, dataset.id, tree).tolist()
            found = session.all(_PAGE_OF_IDS, ids=ids, after=after, limit=most) if ids else []
        return [info_in(row, dataset_id, self.where) for row in found]

    def count(self, dataset_id: str, *, where: FilterTree | None = None) -> int:
        with self.database.snapshot() as session:
            dataset = find_dataset(session, dataset_id)
            if dataset is None:
                return 0
            if where is not None:
                return len(documents_passing(session, dataset.id, where))
            (found,) = session.all(_COUNT, dataset=dataset.id)
        return int(found[0])

    def with_expired(self, dataset_ids: Sequence[str], moment: datetime) -> Sequence[str]:
        """See `DocumentRepo.with_expired`: one look at the index of a dataset."""
        rows = self.database.known.all(
            _FIRST_EXPIRY, names=list(dataset_ids), first=_EXPIRIES, end=_AFTER_EXPIRIES
        )
        expiring = {name: soonest for name, soonest in rows if soonest is not None}
        if not expiring:
            return []
        last = entry_of(EXPIRES_AT, comparison_key(moment))
        return [each for each in dataset_ids if each in expiring and expiring[each] <= last]

    def list_datasets(self) -> Sequence[str]:
        return [row[0] for row in self.database.known.all(_DATASETS)]

    def versions(self, dataset_id: str, name: str) -> Sequence[DocumentInfo]:
        with self.database.reading() as session:
            return read_versions(session, dataset_id, name, self.where)

    def get_version(self, dataset_id: str, name: str, version: int) -> SourceDocument | None:
        """See `VersionReader.get_version`. The content is checked against its SHA-256."""
        with self.database.snapshot() as session:
            old = read_version(session, dataset_id, name, version, self.where)
            current = None if old else self._get(session, dataset_id, name)
        return current if current is not None and current.version == version else old

    def deleted_version(self, dataset_id: str) -> int:
        with self.database.reading() as session:
            dataset = find_dataset(session, dataset_id)
        return 0 if dataset is None else dataset.deleted_version

    def create_dataset(self, dataset_id: str) -> bool:
        with self.database.writing(dataset_id) as tx:
            found = find_dataset(tx, dataset_id)
            if found is not None and found.live:
                return False
            tx.dataset(dataset_id, live=True)
            return True

    def delete(self, dataset_id: str, name: str, *, if_version: int | None = None) -> bool:
        with self.database.writing(dataset_id) as tx:
            dataset = find_dataset(tx, dataset_id)
            rules.check_delete(dataset_id, name, if_version, version_of(tx, dataset, name))
            return dataset is not None and remove_document(tx, dataset, name)

    def delete_orphans(self, dataset_id: str, names: Collection[str]) -> Sequence[str]:
        if not names:
            return []
        with self.database.writing(dataset_id) as tx:
            dataset = find_dataset(tx, dataset_id)
            return [] if dataset is None else remove_orphans(tx, dataset, names)

    def delete_many(self, dataset_id: str, versions: Mapping[str, int]) -> Sequence[str]:
        if not versions:
            return []
        with self.database.writing(dataset_id) as tx:
            dataset = find_dataset(tx, dataset_id)
            if dataset is None:
                return []
            return [
                name
                for name in sorted(versions)
                if remove_document(tx, dataset, name, only=versions[name])
            ]

    def delete_dataset(self, dataset_id: str) -> bool:
        with self.database.writing(dataset_id) as tx:
            dataset = find_dataset(tx, dataset_id)
            if dataset is None:
                return False
            remove_dataset(tx, dataset)
            return dataset.live
