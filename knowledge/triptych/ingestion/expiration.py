"""Expired documents: what finds documents leaves them out, and what removes them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from triptych import deadlines
from triptych.contracts import DocumentRepo
from triptych.records import Condition, FilterTree
from triptych.records.expiry import expired_by, not_expired_by
from triptych.records.filters import NAME, all_of

__all__ = ["remove_expired", "without_expired"]

_PAGE = 256


def without_expired(
    documents: DocumentRepo,
    dataset_ids: Sequence[str],
    tree: FilterTree | None,
    moment: datetime | None = None,
) -> FilterTree | None:
    """``tree`` for what has not expired by ``moment``, None for now; ``tree`` itself where nothing
    has."""
    now = moment or datetime.now(UTC)
    if not documents.with_expired(dataset_ids, now):
        return tree
    return all_of(tree, not_expired_by(now))


def remove_expired(
    documents: DocumentRepo, dataset_id: str, names: Sequence[str] | None = None
) -> int:
    """Delete the documents, those of ``names`` or all, that have expired; how many.

    Each page is one transaction. A document that is put again meanwhile stays.
    """
    now = datetime.now(UTC)
    if not documents.with_expired([dataset_id], now):
        return 0
    tree: FilterTree | None = expired_by(now)
    if names is not None:
        tree = all_of(Condition(NAME, "in", tuple(("text", name) for name in names)), tree)
    removed, after = 0, ""
    while page := documents.list(dataset_id, after=after, limit=_PAGE, where=tree):
        deadlines.check("removing expired documents")
        versions = {info.name: info.version for info in page}
        removed += len(documents.delete_many(dataset_id, versions))
        after = page[-1].name
    return removed
