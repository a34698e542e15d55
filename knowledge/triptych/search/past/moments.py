"""Moments: how one is given, and which version of a document was current then."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any

import attrs

from triptych.errors import ValidationError
from triptych.records import DocumentInfo, Query
from triptych.records.documents import has_expired

Moment = int | datetime
"""A time in UTC, or the greatest version that a document may have."""

_HOW = (
    "give a datetime, its ISO 8601 text such as '2026-11-01T12:00', or a version from 1 up as a "
    "whole number"
)


def to_moment(value: Any) -> Moment:
    """Return the moment that ``as_of`` means. A time without an offset is in UTC.

    Raises:
        ValidationError: it is no moment, or one in the future.
    """
    given = value
    if isinstance(value, str):
        value = _read(value.strip())
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 1:
            raise ValidationError(f"as_of is version {value}: {_HOW}")
        return value
    if not isinstance(value, datetime):
        raise ValidationError(f"as_of is no moment: {given!r:.60}; {_HOW}")
    try:
        moment = _aware(value).astimezone(UTC)
    except (OverflowError, ValueError):
        raise ValidationError(f"as_of lies beyond all times: {given!r:.60}; {_HOW}") from None
    if moment > datetime.now(UTC):
        raise ValidationError(
            f"as_of lies in the future: {moment.isoformat()}; leave it out to search what is "
            "stored now"
        )
    return moment


def _read(text: str) -> Any:
    if text.isascii() and text.isdigit():
        return int(text[:20])  # no version has more digits
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


@attrs.frozen(kw_only=True, slots=True)
class VersionThen:
    """A document at a moment.

    Attributes:
        info: the version that was current, None where there is none to search.
        lost: whether there was one, but it is no longer kept.
        unknown: whether there may have been one that is no longer kept.
    """

    info: DocumentInfo | None = None
    lost: bool = False
    unknown: bool = False


def version_then(
    versions: Sequence[DocumentInfo], moment: Moment, deleted_version: int | None
) -> VersionThen:
    """Return the document at ``moment``.

    A document that had expired by then counts as none. A version number has no time: then a
    document counts as none if it has expired by now.

    Args:
        versions: the current version and the kept ones, newest first; one at least.
        moment: when.
        deleted_version: the greatest version ever deleted in the dataset, None if not known.
    """
    if isinstance(moment, datetime):
        found = next((each for each in versions if _aware(each.updated_at) <= moment), None)
        if has_expired(found, moment):
            return VersionThen()
    else:
        if has_expired(versions[0]):
            return VersionThen()
        found = next((each for each in versions if each.version <= moment), None)
    if found is not None:
        return VersionThen(info=found)
    oldest = versions[-1].version
    # The first version of a document is at most one above the greatest that was deleted.
    if deleted_version is not None and oldest > deleted_version + 1:
        return VersionThen(lost=True)
    return VersionThen(unknown=oldest > 1)


def by_moment(queries: Sequence[Query]) -> Collection[Sequence[int]]:
    """The places of those queries that one store answers: of a moment, of datasets and of needs.

    Raises:
        ValidationError: an ``as_of`` is no moment.
    """
    places: dict[str, list[int]] = {}
    for at, query in enumerate(queries):
        key = ""
        if query.as_of is not None:
            where = query.scope, query.dataset_id, query.dataset_ids
            key = repr((to_moment(query.as_of), *where, query.mode, query.layer))
        places.setdefault(key, []).append(at)
    return places.values()


def _aware(time: datetime) -> datetime:
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
