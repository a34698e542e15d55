"""Metadata values: their types, comparison and JSON form."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any, Literal, TypeAlias

from triptych.errors import ValidationError

Scalar: TypeAlias = str | bool | int | float | datetime | date
MetadataValue: TypeAlias = str | bool | int | float | datetime | date | Sequence[Scalar]
"""Text, a number, a bool, a date, a datetime, or a list of these. Documents hold lists as
`list`."""

Metadata: TypeAlias = Mapping[str, MetadataValue]

Kind: TypeAlias = Literal["text", "bool", "number", "time", "list"]
ComparisonKey: TypeAlias = tuple[Kind, Any]
"""The comparison key of a value: its kind, and text, a bool, a number, microseconds since 1970 in
UTC, or a tuple of keys. Two values are equal if their keys are. Only keys of the same kind are
ordered; bools and lists never are."""

DATE = "$date"
"""In JSON a date or datetime is an object with this key and the ISO 8601 text as its value."""

MAX_LIST = 10_000
"""The maximum number of items of a list."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_CHOICE = "text, a number, true or false, a date or datetime, or a list of these"


def check_metadata(metadata: Any) -> dict[str, MetadataValue]:
    """Validate ``metadata``; return a copy whose values have the plain types.

    A datetime keeps its UTC offset, but not its zone name; a tuple becomes a list, and ``{"$date":
    "…"}`` (the JSON form) a date or datetime.

    Raises:
        ValidationError: a key is not text, or a value is not a `MetadataValue`.
    """
    from triptych.records.values import check_text

    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise ValidationError(
            f"metadata must map strings to values, not be a {type(metadata).__name__}"
        )
    return {
        # Most keys and values are plain text, and a bulk put has hundreds of thousands.
        key if _is_plain(key) else check_text(key, "a metadata key"): value
        if _is_plain(value)
        else _value(value, f"metadata[{key!r}]")
        for key, value in metadata.items()
    }


def _is_plain(text: Any) -> bool:
    """Whether `check_text` has nothing to check or convert."""
    return type(text) is str and text.isascii()


def optional_metadata(metadata: Any) -> dict[str, MetadataValue] | None:
    """`check_metadata`, but None stays None."""
    return None if metadata is None else check_metadata(metadata)


def _value(value: Any, what: str) -> MetadataValue:
    if isinstance(value, list | tuple):
        if len(value) > MAX_LIST:
            raise ValidationError(f"{what} has {len(value):,} items; the maximum is {MAX_LIST:,}")
        return [_scalar(item, f"{what}[{at}]") for at, item in enumerate(value)]
    return _scalar(value, what)


def _scalar(value: Any, what: str) -> Scalar:
    """Convert ``value`` to one of the plain types.

    Raises:
        ValidationError: it has another type, or is a number that JSON or 64 bits cannot hold.
    """
    from triptych.records.values import check_text

    if isinstance(value, str):
        return str(check_text(value, what))
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        if not _LEAST <= value <= _MOST:
            raise ValidationError(f"{what} is beyond 64 bits: write the number as text")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValidationError(f"{what} must be a finite number, not {value}: leave the key out")
        return float(value)
    if isinstance(value, datetime):
        return _moment(value)
    if isinstance(value, date):
        return date(value.year, value.month, value.day)
    if value is None:
        raise ValidationError(f"{what} is None: leave the key out where there is no value")
    kind = type(value).__name__
    if isinstance(value, Mapping) and len(value) == 1 and DATE in value:
        return _time(value[DATE])
    if isinstance(value, Mapping):
        raise ValidationError(
            f"{what} must be {_CHOICE}, not {kind}: give each of its entries a separate key"
        )
    if isinstance(value, list | tuple):
        raise ValidationError(f"{what} is a list in a list: metadata holds plain lists only")
    raise ValidationError(f"{what} must be {_CHOICE}, not {kind}: {value!r:.40}")


def _moment(value: datetime) -> datetime:
    offset = value.utcoffset()
    zone = None if offset is None else UTC if not offset else timezone(offset)
    return datetime(
        value.year,
        value.month,
        value.day,
        value.hour,
        value.minute,
        value.second,
        value.microsecond,
        zone,
    )


def microseconds(value: date) -> int:
    """Return the microseconds since 1970 in UTC. A date starts at midnight UTC; a datetime without
    an offset is in UTC."""
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if value.utcoffset() is None:
        value = value.replace(tzinfo=UTC)
    return (value - _EPOCH) // _MICROSECOND


def comparison_key(value: MetadataValue) -> ComparisonKey:
    """Return the comparison key of ``value``."""
    if isinstance(value, str):
        return "text", value
    if isinstance(value, bool):
        return "bool", value
    if isinstance(value, int | float):
        return "number", value
    if isinstance(value, date):
        return "time", microseconds(value)
    return "list", tuple(comparison_key(item) for item in value)


def same_metadata(left: Metadata, right: Metadata) -> bool:
    """Return whether values and types are equal: 1, 1.0 and True all differ."""
    if left != right:
        return False
    return all(_same(value, right[key]) for key, value in left.items())


def _same(left: MetadataValue, right: MetadataValue) -> bool:
    if isinstance(left, list) and isinstance(right, list):
        return all(map(_same, left, right))
    if type(left) is not type(right):
        return False
    if isinstance(left, datetime) and isinstance(right, datetime):
        return left.utcoffset() == right.utcoffset()
    return not isinstance(left, float) or repr(left) == repr(right)  # 0.0 and -0.0


def copy_metadata(metadata: Metadata) -> dict[str, MetadataValue]:
    """Return a copy of ``metadata`` with copied lists."""
    if not metadata:
        return {}
    return {
        key: list(value) if isinstance(value, list) else value for key, value in metadata.items()
    }


def text_of(metadata: Metadata, key: str) -> str:
    """Return the text under ``key``; "" if it is missing or not text."""
    value = metadata.get(key, "")
    return value if isinstance(value, str) else ""


# JSON


def metadata_to_plain(metadata: Metadata) -> dict[str, Any]:
    """Convert ``metadata`` to plain data for JSON; dates and datetimes become ``{"$date":
    "…"}``."""
    return {key: _to_plain(value) for key, value in metadata.items()}


def _to_plain(value: MetadataValue) -> Any:
    if isinstance(value, date):
        return {DATE: value.isoformat()}
    if isinstance(value, list):
        return [_to_plain(item) for item in value]
    return value


def metadata_from_plain(plain: Any) -> dict[str, MetadataValue]:
    """Convert the result of `metadata_to_plain` back to metadata.

    Raises:
        ValidationError: ``plain`` is invalid.
    """
    if not isinstance(plain, Mapping):
        raise ValidationError(f"an object belongs here, not {plain!r:.60}")
    return check_metadata(plain)


def value_from_plain(plain: Any) -> Any:
    """Convert each ``{"$date": "…"}`` in ``plain`` to a date or datetime; keep all else.

    Raises:
        ValidationError: a time is not in ISO 8601.
    """
    if isinstance(plain, Mapping) and len(plain) == 1 and DATE in plain:
        return _time(plain[DATE])
    if isinstance(plain, list | tuple):
        return [value_from_plain(item) for item in plain]
    return plain


def _time(text: Any) -> date:
    try:
        if len(text) == len("2026-09-01"):
            return date.fromisoformat(text)
        return _moment(datetime.fromisoformat(text))
    except (TypeError, ValueError):
        raise ValidationError(
            f"{{{DATE!r}: …}} holds a time in ISO 8601, such as '2026-09-01' or "
            f"'2026-09-01T10:00:00+02:00', not {text!r:.60}"
        ) from None


_encode = json.JSONEncoder(ensure_ascii=False).encode


def dump_metadata(metadata: Metadata) -> str:
    """Return ``metadata`` as one line of JSON."""
    return _encode(metadata_to_plain(metadata)) if metadata else "{}"
