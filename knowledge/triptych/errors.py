"""The errors of Triptych: one root, one tree.

    TriptychError
    ├── ValidationError         what was asked for is invalid (also a ValueError)
    │   └── ParseError          a file cannot be read as what it is
    ├── NotFoundError           the named thing is not there (also a LookupError)
    ├── ConflictError           somebody else changed it first
    ├── NotAvailableError       this installation or backend is not capable of it
    ├── AuthenticationError     the caller has no valid key
    ├── AccessDeniedError       the caller's access does not allow it
    ├── PendingReviewError      the write waits until a person approves it
    ├── TooManyRequestsError    the caller asks more often than the key allows
    ├── ModelMismatchError      the store was filled with another embedding model
    ├── StoreError              the store could not do it
    │   ├── StoreAwayError      its server cannot be reached, or was lost
    │   ├── CorruptStoreError   what is stored fails its check
    │   ├── StoreLockedError    another writer held the store longer than the wait
    │   └── SchemaVersionError  the store was written by another version of Triptych
    ├── ProviderError           a model provider failed
    │   ├── RateLimitedError
    │   ├── ProviderTimeoutError
    │   ├── ProviderSetupError
    │   └── UnusableAnswerError
    ├── DerivationError         the source is stored; chunks, vectors or layers are not
    ├── DeletionHeldError       a sync would delete most documents of a folder: confirm it
    ├── BudgetExceededError     a ceiling on calls, tokens or cost was reached
    └── CancelledError          a deadline passed or the caller cancelled

A message says what was wrong, with which input, and what to do next. A secret never
appears in one. Drivers' own errors never leave a backend: they are the ``__cause__``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from triptych.records import SourceDocument

__all__ = [
    "AccessDeniedError",
    "AuthenticationError",
    "BudgetExceededError",
    "CancelledError",
    "ConflictError",
    "CorruptStoreError",
    "DeletionHeldError",
    "DerivationError",
    "ModelMismatchError",
    "NotAvailableError",
    "NotFoundError",
    "ParseError",
    "PendingReviewError",
    "ProviderError",
    "ProviderSetupError",
    "ProviderTimeoutError",
    "RateLimitedError",
    "SchemaVersionError",
    "StoreAwayError",
    "StoreError",
    "StoreLockedError",
    "TooManyRequestsError",
    "TriptychError",
    "UnusableAnswerError",
    "ValidationError",
]


class TriptychError(Exception):
    """The root: ``except TriptychError`` catches all that Triptych raises on purpose.

    Attributes:
        hint: what to do about it on the command line, "" where the message says it all.
    """

    hint: str = ""

    def hinted(self, hint: str) -> Self:
        """Return the error itself, with this hint."""
        self.hint = hint
        return self


class ValidationError(TriptychError, ValueError):
    """An argument is invalid; nothing was read or written."""


class ParseError(ValidationError):
    """A file is malformed, encrypted or beyond a limit; nothing of it was read or written."""


class NotFoundError(TriptychError, LookupError):
    """The dataset or document that was named does not exist."""


class ConflictError(TriptychError):
    """The stored state is not the one the caller named with ``if_version``.

    ``expected`` is the version the caller named, ``actual`` the stored one (0: no document).
    """

    def __init__(
        self, message: str, *, expected: int | None = None, actual: int | None = None
    ) -> None:
        super().__init__(message)
        self.expected = expected
        self.actual = actual


class NotAvailableError(TriptychError):
    """This installation, backend or configuration is not capable of it.

    ``public`` is the message without what names places of this machine.
    """

    def __init__(self, message: str = "", *, public: str = "") -> None:
        super().__init__(message)
        self.public: str = public or message


class AuthenticationError(TriptychError):
    """There is no key, or it is not valid: unknown, damaged, expired and revoked ones alike."""


class AccessDeniedError(TriptychError):
    """The caller's access does not allow it; nothing was written."""


class PendingReviewError(TriptychError):
    """The dataset is reviewed and the caller is an agent: the write waits as a proposal.

    Nothing was written. ``proposals`` maps the names of documents to the ids of the proposals.
    """

    def __init__(self, message: str, *, proposals: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.proposals: dict[str, str] = dict(proposals or {})


class TooManyRequestsError(TriptychError):
    """The caller asks more often than the key allows; ``retry_after`` is in seconds."""

    def __init__(self, message: str, *, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ModelMismatchError(TriptychError):
    """The dataset holds vectors of ``stored``; this process embeds with ``configured``."""

    def __init__(self, message: str, *, stored: str = "", configured: str = "") -> None:
        super().__init__(message)
        self.stored = stored
        self.configured = configured


class StoreError(TriptychError):
    """The store could not do what was asked.

    ``errors`` holds every failure when several steps of one call failed, else nothing.
    """

    def __init__(self, message: str, *, errors: Sequence[Exception] = ()) -> None:
        super().__init__(message)
        self.errors: tuple[Exception, ...] = tuple(errors)


class StoreAwayError(StoreError):
    """The store's server does not answer; a write that was under way may have been committed."""


class CorruptStoreError(StoreError):
    """Stored bytes fail their check, or are not what Triptych writes."""


class StoreLockedError(StoreError):
    """Another process held the store's write lock for longer than the configured wait."""


class SchemaVersionError(StoreError):
    """The store's schema is newer than this version of Triptych, or cannot be migrated."""


class ProviderError(TriptychError):
    """A model provider answered with an error, or not at all."""


class RateLimitedError(ProviderError):
    """The provider refused for now; ``retry_after`` is in seconds, None when it did not say."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ProviderTimeoutError(ProviderError):
    """The provider did not answer in time."""


class ProviderSetupError(ProviderError):
    """The key, the model's name or the address is wrong: every call fails alike."""


class UnusableAnswerError(ProviderError):
    """A model answered, and there is nothing to use: asking the same again will not help.

    ``reason`` is "refusal", "empty" or "endless" (cut off at its ceiling), "" when not known.
    """

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class DerivationError(TriptychError):
    """Deriving failed after the source was stored.

    Of a document that could not be embedded, the new chunks are found by keyword, and by meaning
    those whose text the dataset has a vector for. One that could not be chunked is found by its old
    chunks, which say that they are stale. Layers stay as they were.

    ``document`` is the committed source (None when no single one is meant); ``partial``
    is what a generator had made before it failed.
    """

    def __init__(
        self, message: str, *, document: SourceDocument | None = None, partial: Any = None
    ) -> None:
        super().__init__(message)
        self.document = document
        self.partial = partial


class DeletionHeldError(TriptychError):
    """A sync would have deleted more than half of a folder's documents, and deleted none of them.

    ``names`` are the documents whose files are gone, of the ``documents`` that the folder has.
    """

    def __init__(self, message: str, *, names: Sequence[str] = (), documents: int = 0) -> None:
        super().__init__(message)
        self.names: tuple[str, ...] = tuple(names)
        self.documents = documents


class BudgetExceededError(TriptychError):
    """A ceiling on calls, tokens or cost was reached; what was done is kept.

    `LayerReport.require` raises it, and so does a tool of `triptych_adapters.tools` for a hit
    that does not fit into an answer.
    """


class CancelledError(TriptychError):
    """A deadline passed or the caller cancelled; what was committed stays.

    ``report`` counts what was committed, in the record that the call returns: of a bulk put, of
    embedding what is pending, of a rebuild and of building layers (a `LayerReport`). Of a knowledge
    base on a server it maps the names of these counts to them. It is None where there is none.
    """

    def __init__(self, message: str, *, report: Any = None) -> None:
        super().__init__(message)
        self.report = report
