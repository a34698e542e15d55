"""The errors of Triptych, all derived from `TriptychError`.

    TriptychError
    ├── ValidationError         an argument is invalid (also a ValueError)
    │   └── ParseError          a file cannot be parsed
    ├── NotFoundError           the named thing does not exist (also a LookupError)
    ├── ConflictError           another writer changed it first
    ├── NotAvailableError       this installation or backend does not support it
    ├── AuthenticationError     the caller has no valid key
    ├── AccessDeniedError       the caller's access does not allow it
    ├── PendingReviewError      the write waits until a person approves it
    ├── TooManyRequestsError    the caller exceeds the rate limit of its key
    ├── ModelMismatchError      the store holds vectors of another embedding model
    ├── StoreError              the store failed
    │   ├── StoreAwayError      its server cannot be reached, or the connection was lost
    │   ├── CorruptStoreError   stored data fails its check
    │   ├── StoreFullError      its disk, or the quota, is full
    │   ├── StoreLockedError    another writer held the lock longer than the timeout
    │   └── SchemaVersionError  the store was written by another version of Triptych
    ├── ProviderError           a model provider failed
    │   ├── RateLimitedError
    │   ├── ProviderTimeoutError
    │   ├── ProviderSetupError
    │   └── UnusableAnswerError
    ├── SourceError             a repository, web site or other source failed
    ├── DerivationError         the document is stored; its chunks, vectors or layers are not
    ├── DeletionHeldError       a sync would delete most documents of a folder: confirm it
    ├── BudgetExceededError     a limit on calls, tokens or cost was reached
    └── CancelledError          a deadline passed or the caller cancelled

A message names what was wrong, with which input, and what to do next. It never contains a secret.
A backend never raises its driver's errors: they are the ``__cause__``.
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
    "SourceError",
    "StoreAwayError",
    "StoreError",
    "StoreFullError",
    "StoreLockedError",
    "TooManyRequestsError",
    "TriptychError",
    "UnusableAnswerError",
    "ValidationError",
]


class TriptychError(Exception):
    """The base class of all errors that Triptych raises on purpose.

    Attributes:
        hint: what to do about it on the command line, or "".
        report: what a bulk call did before it raised this, or None: see `CancelledError` and
            `Service.put_documents`.
    """

    hint: str = ""
    report: Any = None

    def hinted(self, hint: str) -> Self:
        """Set the hint and return the error itself."""
        self.hint = hint
        return self


class ValidationError(TriptychError, ValueError):
    """An argument is invalid; nothing was read or written."""


class ParseError(ValidationError):
    """A file is malformed, encrypted or exceeds a limit; nothing of it was stored."""


class NotFoundError(TriptychError, LookupError):
    """The named dataset or document does not exist."""


class ConflictError(TriptychError):
    """The stored version is not the ``if_version`` that the caller gave.

    ``expected`` is the caller's version, ``actual`` the stored one (0: no document).
    """

    def __init__(
        self, message: str, *, expected: int | None = None, actual: int | None = None
    ) -> None:
        super().__init__(message)
        self.expected = expected
        self.actual = actual


class NotAvailableError(TriptychError):
    """This installation, backend or configuration does not support the operation.

    ``public`` is the message without paths of this machine.
    """

    def __init__(self, message: str = "", *, public: str = "") -> None:
        super().__init__(message)
        self.public: str = public or message


class AuthenticationError(TriptychError):
    """There is no key, or it is invalid: unknown, damaged, expired or revoked."""


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
    """The caller exceeds the rate limit of its key; ``retry_after`` is in seconds."""

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
    """The store failed.

    ``errors`` has every failure if several steps of one call failed, else it is empty.
    """

    def __init__(self, message: str, *, errors: Sequence[Exception] = ()) -> None:
        super().__init__(message)
        self.errors: tuple[Exception, ...] = tuple(errors)


class StoreAwayError(StoreError):
    """The store's server does not respond; a write in progress may have been committed."""


class CorruptStoreError(StoreError):
    """Stored bytes fail their checksum or have an invalid form."""


class StoreFullError(StoreError):
    """The store's disk, or its quota, is full; nothing of the write was stored."""


class StoreLockedError(StoreError):
    """Another process held the store's write lock longer than the configured timeout."""


class SchemaVersionError(StoreError):
    """The store's schema is newer than this version of Triptych, or cannot be migrated."""


class ProviderError(TriptychError):
    """A model provider returned an error, or did not respond."""


class RateLimitedError(ProviderError):
    """The provider's rate limit was reached; ``retry_after`` is in seconds, None if unknown."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ProviderTimeoutError(ProviderError):
    """The provider did not answer in time."""


class ProviderSetupError(ProviderError):
    """The key, the model's name or the address is wrong: every call fails."""


class UnusableAnswerError(ProviderError):
    """A model's response is unusable, and the same request would fail again.

    ``reason`` is "refusal", "empty", "endless" (cut off at the output limit) or "" (unknown).
    """

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class SourceError(TriptychError):
    """A source of documents failed: it is away, gone, refuses, or exceeds a limit.

    Documents that came from it stay as they are, and the next sync tries again.
    """


class DerivationError(TriptychError):
    """A document was stored, but deriving chunks, vectors or layers failed.

    If embedding failed, keyword search finds the new chunks, and vector search those whose text
    already has a vector. If chunking failed, searches find the old chunks, marked stale. Layers are
    unchanged.

    ``document`` is the stored document (None if not a single one); ``partial`` is the result that a
    generator had produced before it failed.
    """

    def __init__(
        self, message: str, *, document: SourceDocument | None = None, partial: Any = None
    ) -> None:
        super().__init__(message)
        self.document = document
        self.partial = partial


class DeletionHeldError(TriptychError):
    """A sync would have deleted more than half of a folder's documents; it deleted none.

    ``names`` are the documents whose files are gone; ``documents`` is the folder's total.
    """

    def __init__(self, message: str, *, names: Sequence[str] = (), documents: int = 0) -> None:
        super().__init__(message)
        self.names: tuple[str, ...] = tuple(names)
        self.documents = documents


class BudgetExceededError(TriptychError):
    """A limit on calls, tokens or cost was reached; completed work is kept.

    `LayerReport.require` raises it, and so does a tool of `triptych_adapters.tools` if a hit does
    not fit into an answer.
    """


class CancelledError(TriptychError):
    """A deadline passed or the caller cancelled; committed work remains.

    ``report`` is the call's report of what was committed, for `Service.put_documents`,
    `Service.embed_pending`, `Service.rebuild` and building layers (a `LayerReport`), else None.
    From a server it is a mapping of counts by name.
    """

    def __init__(self, message: str, *, report: Any = None) -> None:
        super().__init__(message)
        self.report = report
