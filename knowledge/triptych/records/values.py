"""Enumerations, constants and types of record fields, and functions that validate them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Literal, TypeVar

import attrs
import numpy as np
from numpy.typing import NDArray

from triptych.errors import ValidationError

Vector = NDArray[np.float32]
"""A float32 array of shape (dimension,)."""

StaleReason = Literal["source", "chunker", "prompt", "embedder", "input", "vector"]
"""What has changed since something was derived. "embedder": its vectors are of another model;
"vector": nothing has changed, but its vectors are missing."""

EmbedKind = Literal["document", "query"]
"""The role of a text for an embedder: a stored passage or a question."""

SpaceKind = Literal["dense", "sparse"]
"""Whether the vectors of a space are of an embedder or of a sparse encoder."""

EmbedWhen = Literal["now", "later"]
"""When the vectors of a stored document are made: in the call, or by `Service.embed_pending`."""

Answerability = Literal["enough", "weak", "nothing"]
"""Whether the hits of a search answer the question."""

Strength = Literal["strong", "fair", "weak", "none"]
"""How strong the evidence is that the hits of a search are about its query."""

NO_CHUNK = -1
"""`Hit.chunk_index` of a hit that is a layer or a whole document."""

OPENING = 512
"""The maximum length, in code points, of the content of a hit on a whole document."""

MAX_NAME_BYTES = 1024
SNIPPET_LENGTH = 240


class Layer(StrEnum):
    """The level of detail of a text: abstract (L0), overview (L1) or the document itself (L2)."""

    ABSTRACT = "L0"
    OVERVIEW = "L1"
    DETAIL = "L2"


class Mode(StrEnum):
    """The lanes that a search runs."""

    BM25 = "bm25"
    VECTOR = "vector"
    HYBRID = "hybrid"


class Scope(StrEnum):
    """Whether a search covers one dataset or all datasets."""

    SINGLE = "single"
    ALL = "all"


class EventKind(StrEnum):
    """What happened to a document, or to a whole dataset (`BULK`)."""

    PUT = "put"
    DELETE = "delete"
    BULK = "bulk"


_E = TypeVar("_E", bound=StrEnum)
MODES: Mapping[str, Mode] = {str(mode): mode for mode in Mode}
"""The modes by their strings."""


def _member(kind: type[_E], value: object) -> _E:
    if isinstance(value, kind):
        return value
    try:
        return kind(str(value))
    except ValueError:
        choices = ", ".join(repr(str(member)) for member in kind)
        raise ValidationError(
            f"{value!r} is not a {kind.__name__.lower()}: choose one of {choices}"
        ) from None


def to_layer(value: object) -> Layer:
    """Convert a `Layer` or its string to a `Layer`."""
    return _member(Layer, value)


def to_mode(value: object) -> Mode:
    """Convert a `Mode` or its string to a `Mode`."""
    return _member(Mode, value)


def to_scope(value: object) -> Scope:
    """Convert a `Scope` or its string to a `Scope`."""
    return _member(Scope, value)


def to_event_kind(value: object) -> EventKind:
    """Convert an `EventKind` or its string to an `EventKind`."""
    return _member(EventKind, value)


def is_valid_layer(value: object) -> bool:
    """Return whether ``value`` is a `Layer` or the string of one."""
    return isinstance(value, str) and value in set(Layer)


def is_valid_mode(value: object) -> bool:
    """Return whether ``value`` is a `Mode` or the string of one."""
    return isinstance(value, str) and value in MODES


_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def check_text(text: Any, what: str) -> str:
    """Check that ``text`` is a string that can be encoded in UTF-8; return it.

    Raises:
        ValidationError: it is not a string, or contains a lone surrogate; the message gives its
            position.
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
    """Check a dataset id or document name: text without control characters, 1 to 1,024 bytes."""
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
            f"{what} holds the control character {control[0]!r}: {name!r} cannot be shown or "
            "stored safely"
        )
    return str(name)


def check_document_name(name: Any) -> str:
    """Check a document's name: an identifier that does not end in a slash."""
    check_identifier(name, "a document name")
    if name.endswith("/"):
        raise ValidationError(
            f"the document name {name!r} ends in a slash: such names are reserved for the "
            "layers of folders"
        )
    return str(name)


def check_whole(value: Any, what: str, *, least: int = 0, most: int | None = None) -> int:
    """Check that ``value`` is an integer (not a bool) from ``least`` to ``most``; return it."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or value < least or (most is not None and value > most):
        end = "up" if most is None else f"to {most:,}"
        raise ValidationError(
            f"{what} must be a whole number from {least} {end}, not {value!r:.60}"
        )
    return int(value)


def whole(**bounds: int) -> Callable[[Any, Any, Any], None]:
    """A validator of a field, which is a whole number within `check_whole`'s ``bounds``."""

    def check(instance: Any, field: Any, value: Any) -> None:
        check_whole(value, field.name, **bounds)

    return check


def check_number(
    value: Any,
    what: str,
    *,
    least: float = 0,
    above: bool = False,
    most: float = sys.float_info.max,
    of: str = "",
) -> float:
    """``value`` as a float, if it is a finite number; a bool is none.

    Args:
        what: the argument, as the error calls it.
        least, most: its bounds; with ``above`` it is not ``least`` itself.
        of: its unit, such as "seconds".

    Raises:
        ValidationError: it is something else.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and least <= value <= most and not (above and value == least):
        return float(value)
    unit = f"a number of {of}" if of else "a finite number"
    first, last = f"{'above' if above else 'from'} {least:g}", "" if above else " up"
    if most < sys.float_info.max:
        last = f", at most {most:g}" if above else f" to {most:g}"
    raise ValidationError(f"{what} is {unit} {first}{last}, not {value!r:.60}")


def number(called: str = "", **bounds: Any) -> Callable[[Any, Any, Any], None]:
    """A validator of a field, which is a number within `check_number`'s ``bounds``; the error calls
    it ``called``, or by its name."""

    def check(instance: Any, field: Any, value: Any) -> None:
        check_number(value, called or field.name, **bounds)

    return check


def _same_vector(left: Vector | None, right: Vector | None) -> bool:
    if left is None or right is None:
        return left is right
    return np.array_equal(left, right)


vector_comparison: type = attrs.cmp_using(eq=_same_vector)


def expiry(moment: Any) -> datetime | None:
    """Convert a datetime to UTC; without an offset it is in UTC already. None stays None."""
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
    """`expiry`, but "never" stays "never"."""
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
    """`system_text`, but None stays None."""
    return None if text is None else system_text(text)


def system_text(text: Any) -> str:
    return check_text(text, "an outline or a sync root")


def provenance(text: object) -> str:
    return check_text(text, "original_sha256 or parser_sig")
