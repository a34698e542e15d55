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
from triptych_adapters.http.limits import Limits
from triptych_adapters.keys.authenticator import Authenticator, KeyAuthenticator

_LOOK_AGAIN: Final = 5.0
"""Seconds after which the key of a request whose answer lasts is looked at again."""

Apart = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Calls a function in a thread."""


@attrs.define
class _Share:
    """What one key has of a server at the moment."""

    turns: dict[bool, asyncio.Semaphore]
    under_way: int = 0


@attrs.define
class Sender:
    """Who sent one request: nobody, until `admit` has checked the key.

    ``id`` is then the key's digest. ``renew`` is called in a thread while the answer lasts.
    """

    _limits: Limits
    _shares: dict[str, _Share]
    id: str = ""
    renew: Callable[[], None] | None = None
    _look: Callable[[], Awaitable[object]] | None = None

    async def admit(self, asks: Authenticator, header: str | None, apart: Apart) -> Service:
        """What the sender may use, by the Authorization ``header``; called once.

        Raises:
            TriptychError: the sender is refused, or has too many requests under way.
        """
        service: Service = await apart(functools.partial(asks, header))
        name = _digest(header)
        share = self._shares.get(name)
        if share is None:
            most = self._limits.share_of(self._limits.threads)
            share = _Share({long: asyncio.Semaphore(most) for long in (False, True)})
        if share.under_way >= self._limits.share_of(self._limits.waiting):
            raise TooManyRequestsError(
                f"{share.under_way} requests of this key are under way: wait until some have ended",
                retry_after=1,
            )
        share.under_way += 1
        self.id, self._shares[name] = name, share
        self._look = functools.partial(apart, functools.partial(_look_again, asks, header))
        return service

    def turn(self, *, long: bool = False) -> asyncio.Semaphore | None:
        """What a call of the sender waits for, so that it leaves threads to others."""
        share = self._shares.get(self.id)
        return None if share is None else share.turns[long]

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
            if self.id:
                self._shares[self.id].under_way -= 1
                if not self._shares[self.id].under_way:
                    del self._shares[self.id]
        await answer


def sender_of(scope: Scope) -> Sender:
    """Who sent the request of this scope, as `Guard` notes it."""
    found: Sender = scope["state"]["sender"]
    return found


def _look_again(asks: Authenticator, header: str | None) -> None:
    """Check a key again; how often a key may ask is not counted by that."""
    with suppress(TooManyRequestsError):
        (asks.key if isinstance(asks, KeyAuthenticator) else asks)(header)


def _digest(header: str | None) -> str:
    """One digest for one key, however its header is spelt."""
    scheme, _, key = (header or "").strip().partition(" ")
    return hashlib.sha256(f"{scheme.lower()} {key.strip()}".encode()).hexdigest()
