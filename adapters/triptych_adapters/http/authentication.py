"""Who asks: the seam between a server and keys."""

from __future__ import annotations

from typing import Protocol

from triptych.service import Service

__all__ = ["Authenticator"]


class Authenticator(Protocol):
    """Turns the Authorization header of a request into what its sender may use.

    It is called in a worker thread, once for each request, and again every five seconds while the
    answer lasts, which ends when it raises. It may block.
    `triptych_adapters.keys.authenticator` makes one of the keys of a store.
    """

    def __call__(self, authorization: str | None) -> Service:
        """The Service of the sender, which does what the sender may do.

        ``authorization`` is the header's value, None where there is none.

        Raises:
            AuthenticationError: the sender is unknown; answered with 401.
            AccessDeniedError: the sender is known, and not allowed to ask; 403.
            TooManyRequestsError: the sender asks too often; 429.
        """
        ...
