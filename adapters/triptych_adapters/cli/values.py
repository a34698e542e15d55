"""Values of options that stand for more than a word: conditions, metadata, moments, lists."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from triptych.errors import ValidationError

_COMPARISON = re.compile("[<>!]$")
_OPERATORS = {">": "$gte", "<": "$lte", "!": "$ne"}
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_TTL = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([smhdw])\s*")


def conditions(values: Sequence[str], option: str) -> dict[str, Any]:
    """The ``where`` of ``KEY=VALUE`` options and JSON objects, all of which must hold. A key that
    comes several times may have any of its values."""
    plain, objects = _parted(values, option)
    several = pairs(plain, option)
    for key in several:
        sign = _COMPARISON.search(key)
        if sign:
            name = key[: sign.start()].strip()
            raise ValidationError(
                f"{option} {key}=… is not KEY=VALUE: a comparison is written as JSON, such as "
                f'\'{{"{name}": {{"{_OPERATORS[sign[0]]}": …}}}}\''
            )
    where: dict[str, Any] = {
        key: found[0] if len(found) == 1 else found for key, found in several.items()
    }
    if where:
        objects.insert(0, where)
    return objects[0] if len(objects) == 1 else {"$and": objects} if objects else {}


def metadata_of(values: Sequence[str], option: str) -> dict[str, Any]:
    """The metadata of ``KEY=VALUE`` options, whose values are text, and JSON objects."""
    plain, objects = _parted(values, option)
    given = [{key: value} for key, found in pairs(plain, option).items() for value in found]
    metadata: dict[str, Any] = {}
    for entries in [*given, *objects]:
        for key, value in entries.items():
            if key in metadata:
                raise ValidationError(f"{option} gives {key!r} several times: give it once")
            metadata[key] = value
    return metadata


def _parted(values: Sequence[str], option: str) -> tuple[list[str], list[dict[str, Any]]]:
    """``KEY=VALUE`` options, and those that are JSON objects."""
    plain, objects = [], []
    for value in values:
        if not value.lstrip().startswith("{"):
            plain.append(value)
            continue
        try:
            objects.append(json.loads(value, object_pairs_hook=_unique_keys))
        except ValidationError as error:
            raise ValidationError(f"{option} {value[:60]!r} {error}") from None
        except RecursionError:
            raise ValidationError(f"{option} {value[:60]!r} is nested too deeply") from None
        except ValueError as error:
            raise ValidationError(
                f"{option} {value[:60]!r} is not a JSON object: {error}"
            ) from None
    return plain, objects


def _unique_keys(entries: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, of which Python would keep the last of several values for a key."""
    found: dict[str, Any] = {}
    for key, value in entries:
        if key in found:
            raise ValidationError(f"gives {key!r} several times: give it once")
        found[key] = value
    return found


def pairs(values: Sequence[str], option: str) -> dict[str, list[str]]:
    """``KEY=VALUE`` options by key, every value in the order given."""
    found: dict[str, list[str]] = {}
    for value in values:
        key, equals, rest = value.partition("=")
        if not equals or not key:
            raise ValidationError(f"{option} {value!r} is not KEY=VALUE")
        found.setdefault(key, []).append(rest)
    return found


def expiry_of(expires: str | None, ttl: str | None) -> datetime | Literal["never"] | None:
    """What ``--expires`` and ``--ttl`` say; None where neither is given.

    Raises:
        ValidationError: both are given, one cannot be read, or the moment has passed.
    """
    if expires is not None and ttl is not None:
        raise ValidationError("--expires and --ttl say the same: give one of them")
    now = datetime.now(UTC)
    if ttl is not None:
        found = _TTL.fullmatch(ttl)
        try:
            if found is None:
                raise ValueError(ttl)
            moment = now + timedelta(**{_UNITS[found[2]]: float(found[1])})
        except (ValueError, OverflowError):
            raise ValidationError(
                f"--ttl {ttl!r} is no length of time: write 30d, 12h, 90m, 45s or 2w"
            ) from None
    elif expires is None or expires == "never":
        return "never" if expires else None
    else:
        try:
            moment = datetime.fromisoformat(expires)
        except ValueError:
            raise ValidationError(
                f"--expires {expires!r} is no moment in ISO 8601: write 2026-12-31, "
                "2026-12-31T18:00Z or never"
            ) from None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if moment <= now:
        raise ValidationError(
            "the document would have expired already: give a later moment, or `triptych delete` it"
        )
    return moment


def names(text: str) -> list[str]:
    """The parts of a text with commas."""
    return [each.strip() for each in text.split(",") if each.strip()]


def numbers(text: str, option: str) -> list[int]:
    """The whole numbers in a text with commas.

    Raises:
        ValidationError: one is not a whole number; it names ``option``.
    """
    try:
        return [int(each) for each in names(text)]
    except ValueError:
        raise ValidationError(
            f"{option} {text!r} is not whole numbers separated by commas"
        ) from None
