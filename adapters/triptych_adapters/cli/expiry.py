"""When documents expire, as a person writes it: a moment, or how long from now."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Literal

__all__ = ["expiry_of"]

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_TTL = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([smhdw])\s*")


def expiry_of(expires: str | None, ttl: str | None) -> datetime | Literal["never"] | None:
    """What ``--expires`` and ``--ttl`` say; None where neither is given.

    Raises:
        ValidationError: both are given, one cannot be read, or the moment has passed.
    """
    from triptych.errors import ValidationError

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
