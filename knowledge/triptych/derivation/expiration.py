"""Expired documents: those who read documents do not see them, and a rebuild removes them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import attrs

from triptych import deadlines
from triptych.contracts import DocumentRepo
from triptych.records import Condition, DocumentInfo, FilterTree, SourceDocument
from triptych.records.documents import expired_by, has_expired, not_expired_by
from triptych.records.filters import NAME, all_of

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

    def narrow(self, dataset_ids: Sequence[str], tree: FilterTree | None) -> FilterTree | None:
        """``tree`` for what has not expired; ``tree`` itself where nothing in the datasets has."""
        now = self.moment or datetime.now(UTC)
        if not self.stored.with_expired(dataset_ids, now):
            return tree
        return all_of(tree, not_expired_by(now))

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
