"""Operations on many documents by names or filter: listing, metadata changes, deletion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from triptych import deadlines
from triptych.contracts import ChunkRepo, UpdateOrder
from triptych.contracts.pages import document_pages
from triptych.derivation.batches import BATCH_CHARACTERS
from triptych.derivation.versions import put_again
from triptych.derivation.writer import Writer
from triptych.errors import ConflictError, PendingReviewError, ValidationError
from triptych.living_documents import LivingDocuments
from triptych.records import (
    Condition,
    DeleteReport,
    DocumentInfo,
    Failure,
    FilterTree,
    Metadata,
    MetadataReport,
    SourceDocument,
    check_metadata,
    check_text,
    parse_filter,
)
from triptych.records.filters import EXPIRES_AT, NAME, UPDATED_AT, VERSION, all_of
from triptych.records.metadata import comparison_key
from triptych.records.values import check_document_name
from triptych.signatures import document_info

_TRIES = 8
"""How often a document is looked at again that others change meanwhile."""

_OWN = (NAME, VERSION, UPDATED_AT, EXPIRES_AT)
_KINDS = ("bool", "number", "text", "time", "list")


def which_documents(
    names: Iterable[str] | str | None, where: Mapping[str, Any] | None
) -> tuple[FilterTree | None, tuple[str, ...] | None]:
    """The filter of the documents with these names that pass ``where``, and the names.

    Raises:
        ValidationError: neither is given, or one is invalid.
    """
    if names is None and where is None:
        raise ValidationError("no documents are named: give names or a where")
    tree = None if where is None else parse_filter(where)
    if names is None:
        return tree, None
    if isinstance(names, str):
        names = [names]
    if not isinstance(names, Iterable):
        raise ValidationError(f"names is a list of document names, not {names!r:.60}")
    wanted = tuple(dict.fromkeys(map(check_document_name, names)))
    named = Condition(NAME, "in", tuple(("text", name) for name in wanted))
    return all_of(named, tree), wanted


def sort_key(info: DocumentInfo, field: str) -> tuple[bool, int, Any]:
    """Where a document comes in the order of ``field``: what lacks it comes last, kinds of values
    come in the order of bools, numbers, text, times, lists."""
    if field in (VERSION, UPDATED_AT):
        return False, 0, info.version if field == VERSION else info.updated_at
    if field == EXPIRES_AT:
        return info.system.expires_at is None, 0, info.system.expires_at
    if field not in info.metadata:
        return True, 0, 0
    kind, value = comparison_key(info.metadata[field])
    if kind == "list":
        return False, _KINDS.index(kind), [(_KINDS.index(k), v) for k, v in value]
    return False, _KINDS.index(kind), value


@attrs.frozen
class _Order:
    """An order of documents: by a field, ties by name."""

    field: str
    descending: bool

    @classmethod
    def of(cls, sort: Any) -> _Order:
        """Raises ValidationError: it names no order."""
        check_text(sort, "sort")
        field = sort.removeprefix("-")
        if not field or (field.startswith("$") and field not in _OWN):
            raise ValidationError(
                f"sort is {', '.join(map(repr, _OWN))} or a metadata key, with '-' in front for "
                f"the reverse order, not {sort!r:.60}"
            )
        return cls(field, sort.startswith("-"))

    def sorted(self, infos: Sequence[DocumentInfo]) -> list[DocumentInfo]:
        """``infos``, which are ordered by name."""
        if self.field == NAME:
            return list(reversed(infos)) if self.descending else list(infos)
        there = [info for info in infos if not sort_key(info, self.field)[0]]
        missing = [info for info in infos if sort_key(info, self.field)[0]]
        # Stable, in reverse too: ties stay in the order of their names.
        there.sort(key=lambda info: sort_key(info, self.field), reverse=self.descending)
        return [*there, *missing]

    def is_after(self, info: DocumentInfo, last: DocumentInfo) -> bool:
        """Whether ``info`` comes after ``last``."""
        if info.name == last.name:
            return False
        return self.sorted(sorted([info, last], key=lambda each: each.name))[0] is last


class DocumentManager:
    """The Service's work on many documents."""

    def __init__(self, living: LivingDocuments, chunks: ChunkRepo, writer: Writer) -> None:
        self._living = living
        self._documents = living.stored
        self._chunks = chunks
        self._writer = writer

    def page(
        self,
        dataset_id: str,
        tree: FilterTree | None,
        *,
        prefix: str,
        sort: str,
        after: str | DocumentInfo,
        limit: int | None,
    ) -> Sequence[DocumentInfo]:
        """A page in the order of ``sort``. Other orders than by name read all that match, but for
        the order of updates without a filter where the repository is an `UpdateOrder`.

        Raises:
            ConflictError: ``after`` is the name of a document that is gone, by whose value the page
                would begin.
        """
        order = _Order.of(sort)
        tree = self._living.narrow([dataset_id], tree)
        if order == _Order(NAME, descending=False):
            name = after.name if isinstance(after, DocumentInfo) else after
            return self._documents.list(
                dataset_id, prefix=prefix, after=name, limit=limit, where=tree
            )
        last = after if isinstance(after, DocumentInfo) else None
        if after and last is None:
            last = self._documents.get_info(dataset_id, str(after))
            if last is None:
                raise ConflictError(
                    f"the document {after!r}, after which the page starts, was deleted: start "
                    "again, or pass the last document of the previous page instead of its name"
                )
        by_update = order.field == UPDATED_AT and tree is None
        if by_update and limit is not None and isinstance(self._documents, UpdateOrder):
            return self._documents.list_by_update(
                dataset_id, prefix=prefix, descending=order.descending, after=last, limit=limit
            )
        found = order.sorted(self._documents.list(dataset_id, prefix=prefix, where=tree))
        if last is not None:
            found = [info for info in found if order.is_after(info, last)]
        return found[:limit]

    def delete(
        self, dataset_id: str, tree: FilterTree | None, names: Sequence[str] | None
    ) -> DeleteReport:
        """Delete all that match, a page in one transaction."""
        deleted: list[str] = []
        failed: list[Failure] = []
        for page in document_pages(self._documents, dataset_id, tree):
            deadlines.check("deleting documents")
            left = page
            for _ in range(_TRIES):
                versions = {info.name: info.version for info in left}
                try:
                    done = self._documents.delete_many(dataset_id, versions)
                except PendingReviewError as error:
                    failed += [
                        Failure(dataset_id=dataset_id, name=each, error=error) for each in versions
                    ]
                    left = []
                    break
                deleted += done
                left = self._still(dataset_id, tree, versions.keys() - set(done))
                if not left:
                    break
            failed += [_changing(info) for info in left]
        return DeleteReport(
            deleted=tuple(sorted(deleted)),
            missing=_missing(names, [*deleted, *(each.name for each in failed)]),
            failed=tuple(failed),
        )

    def update_metadata(
        self,
        dataset_id: str,
        changes: Mapping[str, Any],
        tree: FilterTree | None,
        names: Sequence[str] | None,
    ) -> MetadataReport:
        """Set the keys of ``changes`` in the metadata of all that match; None removes a key."""
        given = {key: value for key, value in changes.items() if value is not None}
        values, removed = check_metadata(given), changes.keys() - given.keys()
        tree = self._living.narrow([dataset_id], tree)
        report = MetadataReport()
        seen: list[str] = []
        failed: list[Failure] = []
        # What matches is looked up first: a change may take a document out of the filter, or in.
        for page in list(document_pages(self._documents, dataset_id, tree)):
            left = page
            for _ in range(_TRIES):
                deadlines.check("updating metadata")
                changed = self._update(dataset_id, left, values, removed)
                report = attrs.evolve(
                    report,
                    updated=report.updated + len(changed.updated),
                    unchanged=report.unchanged + len(changed.unchanged),
                )
                seen += [*changed.updated, *changed.unchanged]
                failed += changed.failed
                left = self._still(dataset_id, tree, changed.again)
                if not left:
                    break
            failed += [_changing(info) for info in left]
        touched = [*seen, *(each.name for each in failed)]
        return attrs.evolve(report, missing=_missing(names, touched), failed=tuple(failed))

    def _update(
        self,
        dataset_id: str,
        infos: Sequence[DocumentInfo],
        values: Metadata,
        removed: Iterable[str],
    ) -> _Updated:
        made = _Updated()
        for batch in self._batches(dataset_id, infos, made):
            news = [
                put_again(
                    each,
                    each.version,
                    metadata={
                        key: value
                        for key, value in {**each.metadata, **values}.items()
                        if key not in removed
                    },
                    # None would make the document last if its moment comes meanwhile.
                    expires_at=each.system.expires_at,
                )
                for each in batch
            ]
            changed: list[tuple[SourceDocument, SourceDocument]] = []
            outcomes = self._documents.put_many(dataset_id, news)
            for before, outcome in zip(batch, outcomes, strict=True):
                if isinstance(outcome.error, ConflictError):
                    made.again.append(before.name)
                elif outcome.document is None:
                    assert outcome.error is not None
                    failure = Failure(dataset_id=dataset_id, name=before.name, error=outcome.error)
                    made.failed.append(failure)
                elif outcome.change == "unchanged":
                    made.unchanged.append(before.name)
                else:
                    made.updated.append(before.name)
                    changed.append((before, outcome.document))
            made.failed += self._restamp(dataset_id, changed)
        return made

    def _restamp(
        self, dataset_id: str, changed: Sequence[tuple[SourceDocument, SourceDocument]]
    ) -> Sequence[Failure]:
        """Let the chunk sets follow: only another title or kind makes other chunks."""
        sigs = self._chunks.get_doc_sigs(dataset_id, [after.name for _, after in changed])
        stale = []
        for before, after in changed:
            sig = sigs.get(after.name)
            if sig is None or sig.input_sig != document_info(before).input_sig:
                continue  # there is none, or it was behind before
            if sig.input_sig == document_info(after).input_sig:
                moved = attrs.evolve(sig, source_version=after.version)
                self._chunks.update_source_version(dataset_id, after.name, moved)
            else:
                stale.append(after)
        if not stale:
            return ()
        self._writer.check_config(dataset_id)
        with self._writer.filler(dataset_id) as filler:
            failed = self._writer.refresh(dataset_id, stale, filler).failed
            filler.finish()
            return (*failed, *filler.result().failed)

    def _batches(
        self, dataset_id: str, infos: Sequence[DocumentInfo], made: _Updated
    ) -> Iterator[list[SourceDocument]]:
        """The documents as they are, so many at once as memory is there for."""
        batch: list[SourceDocument] = []
        size = 0
        for info in infos:
            document = self._documents.get(dataset_id, info.name)
            if document is None or document.version != info.version:
                made.again.append(info.name)
                continue
            batch.append(document)
            size += len(document.content)
            if size > BATCH_CHARACTERS:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _still(
        self, dataset_id: str, tree: FilterTree | None, names: Iterable[str]
    ) -> Sequence[DocumentInfo]:
        """Those of ``names``, which others changed meanwhile, that match as they are now."""
        keys = tuple(("text", name) for name in sorted(names))
        if not keys:
            return ()
        named = Condition(NAME, "in", keys)  # type: ignore[arg-type]  # keys of one kind
        return self._documents.list(dataset_id, where=all_of(named, tree))


@attrs.define
class _Updated:
    """What became of some documents, by name; ``again`` are those that others changed."""

    updated: list[str] = attrs.field(factory=list)
    unchanged: list[str] = attrs.field(factory=list)
    again: list[str] = attrs.field(factory=list)
    failed: list[Failure] = attrs.field(factory=list)


def _missing(names: Sequence[str] | None, found: Iterable[str]) -> tuple[str, ...]:
    """Those of ``names`` that were not there, or did not pass the filter."""
    there = set(found)
    return tuple(name for name in names or () if name not in there)


def _changing(info: DocumentInfo) -> Failure:
    error = ConflictError(
        f"the document {info.name!r} was changed repeatedly meanwhile: call again",
        actual=info.version,
    )
    return Failure(dataset_id=info.dataset_id, name=info.name, error=error)
