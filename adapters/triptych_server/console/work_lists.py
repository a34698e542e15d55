"""The lists of quarantined layers and of documents that expire, and how much waits."""

from __future__ import annotations

import hashlib
import time
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
from triptych_adapters.wire import stale_layers
from triptych_server.console.visit import Visit, may
from triptych_server.http.responses import public

_LISTED: Final = 300
_SOON: Final = timedelta(days=7)
_QUICK: Final = 0.05
_SHARE: Final = 10
"""What takes longer than so many seconds to count may be so many times as old as that took."""


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


class Waiting:
    """How many documents and layers wait, for whoever sees the whole store; 0 for others.

    It is counted again if the store has changed, as that reads every document.
    """

    def __init__(self) -> None:
        self._known: tuple[str, int, float] | None = None  # the head, the count, good until

    def __call__(self, visit: Visit) -> int:
        """The documents and layers that the page lists, warnings and proposals aside."""
        service, changes = visit.server.service, visit.server.service.capabilities.changes
        if changes is None or not sees_all(visit):
            return 0
        head, known, began = changes.change_head(), self._known, time.monotonic()
        if known is None or (known[0] != head and known[2] < began):
            count = _counted(service)
            took = time.monotonic() - began
            known = self._known = head, count, began + (took * _SHARE if took > _QUICK else 0)
        expired = (expiring(service) or {"expired": Listed()})["expired"]
        failed = quarantined(visit, service.list_datasets())
        return known[1] + sum(len(each.rows) + each.more for each in (expired, failed))


def _counted(service: KnowledgeBase) -> int:
    """What changes only with the store: chunks, vectors and layers to make, files without text."""
    stats = service.stats()
    stale = sum(count or 0 for count in stale_layers(service, stats).values())
    chunks = sum(each.stale + each.pending + each.further_pending for each in stats)
    no_text = [each for each in not_searched(service, stats).rows if each[2].no_text]
    return chunks + stale + len(no_text)


def quarantined(visit: Visit, dataset_ids: Sequence[str]) -> Listed:
    """The layers that a build skips, as the model's last answer could not be stored.

    What its provider said of that is for whoever sees the whole store, as over HTTP.
    """
    if visit.service.capabilities.settings is None:  # on another server, or under a filter
        return Listed()
    builder = LayerBuilder(visit.service)
    found = [each for name in dataset_ids for each in builder.quarantined(name)]
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
