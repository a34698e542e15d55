"""Errors as fields, and back: the class by its name, the message, and what the class adds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from triptych import errors
from triptych.errors import TriptychError, ValidationError

__all__ = ["error_fields", "error_of"]

_ATTRIBUTES: Final[Mapping[type[TriptychError], tuple[str, ...]]] = {
    errors.ConflictError: ("expected", "actual"),
    errors.ModelMismatchError: ("stored", "configured"),
    errors.StoreError: ("errors",),
    errors.RateLimitedError: ("retry_after",),
    errors.UnusableAnswerError: ("reason",),
    errors.DerivationError: ("document",),
    errors.DeletionHeldError: ("names", "documents"),
}
"""What the constructors take beside the message, and can be written down."""


def error_fields(error: Exception) -> dict[str, Any]:
    """The class, message and attributes of an error; what is empty is left out."""
    fields: dict[str, Any] = {"type": type(error).__name__, "message": str(error)}
    if isinstance(error, TriptychError):
        fields["hint"] = error.hint
        for kind, names in _ATTRIBUTES.items():
            if isinstance(error, kind):
                fields |= {name: getattr(error, name) for name in names}
    always = ("type", "message")
    return {k: v for k, v in fields.items() if k in always or (v is not None and v not in ("", ()))}


def error_of(fields: Mapping[str, Any]) -> Exception:
    """The error of these fields. A class that is not of `triptych.errors` becomes a `TriptychError`
    whose message begins with its name.

    Raises:
        ValidationError: ``fields`` are those of no error.
    """
    name, message = fields.get("type"), fields.get("message")
    if not isinstance(name, str) or not isinstance(message, str):
        raise ValidationError(f"an error has a type and a message, not {fields!r:.60}")
    kind = getattr(errors, name, None) if name in errors.__all__ else None
    if kind is None:
        return TriptychError(f"{name}: {message}")
    known = {each for k, names in _ATTRIBUTES.items() if issubclass(kind, k) for each in names}
    attributes = {each: fields[each] for each in known if each in fields}
    try:
        made: TriptychError = kind(message, **attributes)
    except (TypeError, ValueError):
        raise ValidationError(f"the attributes of a {name} are {sorted(known)}") from None
    hint = fields.get("hint")
    return made.hinted(hint) if isinstance(hint, str) and hint else made
