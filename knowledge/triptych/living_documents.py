"""Reading documents that have not expired, and their kept versions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import attrs

from triptych import deadlines
from triptych.contracts import ChunkRepo, DocumentRepo, Store, VersionReader
from triptych.contracts.pages import document_pages
from triptych.errors import NotAvailableError, NotFoundError
from triptych.records import (
    AnySpace,
    Condition,
    DocumentInfo,
    FilterTree,
    Metadata,
    NewDocument,
    SourceDocument,
    check_whole,
)
from triptych.records.documents import expired_by, has_expired, not_expired_by
from triptych.records.filters import NAME, all_of
from triptych.records.spaces import StoredSpace, dense, further
from triptych.text import sequence_diff

if TYPE_CHECKING:
    from triptych.records import DatasetStats

_PAGE = 256


@attrs.frozen(eq=False)
class LivingDocuments:
    """The documents of a store as their readers see them: without those that have expired.

    Whoever finds, lists or shows documents reads them here, and need not think of time. Whoever
    writes, deletes or copies uses the store's own repository, ``stored``.

    Attributes:
        stored: the repository.
        moment: by when documents have expired; None: by now.
    """

    stored: DocumentRepo
    moment: datetime | None = None

    def bound(self, dataset_ids: Sequence[str]) -> FilterTree | None:
        """What those pass that have not expired; None where nothing in the datasets has."""
        now = self.moment or datetime.now(UTC)
        return not_expired_by(now) if self.stored.with_expired(dataset_ids, now) else None

    def narrow(self, dataset_ids: Sequence[str], tree: FilterTree | None) -> FilterTree | None:
        """``tree`` for what has not expired; ``tree`` itself where nothing in the datasets has."""
        return all_of(tree, self.bound(dataset_ids))

    def hides(self, document: DocumentInfo | SourceDocument | None) -> bool:
        """Whether it has expired; False without a document."""
        return has_expired(document, self.moment)

    def get(self, dataset_id: str, name: str) -> SourceDocument | None:
        """See `DocumentRepo.get`."""
        found = self.stored.get(dataset_id, name)
        return None if self.hides(found) else found

    def get_info(self, dataset_id: str, name: str) -> DocumentInfo | None:
        """See `DocumentRepo.get_info`."""
        found = self.stored.get_info(dataset_id, name)
        return None if self.hides(found) else found

    def count(self, dataset_id: str, *, where: FilterTree | None = None) -> int:
        """See `DocumentRepo.count`."""
        return self.stored.count(dataset_id, where=self.narrow([dataset_id], where))


def remove_expired(
    documents: DocumentRepo, dataset_id: str, names: Sequence[str] | None = None
) -> int:
    """Delete the documents, those of ``names`` or all, that have expired; how many.

    Each page is one transaction. A document that is put again meanwhile stays.
    """
    now = datetime.now(UTC)
    if not documents.with_expired([dataset_id], now):
        return 0
    tree = expired_by(now) if names is None else _expired_of(names, now)
    removed = 0
    for page in document_pages(documents, dataset_id, tree):
        deadlines.check("removing expired documents")
        versions = {info.name: info.version for info in page}
        removed += len(documents.delete_many(dataset_id, versions))
    return removed


# Those that wait for vectors and have expired: nobody waits for their vectors


def count_waiting(
    documents: DocumentRepo,
    chunks: ChunkRepo,
    dataset_ids: Sequence[str],
    space: AnySpace,
    moment: datetime | None = None,
) -> int:
    """`VectorRepo.count_waiting` without the documents that have expired by ``moment``, None for
    now."""
    waiting = chunks.count_waiting(dataset_ids, space)
    if not waiting:
        return 0
    now = moment or datetime.now(UTC)
    for dataset_id in documents.with_expired(list(dict.fromkeys(dataset_ids)), now):
        names = chunks.waiting(dataset_id, space)
        if names:
            waiting -= documents.count(dataset_id, where=_expired_of(names, now))
    return max(waiting, 0)


def living_stats(
    store: Store, dataset_id: str, *, chunker_sig: str, embed_sig: str
) -> DatasetStats | None:
    """What a dataset holds; None if the dataset does not exist.

    What waits for vectors is counted without what has expired.
    """
    stats = store.stats(dataset_id, chunker_sig=chunker_sig, embed_sig=embed_sig)
    if stats is None:
        return None
    stats = _without_expired(store, stats, embed_sig)
    spaces = further(stats.config)
    if not spaces:
        return stats
    found = {(each.kind, each.sig): each for each in store.chunks.further_spaces(dataset_id)}
    for space in spaces:
        if waiting := count_waiting(store.documents, store.chunks, [dataset_id], space):
            key = space.kind, space.sig
            there = found.get(key) or StoredSpace(kind=space.kind, sig=space.sig)
            found[key] = attrs.evolve(there, pending=waiting)
    return attrs.evolve(stats, further_spaces=tuple(found.values()))


def _without_expired(store: Store, stats: DatasetStats, embed_sig: str) -> DatasetStats:
    """``stats`` with `pending` and `pending_chunks` of what has not expired by now.

    Reads the chunks of those that have expired and wait.
    """
    documents, chunks = store.documents, store.chunks
    now, dataset_id = datetime.now(UTC), stats.dataset_id
    if not stats.pending or not documents.with_expired([dataset_id], now):
        return stats
    names = chunks.waiting(dataset_id, dense(embed_sig))
    expired = documents.list(dataset_id, where=_expired_of(names, now)) if names else ()
    lacking = sum(
        chunk.vector is None or chunk.sig.embed_sig != embed_sig
        for info in expired
        for chunk in chunks.iter_chunks(dataset_id, info.name, vectors=True)
    )
    return attrs.evolve(
        stats,
        pending=max(stats.pending - len(expired), 0),
        pending_chunks=max(stats.pending_chunks - lacking, 0),
    )


def _expired_of(names: Sequence[str], moment: datetime) -> FilterTree:
    named = Condition(NAME, "in", tuple(("text", name) for name in names))
    tree = all_of(named, expired_by(moment))
    assert tree is not None
    return tree


# Versions

_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_KEY = re.compile(r"\w[\w .-]*")
_OF_FILE = ("original_sha256", "parser_sig")
_APART = (
    *("dataset_id", "name", "version", "updated_at", "content", "metadata", "system"),
    *_OF_FILE,
)
_SHOWN = 12
"""Kept versions that an error lists."""
LAST_VERSION = (1 << 63) - 1
"""No version is greater: databases hold integers of 64 bits."""


class VersionHistory:
    """Reads old versions, where the store keeps them."""

    def __init__(self, reader: VersionReader | None, living: LivingDocuments) -> None:
        self._reader = reader
        self._living = living

    def versions(self, dataset_id: str, name: str) -> Sequence[DocumentInfo]:
        """The current version and the kept ones, newest first; empty without a document."""
        versions = self._require().versions(dataset_id, name)
        return () if versions and self._living.hides(versions[0]) else versions

    def get(self, dataset_id: str, name: str, version: int) -> SourceDocument | None:
        """The document at ``version``, None where there is no document.

        Raises:
            NotFoundError: there is one, but that version is not kept.
        """
        reader = self._require()
        check_whole(version, "version", least=1)
        if self._living.get_info(dataset_id, name) is None:
            return None
        found = reader.get_version(dataset_id, name, version) if version <= LAST_VERSION else None
        if found is not None:
            return found
        kept = [info.version for info in reader.versions(dataset_id, name)]
        if not kept:
            return None
        listed = ", ".join(map(str, kept[:_SHOWN])) + (" …" if len(kept) > _SHOWN else "")
        raise NotFoundError(
            f"version {version} of {name!r} in {dataset_id!r} is not kept; kept are: {listed}"
        )

    def _require(self) -> VersionReader:
        if self._reader is None:
            raise NotAvailableError(
                "this store keeps no old versions: use one that does (./kb.db, files:///… or "
                "memory://), or leave the version out"
            )
        return self._reader


def put_again(
    old: SourceDocument,
    if_version: int | None,
    *,
    metadata: Metadata | None = None,
    expires_at: datetime | None = None,
) -> NewDocument:
    """What puts ``old`` again, with its metadata or another. The document stays of the root that it
    is of now, and without ``expires_at`` ends when it does now."""
    return NewDocument(
        name=old.name,
        content=old.content,
        metadata=old.metadata if metadata is None else metadata,
        if_version=if_version,
        original_sha256=old.original_sha256,
        parser_sig=old.parser_sig,
        outline=old.system.outline,
        expires_at=expires_at,
    )


def unified_diff(old: SourceDocument, new: SourceDocument, *, whole: bool = False) -> str:
    """How ``new`` differs from ``old``, line by line, as ``diff -u`` tells it; "" if in nothing.

    Metadata and the time of expiry come first, as lines of their own part; ``whole`` adds all else
    that is stored of a document, with the digests of its file last.
    """
    fields = (_fields(each, whole=whole) for each in (old, new))
    file = (_file_fields(each) if whole else "" for each in (old, new))
    said = _diff(old, new, " metadata", *fields) + _diff(old, new, "", old.content, new.content)
    return said + _diff(old, new, " file", *file)


def _diff(old: SourceDocument, new: SourceDocument, what: str, before: str, after: str) -> str:
    return sequence_diff.unified_diff(
        _LINES.findall(before),
        _LINES.findall(after),
        f"{old.name}{what} (version {old.version})",
        f"{new.name}{what} (version {new.version})",
    )


def _fields(document: SourceDocument, *, whole: bool) -> str:
    """A line for each: a key that could be taken for another, or for a field, is quoted."""
    fields = {
        f"${each.name}": getattr(of, each.name)
        for of in (document, document.system)
        for each in attrs.fields(type(of))
        if (whole and each.name not in _APART) or each.name == "expires_at"
    }
    lines = [f"{key}: {str(value)!r}\n" for key, value in sorted(fields.items()) if value]
    for key, value in sorted(document.metadata.items()):
        lines.append(f"{key if _KEY.fullmatch(key) else repr(key)}: {_value(value)}\n")
    return "".join(lines)


def _file_fields(document: SourceDocument) -> str:
    return "".join(
        f"${name}: {value!r}\n" for name in _OF_FILE if (value := getattr(document, name))
    )


def _value(value: object) -> str:
    """A value of metadata: text in quotation marks, so that 5 and "5" differ."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return repr(value).lower() if isinstance(value, bool) else repr(value)
