"""What the routes of one app share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
from starlette.requests import Request
from starlette.responses import Response

from triptych.access.service import RestrictedService
from triptych.errors import AccessDeniedError, AuthenticationError
from triptych.service import Service
from triptych.service.operations import Effect
from triptych_adapters.http.calls import Calls
from triptych_adapters.http.limits import Limits
from triptych_adapters.http.problems import ProblemError
from triptych_adapters.http.senders import sender_of
from triptych_adapters.keys.authenticator import Authenticator

Handler = Callable[[Request], Awaitable[Response]]


@attrs.frozen(kw_only=True)
class Server:
    """A Service, who may use it, and how much at a time.

    ``dataset`` is what the routes serve that name none; ``sync`` syncs the remembered folders into
    ``service``, None where there are none.
    """

    service: Service
    authenticate: Authenticator | None
    write: bool
    limits: Limits
    calls: Calls
    dataset: str = "default"
    sync: Callable[[Service], Any] | None = None

    async def service_of(self, request: Request, *, named: bool = False) -> Service:
        """What the sender of a request may use.

        ``named`` refuses a request without an Authorization header also where no key is checked.

        Raises:
            TriptychError: the sender is refused.
        """
        if named and not request.headers.get("authorization", "").strip():
            raise AuthenticationError("this route needs an Authorization header")
        authenticate = self.authenticate
        if authenticate is None:
            return self.service
        header = request.headers.get("authorization")
        return await sender_of(request.scope).admit(authenticate, header, self.calls.apart)

    def check_effect(self, effect: Effect) -> None:
        """Refuse what writes where only reading is served.

        Raises:
            ProblemError: 403.
        """
        if effect is not Effect.READS and not self.write:
            raise ProblemError(
                403,
                "READ_ONLY",
                "this server serves reading only",
                hint="start it with `triptych serve --write`, or create_app(…, write=True)",
            )

    def check_sees_all(self, service: Service, what: str) -> None:
        """Refuse a sender whose Service is not over everything that is stored.

        Raises:
            AccessDeniedError: it is not; ``what`` begins the message, such as "metrics are".
        """
        if service is self.service:
            return
        if isinstance(service, RestrictedService) and service.base is self.service:
            access = service.access
            if access.dataset_ids is None and access.tree is None:
                return
        raise AccessDeniedError(f"{what} for keys to everything")
