"""Errors as a server shows them to whoever asked: the inside stays in its log."""

from __future__ import annotations

from typing import Final

from triptych.errors import CancelledError, DerivationError, NotAvailableError, TriptychError
from triptych_adapters.wire.errors import error_form

__all__ = ["INTERNAL_MESSAGE", "is_failure", "public_error", "public_message"]

INTERNAL_MESSAGE: Final = "internal error"
_BY_STATUS: Final = {
    500: "the store could not do it",
    502: "a model's provider failed",
    503: "busy: try again later",
    504: "a model's provider did not answer in time",
}
"""What is said by status in place of messages that may name files, hosts or drivers' errors."""


def is_failure(error: BaseException) -> bool:
    """Whether the server failed, and not who asked: its log must have it."""
    form = error_form(error)
    return form is None or (
        form.status >= 500 and not isinstance(error, NotAvailableError | CancelledError)
    )


def public_message(error: BaseException) -> str:
    """The message of ``error``, or what is said in its place."""
    form = error_form(error)
    # A class that has no row of its own below TriptychError is unforeseen.
    if form is None or form.kind is TriptychError:
        return INTERNAL_MESSAGE
    if not is_failure(error):
        return error.public if isinstance(error, NotAvailableError) else str(error)
    if form.kind is DerivationError:
        return "the document is stored, but its chunks, vectors or layers are not"
    return _BY_STATUS[form.status]


def public_error(error: Exception) -> TriptychError:
    """``error`` as a report shows it: of its class, without the inside."""
    form = error_form(error)
    if not isinstance(error, TriptychError) or form is None:
        return TriptychError(INTERNAL_MESSAGE)
    message = public_message(error)
    return error if message == str(error) else form.kind(message)
