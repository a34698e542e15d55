"""What the routes of one app share: who sends requests, and threads that answer under a deadline.

Keys are checked, looked at again while an answer lasts, and have a share of the threads.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import hashlib
import ipaddress
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from triptych import ProgressCallback
from triptych.contracts.rules import dataset_in_use
from triptych.deadlines import CancelScope, deadline
from triptych.errors import AccessDeniedError, AuthenticationError, TooManyRequestsError
from triptych.service import Effect, KnowledgeBase, Service
from triptych.sync import RememberedRoot, SyncReport
from triptych_server.http.limits import Limits
from triptych_server.http.responses import ProblemError, encoded, json_response
from triptych_server.http.threads import Threads
from triptych_server.keys.authenticator import Authenticator, KeyAuthenticator, key_id
from triptych_sources import RememberedSource

_LOOK_AGAIN: Final = 5.0
"""Seconds after which the key of a request whose answer lasts is looked at again."""

_WATCH: Final = 0.05
"""Seconds after which it is watched whether the client of a call goes away."""

_WAIT: Final = re.compile(r"\bwait\s*=\s*\"?(\d{1,6})\b", re.IGNORECASE)

SyncFolders = Callable[[KnowledgeBase, ProgressCallback | None], SyncReport]
AddFolder = Callable[[KnowledgeBase, Path, str, ProgressCallback | None], SyncReport]

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

    ``id`` is then the key's digest, and ``key`` the id of its key, also of one that is refused.
    ``renew`` is called in a thread while the answer lasts.
    """

    _limits: Limits
    _shares: dict[str, _Share]
    id: str = ""
    key: str = ""
    renew: Callable[[], None] | None = None
    _look: Callable[[], Awaitable[object]] | None = None

    async def admit(
        self, asks: Authenticator, header: str | None, apart: Apart, seconds: float
    ) -> KnowledgeBase:
        """What the sender may use, by the Authorization ``header``; called once.

        Each check of the key may take ``seconds``.

        Raises:
            TriptychError: the sender is refused, or has too many requests under way.
        """

        def check(look: Callable[[], T]) -> Awaitable[T]:
            return apart(functools.partial(_within, seconds, look))

        self.key = key_id(header)
        service = await check(functools.partial(asks, header))
        name = _digest(header)
        share = self._shares.get(name)
        if share is None:
            most = self._limits.share_of(self._limits.threads)
            share = _Share({long: asyncio.Semaphore(most) for long in (False, True)})
        if share.under_way >= self._limits.share_of(self._limits.waiting):
            raise TooManyRequestsError(
                f"{share.under_way} requests with this key are running: wait until some have ended",
                retry_after=1,
            )
        share.under_way += 1
        self.id, self._shares[name] = name, share
        self._look = functools.partial(check, functools.partial(_look_again, asks, header))
        return service

    def turn(self, *, long: bool = False) -> asyncio.Semaphore | nullcontext[None]:
        """What a call of the sender waits for, so that it leaves threads to others."""
        share = self._shares.get(self.id)
        return nullcontext() if share is None else share.turns[long]

    async def answered(self, answering: Awaitable[None]) -> None:
        """Await the answer to the request; every five seconds the key is looked at again.

        Raises:
            TriptychError: the key is not valid any more. The answer was cancelled.
        """
        task = asyncio.current_task()
        assert task is not None
        looks: list[asyncio.Task[None]] = []
        loop = asyncio.get_running_loop()
        # Most answers are there before: no task is begun for them.
        later = loop.call_later(
            _LOOK_AGAIN, lambda: looks.append(loop.create_task(self._look_on(task)))
        )
        try:
            await answering
        except asyncio.CancelledError:
            if not looks or not looks[0].done():
                raise
            task.uncancel()
            looks[0].result()
        finally:
            later.cancel()
            for each in looks:
                each.cancel()
            if self.id:
                self._shares[self.id].under_way -= 1
                if not self._shares[self.id].under_way:
                    del self._shares[self.id]

    async def _look_on(self, answer: asyncio.Task[Any]) -> None:
        """Look at the key every five seconds, and cancel the answer when it is not valid."""
        try:
            while True:
                if self.renew is not None:
                    await asyncio.to_thread(self.renew)
                if self._look is not None:
                    await self._look()
                await asyncio.sleep(_LOOK_AGAIN)
        except Exception:
            answer.cancel()
            raise


def sender_of(scope: Scope) -> Sender:
    """Who sent the request of this scope, as `Guard` notes it."""
    found: Sender = scope["state"]["sender"]
    return found


def is_loopback(request: Request) -> bool:
    """Whether a request comes from this machine."""
    try:
        return request.client is not None and ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False


def _look_again(asks: Authenticator, header: str | None) -> None:
    """Check a key again; how often a key may ask is not counted by that."""
    with suppress(TooManyRequestsError):
        (asks.key if isinstance(asks, KeyAuthenticator) else asks)(header)


def _digest(header: str | None) -> str:
    """One digest for one key, however its header is spelt."""
    scheme, _, key = (header or "").strip().partition(" ")
    return hashlib.sha256(f"{scheme.lower()} {key.strip()}".encode()).hexdigest()


# Calls

T = TypeVar("T")


class ClientGoneError(Exception):
    """Whoever asked has closed the connection; there is nobody to answer."""


class Calls:
    """The threads of a server.

    What takes long by its nature, because it asks a model or rebuilds, has threads of its own:
    searches do not wait for it. So have checks of keys and of health, which wait for no operation.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._long = Threads(limits.threads, "triptych-http-long")
        self._apart = Threads(limits.threads, "triptych-http-apart", short=True)
        # A stream has a thread whenever it wants one: between two pieces it keeps its place at the
        # model, for which calls of others wait that may have taken every thread.
        self._streamed = Threads(limits.threads, "triptych-http-streamed")
        beside = (self._long, self._streamed)
        self._quick = Threads(limits.threads, "triptych-http", short=True, beside=beside)
        self._streams = asyncio.Semaphore(limits.threads)
        self._under_way = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count a request for the block, from before its key is checked and its body is read.

        Raises:
            ProblemError: 503, as too many are under way.
        """
        if self._under_way >= self._limits.waiting:
            raise ProblemError(
                503,
                "OVERLOADED",
                f"{self._under_way} requests are under way",
                headers={"Retry-After": "1"},
            )
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1

    async def apart(self, function: Callable[[], T]) -> T:
        """Call ``function``, which is no operation, in a thread that no operation takes."""
        return await self._apart.call(functools.partial(contextvars.Context().run, function))

    @asynccontextmanager
    async def caller(
        self, request: Request, *, long: bool = False, streams: bool = False
    ) -> AsyncIterator[Caller]:
        """What runs the calls of one request; ``streams`` where they read a model's answer."""
        await request.body()  # what comes after it is that the client goes away
        turn = sender_of(request.scope).turn(long=long)
        with deadline(_wanted_seconds(request, self._limits)) as scope:
            if streams:  # it has its turn until its end
                async with (
                    turn,
                    self._streams,
                    Caller(self._streamed, request, scope, nullcontext()) as caller,
                ):
                    yield caller
                return
            threads = self._long if long else self._quick
            async with Caller(threads, request, scope, turn) as caller:
                yield caller

    def close(self) -> None:
        """End the threads, once their calls have ended."""
        for threads in (self._quick, self._long, self._apart, self._streamed):
            threads.close()


@attrs.define(eq=False, slots=False)
class Caller:
    """The calls of one request, one after another; ``turn`` is what each of them waits for."""

    _threads: Threads
    _request: Request
    _scope: CancelScope
    _turn: asyncio.Semaphore | nullcontext[None]
    _is_gone: bool = attrs.field(default=False, init=False)
    _gone: asyncio.Task[None] | None = attrs.field(default=None, init=False)
    _later: asyncio.TimerHandle | None = attrs.field(default=None, init=False)

    async def run(self, function: Callable[[], T], *, name: Hashable = None) -> T:
        """Call ``function`` in a thread; with a ``name`` perhaps here, as `Threads.call` has it.

        When the client goes away, or the task is cancelled, the call ends at its next check of
        the deadline; what it committed is whole.

        Raises:
            ClientGoneError: the client went away.
        """
        async with self._turn:
            try:
                answer = await self._threads.call(
                    function, lasts=self._watch_later, abandoned=self._scope.cancel, name=name
                )
            except Exception:
                if not self._is_gone:
                    raise
            else:
                if not self._is_gone:
                    return answer
            raise ClientGoneError

    def _watch_later(self) -> None:
        # Most calls have ended before: no task is begun for them.
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(_WATCH, self._watched)

    def _watched(self) -> asyncio.Task[None]:
        """The task that ends when the client goes away; it cancels the call."""
        if self._gone is None:
            # In a context of its own: a server that goes on reading from the connection here, after
            # the body, does so for all later requests, and they would inherit this one's deadline.
            loop, empty = asyncio.get_running_loop(), contextvars.Context()
            self._gone = loop.create_task(_disconnected(self._request), context=empty)
            self._gone.add_done_callback(self._left)
        return self._gone

    def _left(self, gone: asyncio.Task[None]) -> None:
        if not gone.cancelled():
            self._is_gone = True
            self._scope.cancel()

    @property
    def remaining(self) -> float:
        """Seconds that the request has left."""
        return self._scope.remaining

    @property
    def stops(self) -> bool:
        """Whether the server stops, and waits for this answer."""
        return "stops" in self._request.scope["state"]

    async def pause(self, seconds: float) -> None:
        """Wait.

        Raises:
            ClientGoneError: the client went away.
        """
        done, _ = await asyncio.wait({self._watched()}, timeout=seconds)
        if done:
            raise ClientGoneError

    async def apart(self, function: Callable[[], T]) -> T:
        """Call ``function`` in a thread, whether the client is there or not, and without limit."""
        return await self._threads.call(functools.partial(contextvars.Context().run, function))

    async def __aenter__(self) -> Caller:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Stop waiting for the client to go away."""
        if self._later is not None:
            self._later.cancel()
        if self._gone is not None:
            self._gone.cancel()
            with suppress(asyncio.CancelledError):
                await self._gone


def _wanted_seconds(request: Request, limits: Limits) -> float:
    """How long the request may take: the server's limit, or less where ``Prefer: wait=`` asks."""
    found = _WAIT.search(request.headers.get("prefer", ""))
    return min(limits.seconds, float(found[1])) if found else limits.seconds


def _within(seconds: float, function: Callable[[], T]) -> T:
    with deadline(seconds):
        return function()


async def _disconnected(request: Request) -> None:
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            return


@attrs.frozen(kw_only=True)
class Server:
    """A Service, who may use it, and how much at a time.

    ``dataset`` is what the routes serve that name none, None for the one in use; ``sync`` syncs
    the remembered folders and sources into ``service``, ``roots`` lists them, and ``add_folder``
    adds and syncs a folder of this machine: None where there are none.
    """

    service: KnowledgeBase
    authenticate: Authenticator | None
    write: bool
    limits: Limits
    calls: Calls
    dataset: str | None = None
    sync: SyncFolders | None = None
    roots: Callable[[KnowledgeBase], Sequence[RememberedRoot | RememberedSource]] | None = None
    add_folder: AddFolder | None = None
    folder_code: str = attrs.field(default="", repr=False)

    async def dataset_of(self, service: KnowledgeBase) -> str:
        """The dataset that a request means which names none: `dataset`, ``default``, or the only
        one.

        Raises:
            ValidationError: there are several.
        """
        if self.dataset is not None:
            return self.dataset
        return await self.calls.apart(lambda: dataset_in_use(service.list_datasets()))

    async def service_of(self, request: Request, *, named: bool = False) -> KnowledgeBase:
        """What the sender of a request may use.

        ``named`` refuses a request without an Authorization header also where no key is checked.

        Raises:
            TriptychError: the sender is refused.
        """
        header = request.headers.get("authorization")
        if named and not (header or "").strip():
            raise AuthenticationError("this route needs an Authorization header")
        if self.authenticate is None:
            return self.service
        seconds = _wanted_seconds(request, self.limits)
        return await sender_of(request.scope).admit(
            self.authenticate, header, self.calls.apart, seconds
        )

    async def answer(
        self, request: Request, call: Callable[[], Any], *, long: bool = False, status: int = 200
    ) -> Response:
        """Call a function in a thread, and answer with the JSON of what it returns."""
        async with self.calls.caller(request, long=long) as caller:
            return json_response(await caller.run(lambda: encoded(call())), status=status)

    def check_effect(self, effect: Effect) -> None:
        """Refuse what writes where only reading is served.

        Raises:
            ProblemError: 403.
        """
        if effect is not Effect.READS and not self.write:
            raise ProblemError(
                403,
                "READ_ONLY",
                "this server is read-only",
                hint="start it with `triptych serve --write`, or create_app(…, write=True)",
            )

    def check_sees_all(self, service: KnowledgeBase, what: str) -> None:
        """Refuse a sender whose Service is not over everything that is stored, and an agent.

        Raises:
            AccessDeniedError: it is not; ``what`` begins the message, such as "metrics are".
        """
        if service is self.service:
            return
        access = service.access
        sees_all = access is not None and access.dataset_ids is None and access.tree is None
        whole = isinstance(service, Service) and service.base is self.service
        if access is not None and sees_all and whole and not access.agent:
            return
        raise AccessDeniedError(f"{what} for keys to everything, and for no agent")
