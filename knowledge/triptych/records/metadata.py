"""Metadata values: which there are, how they compare, and their form in JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any, Literal, TypeAlias

from triptych.errors import ValidationError

Scalar: TypeAlias = str | bool | int | float | datetime | date
MetadataValue: TypeAlias = str | bool | int | float | datetime | date | Sequence[Scalar]
"""Text, a number, true or false, a day, a moment, or a list of these. Documents have lists as
`list`."""

Metadata: TypeAlias = Mapping[str, MetadataValue]

Kind: TypeAlias = Literal["text", "bool", "number", "time", "list"]
ComparisonKey: TypeAlias = tuple[Kind, Any]
"""What of a value is compared: its kind, and text, a bool, a number, microseconds since 1970 in
UTC, or a tuple of keys. Two values are equal if their keys are; only keys of one kind are ordered,
and those of bools and lists never."""

DATE = "$date"
"""In JSON a day or a moment is an object with this key: its value is the time in ISO 8601."""

MAX_LIST = 10_000
"""The most items of a list."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_CHOICE = "text, a number, true or false, a date or datetime, or a list of these"


def check_metadata(metadata: Any) -> dict[str, MetadataValue]:
    """A copy of ``metadata`` whose values are of the plain types.

    A datetime keeps its offset from UTC, but not the name of its zone; a tuple becomes a list,
    and ``{"$date": "…"}``, as JSON has it, a date or datetime.

    Raises:
        ValidationError: a key is no text, or a value is none of `MetadataValue`.
    """
    from triptych.records.values import check_text

    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise ValidationError(
            f"metadata must map strings to values, not be a {type(metadata).__name__}"
        )
    return {
        check_text(key, "a metadata key"): _value(value, f"metadata[{key!r}]")
        for key, value in metadata.items()
    }


def optional_metadata(metadata: Any) -> dict[str, MetadataValue] | None:
    """`check_metadata`, but None for None."""
    return None if metadata is None else check_metadata(metadata)


def _value(value: Any, what: str) -> MetadataValue:
    if isinstance(value, list | tuple):
        if len(value) > MAX_LIST:
            raise ValidationError(f"{what} has {len(value):,} items; {MAX_LIST:,} are the most")
        return [_scalar(item, f"{what}[{at}]") for at, item in enumerate(value)]
    return _scalar(value, what)


def _scalar(value: Any, what: str) -> Scalar:
    """``value`` as one of the plain types.

    Raises:
        ValidationError: it is another, or a number that JSON or 64 bits cannot hold.
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
            f"{what} must be {_CHOICE}, not {kind}: give each of its entries a key of its own"
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
    """Microseconds since 1970 in UTC. A day is its first moment in UTC, and a datetime without an
    offset is in UTC."""
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if value.utcoffset() is None:
        value = value.replace(tzinfo=UTC)
    return (value - _EPOCH) // _MICROSECOND


def comparison_key(value: MetadataValue) -> ComparisonKey:
    """What of ``value`` is compared."""
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
    """Whether both hold the same values of the same types: 1, 1.0 and True are three values."""
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
    """``metadata`` with lists of its own."""
    if not metadata:
        return {}
    return {
        key: list(value) if isinstance(value, list) else value for key, value in metadata.items()
    }


def text_of(metadata: Metadata, key: str) -> str:
    """The text under ``key``; "" for none, and for a value that is no text."""
    value = metadata.get(key, "")
    return value if isinstance(value, str) else ""


# JSON


def metadata_to_plain(metadata: Metadata) -> dict[str, Any]:
    """``metadata`` as JSON can hold it: days and moments as ``{"$date": "…"}``."""
    return {key: _to_plain(value) for key, value in metadata.items()}


def _to_plain(value: MetadataValue) -> Any:
    if isinstance(value, date):
        return {DATE: value.isoformat()}
    if isinstance(value, list):
        return [_to_plain(item) for item in value]
    return value


def metadata_from_plain(plain: Any) -> dict[str, MetadataValue]:
    """The metadata that `metadata_to_plain` made ``plain`` of.

    Raises:
        ValidationError: ``plain`` is something else.
    """
    if not isinstance(plain, Mapping):
        raise ValidationError(f"an object belongs here, not {plain!r:.60}")
    return check_metadata(plain)


def value_from_plain(plain: Any) -> Any:
    """``plain`` with its ``{"$date": "…"}`` as days and moments; what else it holds as it is.

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


def dump_metadata(metadata: Metadata) -> str:
    """``metadata`` as one line of JSON."""
    return json.dumps(metadata_to_plain(metadata), ensure_ascii=False) if metadata else "{}"
