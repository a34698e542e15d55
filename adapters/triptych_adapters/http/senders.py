"""Who sends requests: keys are checked, looked at again while an answer lasts, and have a share."""

from __future__ import annotations

import asyncio
import functools
import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

import attrs
from starlette.types import Scope

from triptych.errors import TooManyRequestsError
from triptych.service import Service
from triptych_adapters.access.authenticator import KeyAuthenticator
from triptych_adapters.http.authentication import Authenticator
from triptych_adapters.http.limits import Limits

__all__ = ["Sender", "Senders", "sender_of"]

_LOOK_AGAIN: Final = 5.0
"""Seconds after which the key of a request whose answer lasts is looked at again."""

Apart = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Calls a function in a thread."""


@attrs.define
class _Share:
    """What one key has of a server at the moment."""

    turns: dict[bool, asyncio.Semaphore]
    under_way: int = 0


class Senders:
    """The keys that have requests under way."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._shares: dict[str, _Share] = {}

    def enter(self, sender: str) -> _Share:
        """Count a request of this key.

        Raises:
            TooManyRequestsError: as many of it are under way as one key may have.
        """
        share = self._shares.get(sender)
        if share is None:
            most = self._limits.share_of(self._limits.threads)
            turns = {long: asyncio.Semaphore(most) for long in (False, True)}
            share = self._shares[sender] = _Share(turns)
        if share.under_way >= self._limits.share_of(self._limits.waiting):
            raise TooManyRequestsError(
                f"{share.under_way} requests of this key are under way: wait until some have ended",
                retry_after=1,
            )
        share.under_way += 1
        return share

    def leave(self, sender: str) -> None:
        """Count the request no more."""
        share = self._shares[sender]
        share.under_way -= 1
        if not share.under_way:
            del self._shares[sender]


class Sender:
    """Who sent one request: nobody, until `admit` has checked the key."""

    def __init__(self, senders: Senders) -> None:
        self._senders = senders
        self._share: _Share | None = None
        self._look: Callable[[], Awaitable[object]] | None = None
        self.id: str = ""
        """The digest of the key, "" for none."""
        self.renew: Callable[[], None] | None = None
        """What says, in a thread of its own, that the request is still under way."""

    async def admit(
        self, authenticate: Authenticator, authorization: str | None, apart: Apart
    ) -> Service:
        """What the sender may use, by the value of the Authorization header.

        Raises:
            TriptychError: the sender is refused, or has too many requests under way.
        """
        service: Service = await apart(functools.partial(authenticate, authorization))
        if self._share is None:
            self.id = _digest(authorization)
            self._share = self._senders.enter(self.id)
        self._look = functools.partial(
            apart, functools.partial(_again, authenticate, authorization)
        )
        return service

    def turn(self, *, long: bool = False) -> asyncio.Semaphore | None:
        """What a call of the sender waits for, so that it leaves threads to others."""
        return None if self._share is None else self._share.turns[long]

    async def answered(self, answering: Awaitable[None]) -> None:
        """Await the answer to the request; every five seconds the key is looked at again.

        Raises:
            TriptychError: the key is not valid any more. The answer was cancelled.
        """
        answer = asyncio.ensure_future(answering)
        try:
            while not (await asyncio.wait({answer}, timeout=_LOOK_AGAIN))[0]:
                if self.renew is not None:
                    await asyncio.to_thread(self.renew)
                if self._look is not None:
                    await self._look()
        finally:
            if not answer.done():
                answer.cancel()
                await asyncio.wait({answer})
            if self._share is not None:
                self._senders.leave(self.id)
        await answer


def sender_of(scope: Scope) -> Sender | None:
    """Who sent the request of this scope; None where no `Guard` is around the app."""
    found: Sender | None = scope.get("state", {}).get("sender")
    return found


def _again(authenticate: Authenticator, authorization: str | None) -> None:
    """Check a key again; how often a key may ask is not counted by that."""
    if isinstance(authenticate, KeyAuthenticator):
        authenticate.key(authorization)
        return
    with suppress(TooManyRequestsError):
        authenticate(authorization)


def _digest(authorization: str | None) -> str:
    """One digest for one key, however its header is spelt."""
    scheme, _, key = (authorization or "").strip().partition(" ")
    return hashlib.sha256(f"{scheme.lower()} {key.strip()}".encode()).hexdigest()
