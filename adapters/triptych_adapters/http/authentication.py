"""Who asks: the seam between the server and keys."""

from __future__ import annotations

from typing import Protocol

from triptych.service import Service

__all__ = ["Authenticator", "RefusedError"]


class RefusedError(Exception):
    """A request is refused for who asks.

    Attributes:
        status: 401 where no key or an invalid one was given, 403 where a key may not, 429 where
            it asks too often.
        retry_after: of 429, in seconds; None where it is not known.
    """

    def __init__(
        self, message: str, *, status: int = 401, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class Authenticator(Protocol):
    """Turns the Authorization header of a request into what its sender may use.

    It is called in a worker thread, once for each request, and may block.
    """

    def __call__(self, authorization: str | None) -> Service:
        """The Service of the sender, which does what the sender may do.

        ``authorization`` is the header's value, None where there is none.

        Raises:
            RefusedError: the sender is unknown, or asks too often.
        """
        ...
