"""What a record's fields may hold: checks and converters, which raise `ValidationError`."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, Literal

import attrs
import numpy as np

from triptych.errors import ValidationError
from triptych.records.values import MAX_NAME_BYTES, Vector

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def check_text(text: Any, what: str) -> str:
    """``text`` itself, if it is a string that UTF-8 can hold.

    Raises:
        ValidationError: it is not a string, or holds a lone surrogate, which no encoding of
            Unicode can store; the message gives its position.
    """
    if not isinstance(text, str):
        raise ValidationError(f"{what} must be a string, not {type(text).__name__}")
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValidationError(
                f"{what} holds a lone surrogate (U+{ord(text[error.start]):04X}) at position "
                f"{error.start}, which no file or database can store: decode the original "
                "bytes with errors='replace', or remove it"
            ) from None
    return text


def check_identifier(name: Any, what: str) -> str:
    """A dataset id or document name: text without control characters, 1 to 1,024 bytes."""
    check_text(name, what)
    if not name or name.isspace():
        raise ValidationError(f"{what} is empty: give it at least one visible character")
    if len(name.encode("utf-8")) > MAX_NAME_BYTES:
        raise ValidationError(
            f"{what} is longer than {MAX_NAME_BYTES} bytes in UTF-8: {name[:40]!r}…"
        )
    # Most names are printable: these hold no control character.
    control = None if name.isprintable() else _CONTROL.search(name)
    if control is not None:
        raise ValidationError(
            f"{what} holds the control character {control[0]!r}: {name!r} cannot be shown "
            "or stored safely under it"
        )
    return str(name)


def check_document_name(name: Any) -> str:
    """A document's name: an identifier that does not end in a slash."""
    check_identifier(name, "a document name")
    if name.endswith("/"):
        raise ValidationError(
            f"the document name {name!r} ends in a slash: such names are reserved for the "
            "layers of folders"
        )
    return str(name)


def check_whole(value: Any, what: str, *, least: int = 0) -> int:
    """``value`` itself, if it is a whole number from ``least`` up; a bool is none."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValidationError(f"{what} must be a whole number from {least} up, not {value!r:.60}")
    return value


def _same_vector(left: Vector | None, right: Vector | None) -> bool:
    if left is None or right is None:
        return left is right
    return np.array_equal(left, right)


vector_comparison: type = attrs.cmp_using(eq=_same_vector)


def expiry(moment: Any) -> datetime | None:
    """A moment in UTC, in which one without an offset is; None for None."""
    if moment is None:
        return None
    if not isinstance(moment, datetime):
        raise ValidationError(
            f"expires_at is a datetime, not {moment!r:.60}: write "
            "datetime.now(UTC) + timedelta(days=30), for example"
        )
    try:
        return moment.replace(tzinfo=UTC) if moment.utcoffset() is None else moment.astimezone(UTC)
    except OverflowError:
        raise ValidationError(
            f"expires_at, {moment.isoformat()}, is before the year 1 or after 9999 in UTC"
        ) from None


def optional_expiry(moment: Any) -> datetime | Literal["never"] | None:
    """`expiry`, but "never" for "never"."""
    return "never" if isinstance(moment, str) and moment == "never" else expiry(moment)


def optional_version(value: object) -> int | None:
    if value is None or (isinstance(value, int) and value >= 0 and value is not True):
        return value
    raise ValidationError(
        f"if_version is the version you read (0: there is no document yet), not {value!r}"
    )


def document_content(text: object) -> str:
    return check_text(text, "a document's content")


def layer_content(text: object) -> str:
    return check_text(text, "a layer's content")


def summary_part(text: object) -> str:
    return check_text(text, "a summary's name or abstract")


def optional_system_text(text: Any) -> str | None:
    """`system_text`, but None for None."""
    return None if text is None else system_text(text)


def system_text(text: Any) -> str:
    return check_text(text, "an outline or a sync root")


def provenance(text: object) -> str:
    return check_text(text, "original_sha256 or parser_sig")
