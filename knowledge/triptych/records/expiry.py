"""Documents that expire: after their moment nothing finds them, and a rebuild removes them."""

from __future__ import annotations

from datetime import UTC, datetime

from triptych.records.documents import DocumentInfo, SourceDocument, SystemData
from triptych.records.filters import EXPIRES_AT, Condition, FilterTree, Not
from triptych.records.metadata import comparison_key


def expired_by(moment: datetime) -> Condition:
    """The condition that a document's `SystemData.expires_at` is ``moment`` or before."""
    return Condition(EXPIRES_AT, "lte", (comparison_key(moment),))


def not_expired_by(moment: datetime) -> FilterTree:
    """The condition that a document never expires, or expires after ``moment``.

    It holds for the layers of folders and datasets, which do not expire.
    """
    return Not(expired_by(moment))


def has_expired(
    document: DocumentInfo | SourceDocument | None, moment: datetime | None = None
) -> bool:
    """Whether the document has expired by ``moment``, None for now; False without a document."""
    return document is not None and system_has_expired(document.system, moment)


def system_has_expired(system: SystemData | None, moment: datetime | None = None) -> bool:
    """`has_expired` of the document with this system data."""
    expires_at = None if system is None else system.expires_at
    return expires_at is not None and expires_at <= (moment or datetime.now(UTC))
