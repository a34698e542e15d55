"""The table of errors: exit code, HTTP status and hint for each class."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Any, Final

import attrs

from triptych import errors


class Exit(IntEnum):
    """The exit codes of ``triptych``."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    STORE = 5
    MODEL = 6
    NOT_AVAILABLE = 7
    PARTIAL = 8
    INTERRUPTED = 130
    BROKEN_PIPE = 141


@attrs.frozen(slots=True)
class ErrorForm:
    """The external form of a class of errors.

    Attributes:
        kind: the class; the row also applies to subclasses without their own.
        exit_code: the exit code of commands.
        status: the HTTP status.
        hint: what to do about it on the command line, or "". An error's own hint takes precedence.
    """

    kind: type[errors.TriptychError]
    exit_code: Exit
    status: int
    hint: str = ""


_REPAIR = "nothing of the file was stored: repair it, or leave it out"
_STORED = "`triptych get NAME --info` shows the version that is stored now"
_KEYS = (
    "`triptych admin keys add` makes a key, `triptych admin keys list` shows those that there are"
)
_WAIT = "wait as long as Retry-After says, then ask again"
_ALLOWED = "`triptych admin keys list` shows what each key may do"
_REVIEW = "a person approves or refuses it on the page Reviews of the console: `triptych console`"
_STORE = "`triptych status` shows which store is used"
_DAMAGED = f"{_STORE}, `triptych doctor` what is damaged and what can be repaired"
_LOCKED = f"{_STORE}; TRIPTYCH_LOCK_TIMEOUT says how long to wait for another writer"
_SLOW = "see whether the model answers at all; `triptych ask --timeout 30` waits for less long"
_SETTINGS = "`triptych status` shows each setting and where it is from"
_HELD = "if the files are gone for good, `triptych sync --yes` deletes the documents"
_KEPT = "documents that were stored stay: run the command again to go on"
_DONE = "what was done is stored: raise the limit and run the command again to go on"
_COMMITTED = "what was committed stays: run the command again to go on"
_STAYS = "documents that were stored stay, and `triptych rebuild` derives what is missing"
_EMBEDDER = "`triptych status` names the embedder a dataset was filled with"

ERRORS: Final = (
    ErrorForm(errors.TriptychError, Exit.FAILED, 500),
    ErrorForm(errors.ValidationError, Exit.USAGE, 400),
    ErrorForm(errors.ParseError, Exit.USAGE, 422, _REPAIR),
    ErrorForm(errors.NotFoundError, Exit.NOT_FOUND, 404),
    ErrorForm(errors.ConflictError, Exit.CONFLICT, 409, _STORED),
    ErrorForm(errors.NotAvailableError, Exit.NOT_AVAILABLE, 501),
    ErrorForm(errors.AuthenticationError, Exit.FAILED, 401, _KEYS),
    ErrorForm(errors.TooManyRequestsError, Exit.FAILED, 429, _WAIT),
    ErrorForm(errors.AccessDeniedError, Exit.FAILED, 403, _ALLOWED),
    # Not 202: what takes any 2xx for success must not take this for one.
    ErrorForm(errors.PendingReviewError, Exit.FAILED, 409, _REVIEW),
    ErrorForm(errors.ModelMismatchError, Exit.MODEL, 409, _EMBEDDER),
    ErrorForm(errors.StoreError, Exit.STORE, 500, _STORE),
    ErrorForm(errors.StoreAwayError, Exit.STORE, 503),
    ErrorForm(errors.CorruptStoreError, Exit.STORE, 500, _DAMAGED),
    ErrorForm(errors.StoreFullError, Exit.STORE, 507, _STORE),
    ErrorForm(errors.StoreLockedError, Exit.STORE, 503, _LOCKED),
    ErrorForm(errors.SchemaVersionError, Exit.STORE, 500, _STORE),
    ErrorForm(errors.ProviderError, Exit.MODEL, 502),
    # The limit is on this installation, not on who asks it: 503, with Retry-After.
    ErrorForm(errors.RateLimitedError, Exit.MODEL, 503, "wait, then run the command again"),
    ErrorForm(errors.ProviderTimeoutError, Exit.MODEL, 504, _SLOW),
    ErrorForm(errors.ProviderSetupError, Exit.MODEL, 502, _SETTINGS),
    ErrorForm(errors.UnusableAnswerError, Exit.MODEL, 502),
    ErrorForm(errors.SourceError, Exit.FAILED, 502, _KEPT),
    ErrorForm(errors.DerivationError, Exit.MODEL, 500, _STAYS),
    ErrorForm(errors.DeletionHeldError, Exit.CONFLICT, 409, _HELD),
    ErrorForm(errors.BudgetExceededError, Exit.MODEL, 422, _DONE),
    ErrorForm(errors.CancelledError, Exit.FAILED, 503, _COMMITTED),
)
"""Each class of `triptych.errors` once."""

_BY_KIND: Final = {form.kind: form for form in ERRORS}
_OUTAGES: Final = (errors.StoreAwayError, errors.StoreFullError, errors.StoreLockedError)


def error_form(error: BaseException | type[BaseException]) -> ErrorForm | None:
    """Return the row of an error or class, or of its nearest base class; None for foreign
    errors.

    A DerivationError whose cause is a store that is away, full or locked has the cause's status.
    """
    kind = error if isinstance(error, type) else type(error)
    form = next((_BY_KIND[each] for each in kind.__mro__ if each in _BY_KIND), None)
    if form is not None and isinstance(error, errors.DerivationError):
        cause = error_form(error.__cause__) if isinstance(error.__cause__, _OUTAGES) else None
        return form if cause is None else attrs.evolve(form, status=cause.status)
    return form


_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")
_CODES: Final = {
    errors.TriptychError: "INTERNAL_ERROR",
    errors.ValidationError: "INVALID_REQUEST",
    errors.AuthenticationError: "UNAUTHORIZED",
    errors.AccessDeniedError: "FORBIDDEN",
    errors.TooManyRequestsError: "RATE_LIMITED",
}
_KINDS: Final = {
    _CODES.get(each.kind) or _WORDS.sub("_", each.kind.__name__).upper(): each.kind
    for each in ERRORS
}


def error_code(error: BaseException | type[BaseException]) -> str:
    """Return the code of an error in HTTP responses: its class in capitals, such as
    ``NOT_FOUND_ERROR``, ``INVALID_REQUEST`` for a ValidationError, ``INTERNAL_ERROR`` for foreign
    errors."""
    form = error_form(error)
    kind = errors.TriptychError if form is None else form.kind
    return next(code for code, each in _KINDS.items() if each is kind)


def error_kind(code: str) -> type[errors.TriptychError] | None:
    """Return the class of errors with this code, None for an unknown code."""
    return _KINDS.get(code)


def error_json(error: BaseException) -> dict[str, Any]:
    """Return an error as plain data for JSON."""
    return {"type": type(error).__name__, "message": str(error)}


# As a server shows them to whoever asked: the inside stays in its log.

INTERNAL_MESSAGE: Final = "internal error"
_BY_STATUS: Final = {
    500: "the store failed",
    502: "a model's provider failed",
    503: "busy: try again later",
    504: "a model's provider did not respond in time",
    507: "the store's disk is full",
}
"""The replacements, by status, of messages that may name files, hosts or drivers' errors."""


def is_failure(error: BaseException) -> bool:
    """Return whether the error is the server's, not the caller's, so that it must be logged."""
    form = error_form(error)
    return form is None or (
        form.status >= 500
        and not isinstance(error, errors.NotAvailableError | errors.CancelledError)
    )


def public_message(error: BaseException) -> str:
    """Return the message of ``error``, or its public replacement."""
    form = error_form(error)
    # A class that has no row of its own below errors.TriptychError is unforeseen.
    if form is None or form.kind is errors.TriptychError:
        return INTERNAL_MESSAGE
    if not is_failure(error):
        return error.public if isinstance(error, errors.NotAvailableError) else str(error)
    if form.kind is errors.DerivationError:
        return "the document is stored, but its chunks, vectors or layers are not"
    if form.kind is errors.StoreAwayError:
        return "the store does not answer, and may have committed a write: try again later"
    return _BY_STATUS[form.status]


def public_error(error: Exception) -> errors.TriptychError:
    """Return ``error`` for a report: of the same class, without internal details."""
    form = error_form(error)
    if not isinstance(error, errors.TriptychError) or form is None:
        return errors.TriptychError(INTERNAL_MESSAGE)
    message = public_message(error)
    return error if message == str(error) else form.kind(message)
