"""The moments that searches of the past name: reading them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from triptych.errors import ValidationError

Moment = int | datetime
"""A time in UTC, or the maximum version of documents."""
_MOMENTS = (
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
        value = _read_moment(value.strip())
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 1:
            raise ValidationError(f"as_of is version {value}: {_MOMENTS}")
        return value
    if not isinstance(value, datetime):
        raise ValidationError(f"as_of is no moment: {given!r:.60}; {_MOMENTS}")
    try:
        moment = aware(value).astimezone(UTC)
    except (OverflowError, ValueError):
        raise ValidationError(f"as_of lies beyond all times: {given!r:.60}; {_MOMENTS}") from None
    if moment > datetime.now(UTC):
        raise ValidationError(
            f"as_of lies in the future: {moment.isoformat()}; leave it out to search the current "
            "state"
        )
    return moment


def _read_moment(text: str) -> Any:
    if text.isascii() and text.isdigit():
        return int(text[:20])  # no version has more digits
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def aware(time: datetime) -> datetime:
    """``time``, in UTC if it has no offset."""
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
