"""The lists of quarantined layers and of documents that expire."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import attrs

from triptych.contracts import unread_of
from triptych.errors import NotAvailableError
from triptych.layers import LayerBuilder
from triptych.living_documents import remove_expired
from triptych.records import (
    DatasetStats,
    DocumentInfo,
    FilterTree,
    all_of,
    expired_by,
    not_expired_by,
)
from triptych.service import KnowledgeBase, service_of
from triptych_server.console.visit import Visit, may
from triptych_server.http.responses import public

_LISTED: Final = 300
_SOON: Final = timedelta(days=7)


@attrs.frozen
class Listed:
    """The first rows of a list, and how many more there are."""

    rows: Sequence[Any] = ()
    more: int = 0

    @property
    def digest(self) -> str:
        """What names these documents, in these versions."""
        named = [(each.dataset_id, each.name, each.version) for each in self.rows]
        return hashlib.sha256(repr(named).encode()).hexdigest()


def sees_all(visit: Visit) -> bool:
    """Whether what providers said may be shown."""
    return may(visit.server.check_sees_all, visit.service, "messages of providers are")


def quarantined(visit: Visit, stats: Sequence[DatasetStats]) -> Listed:
    """The layers that a build skips, as the model's last answer could not be stored.

    What its provider said of that is for whoever sees the whole store, as over HTTP.
    """
    if visit.service.capabilities.settings is None:  # on another server, or under a filter
        return Listed()
    builder = LayerBuilder(visit.service)
    found = [each for of in stats for each in builder.quarantined(of.dataset_id)]
    rows = found[:_LISTED] if sees_all(visit) else [public(each) for each in found[:_LISTED]]
    return Listed(rows, len(found) - len(rows))


def not_searched(service: KnowledgeBase, stats: Sequence[DatasetStats]) -> Listed:
    """The documents whose files have more than their text, those without text first."""
    found = [
        (each.dataset_id, name, unread)
        for each in stats
        for name, unread in unread_of(service.list_documents, each.dataset_id)
    ]
    found.sort(key=lambda each: not each[2].no_text)
    return Listed(found[:_LISTED], max(len(found) - _LISTED, 0))


def expiring(service: KnowledgeBase) -> dict[str, Listed] | None:
    """The documents that have expired, and those that will within a week; None where the store is
    another server's, which names none that have expired."""
    now = datetime.now(UTC)
    soon = all_of(not_expired_by(now), expired_by(now + _SOON))
    try:
        return {
            "expired": _until(service, now, expired_by(now)),
            "soon": _until(service, now + _SOON, soon),
        }
    except NotAvailableError:
        return None


def _until(service: KnowledgeBase, moment: datetime, tree: FilterTree | None) -> Listed:
    documents = service_of(service, "listing what expires").documents
    rows: list[DocumentInfo] = []
    count = 0
    for dataset_id in documents.with_expired(service.list_datasets(), moment):
        count += documents.count(dataset_id, where=tree)
        if left := _LISTED - len(rows):
            rows += documents.list(dataset_id, where=tree, limit=left)
    return Listed(rows, max(count - len(rows), 0))


def remove_listed(service: KnowledgeBase, digest: str) -> int | None:
    """Delete the expired documents that were listed; how many, None if others are listed now.

    Raises:
        NotAvailableError: the store is another server's.
    """
    found = expiring(service)
    if found is None:
        raise NotAvailableError(
            "the server of the store names no expired documents: delete them there, with "
            "`triptych rebuild`"
        )
    if found["expired"].digest != digest:
        return None
    names: dict[str, list[str]] = defaultdict(list)
    for each in found["expired"].rows:
        names[each.dataset_id].append(each.name)
    documents = service_of(service, "removing what expired").documents
    return sum(remove_expired(documents, *each) for each in names.items())
