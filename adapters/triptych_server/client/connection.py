"""Sending requests to a Triptych server with httpx, within the caller's deadline."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import threading
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    ExitStack,
    aclosing,
    asynccontextmanager,
    closing,
)
from typing import Any, Final

from triptych import deadlines
from triptych.answers import Answer, AnswerStream, ContextPack, ContextPrefix
from triptych.errors import (
    NotAvailableError,
    ProviderError,
    StoreAwayError,
    StoreError,
    TooManyRequestsError,
    TriptychError,
)
from triptych.records.serialization import from_dict
from triptych.service import Effect
from triptych_adapters.wire import SERVICE_PATH, ServerFacts
from triptych_models import Lazy
from triptych_providers.arguments import checked_base_url, checked_key, httpx
from triptych_providers.background_loop import BlockingIterator, run
from triptych_providers.connection import CallClock, Timeouts, retry_after_seconds
from triptych_providers.http import (
    reason_of,
    request_options,
    tls_failure,
    transport_to,
)
from triptych_server.client.requests import (
    answer_of,
    failure_of,
    lines_of,
    prepare,
    read_body,
    shown_problem,
)

_ATTEMPTS: Final = 4
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0
_LONGEST_WAIT: Final = 60.0
"""The maximum seconds of Retry-After; with a longer time the request is not repeated."""
_PATIENCE: Final = 15.0
"""Seconds to wait for the restart of a server that has responded before."""
_KEPT: Final = 8
"""The maximum number of cached prefixes of contexts, one for each request."""
_LARGEST_KEPT: Final = 1 << 22
_JSON: Final = {"accept": "application/json"}
_UNDER_WAY: Final = "IDEMPOTENCY_IN_PROGRESS"
_BUSY: Final = frozenset({429, 503})


class Connection:
    """The connections to one server. Thread-safe; a forked child opens its own connections."""

    def __init__(
        self,
        url: str,
        *,
        key: str | None,
        timeouts: Timeouts | None = None,
        ca_file: str | None = None,
    ) -> None:
        self._ca_file = ca_file
        self.url: str = checked_base_url(url)
        secret = checked_key(key, advice="the key of a server of Triptych", required=False)
        self._headers = {"authorization": f"Bearer {secret}"} if secret else {}
        self._timeouts = timeouts or Timeouts()
        self._closed = threading.Event()
        self._has_answered = False
        self._sends_keys = True
        self._kept: dict[tuple[object, ...], tuple[str, bytes]] = {}
        self._client: Lazy[httpx.AsyncClient] = Lazy(
            self._open, lambda client: run(client.aclose())
        )

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed.is_set()

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._closed.set()
        self._kept.clear()
        self._client.close()

    def call(self, operation: str, arguments: Mapping[str, Any], *, pipeline: str = "") -> Any:
        """Run an operation with arguments as plain data for JSON; return its result.

        ``pipeline`` is the name of the pipeline to use.

        A request is repeated if the server was too busy or could not be reached: up to four times,
        and for 15 seconds if the server has responded before. All attempts have the same
        idempotency key, so that the server runs the request only once. If the server's own store
        does not answer, only a read is repeated: a write may have been committed, unknown to the
        server.

        The last prefixes of contexts are cached: the server sends a prefix again only if its text
        has changed; otherwise the cached answer is returned, with its counts and warnings.

        Raises:
            TriptychError: as the operation.
            StoreError: the server does not respond.
            CancelledError: the deadline passed.
        """
        prepared = prepare(operation, arguments, pipeline)
        headers = dict(prepared.headers)
        reads = prepared.operation.effect is Effect.READS
        if not reads and self._sends_keys:
            headers["idempotency-key"] = uuid.uuid4().hex
        asked = (prepared.method, prepared.path, *sorted(prepared.query.items()))
        digest, kept = self._kept.get(asked, ("", None))
        if kept is not None:
            headers["if-none-match"] = f'W/"{digest}"'
        what = f"{operation} at {self.url}"
        clock = CallClock(what, self._timeouts.call)

        def ask() -> AbstractAsyncContextManager[httpx.Response]:
            return self._request(
                prepared.method, prepared.path, prepared.query, prepared.body, headers, clock
            )

        while True:
            try:
                sent = run(self._sent(ask, what, clock, kept, reads=reads))
                result = answer_of(operation, prepared.operation.result, sent)
                if isinstance(result, ContextPrefix) and len(sent) <= _LARGEST_KEPT:
                    self._keep(asked, result.digest, sent)
                return result
            except NotAvailableError:
                # A store without settings keeps no keys: the server did nothing.
                if headers.pop("idempotency-key", None) is None:
                    raise
                self._sends_keys = self.facts().idempotency
                if self._sends_keys:
                    raise

    def _keep(self, asked: tuple[object, ...], digest: str, body: bytes) -> None:
        # No lock, which a fork could leave taken: each step is atomic.
        self._kept[asked] = digest, body
        for oldest in list(self._kept)[:-_KEPT]:
            self._kept.pop(oldest, None)

    def get(self, path: str) -> bytes:
        """Return the JSON at ``path`` of the server."""
        what = f"{path} at {self.url}"
        clock = CallClock(what, self._timeouts.call)

        def ask() -> AbstractAsyncContextManager[httpx.Response]:
            return self._request("GET", path, {}, None, _JSON, clock)

        return run(self._sent(ask, what, clock))

    def facts(self) -> ServerFacts:
        """Return the properties of the server."""
        found: ServerFacts = answer_of(SERVICE_PATH, ServerFacts, self.get(SERVICE_PATH))
        return found

    def lines(self, path: str, body: bytes, accept: str) -> BlockingIterator[str]:
        """Yield the lines of a response as they arrive."""
        return BlockingIterator(self._lines(path, body, accept))

    async def _lines(self, path: str, body: bytes, accept: str) -> AsyncGenerator[str, None]:
        clock = CallClock(f"asking {self.url}", self._timeouts.call)
        headers = {"accept": accept, "content-type": "application/json"}
        try:
            async with self._request("POST", path, {}, body, headers, clock) as answer:
                if answer.status_code != 200:
                    text = await read_body(answer, self.url, clock)
                    raise failure_of(
                        answer.status_code, text, f"{path} at {self.url}", answer.headers
                    )
                async with aclosing(lines_of(answer, self.url, clock)) as lines:
                    async for line in lines:
                        yield line
        except _BrokenError as broken:
            raise broken.error from broken.__cause__

    async def _sent(
        self,
        ask: Callable[[], AbstractAsyncContextManager[httpx.Response]],
        what: str,
        clock: CallClock,
        kept: bytes | None = None,
        *,
        reads: bool = True,
    ) -> bytes:
        """Send the request, with retries; return the body, or ``kept`` if it is unchanged.

        There are few retries if the server never responded; otherwise it may be restarting.
        """
        pause = _FIRST_PAUSE
        until = time.monotonic() + (_PATIENCE if self._has_answered else 0)
        for attempt in itertools.count(1):
            last = attempt >= _ATTEMPTS and time.monotonic() >= until
            try:
                async with ask() as answer:
                    body = await read_body(answer, self.url, clock)
            except _BrokenError as broken:
                if last:
                    raise broken.error from broken.__cause__
                wait = pause
            else:
                if answer.is_success:
                    self._has_answered = True
                    return body
                if answer.status_code == 304 and kept is not None:
                    return kept
                failure = failure_of(answer.status_code, body, what, answer.headers)
                # What was sent before its connection broke is answered when it is done.
                under_way = shown_problem(body)[0] == _UNDER_WAY
                passes = _is_passing(answer.status_code, body, failure, reads=reads)
                if not under_way and (last or not passes):
                    raise failure
                asked = retry_after_seconds(answer.headers.get("retry-after"))
                wait = max(pause, asked or 0)
                if wait > min(clock.left, _LONGEST_WAIT):
                    raise failure
            async with clock.limit():
                await asyncio.sleep(wait)
            pause = min(2 * pause, _LONGEST_PAUSE)
        raise AssertionError("the last attempt returns or raises")

    @asynccontextmanager
    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes | None,
        headers: Mapping[str, str],
        clock: CallClock,
    ) -> AsyncIterator[httpx.Response]:
        if self.closed:
            raise StoreError(f"the connection to {self.url} is closed: open it again")
        clock.check()
        client = self._client.get()
        left = deadlines.remaining()
        waits = {} if left is None else {"prefer": f"wait={max(1, math.floor(left))}"}
        try:
            request = client.build_request(
                method,
                self.url + path,
                params=query or None,
                content=body,
                headers={**headers, **waits},
                extensions=request_options(self._timeouts),
            )
            async with clock.limit():
                answer = await client.send(request, stream=True)
            try:
                yield answer
            finally:
                await answer.aclose()
        except httpx.InvalidURL as error:
            raise StoreError(f"{self.url} cannot be asked for {path!r:.200}: {error}") from error
        except httpx.TransportError as error:
            if self.closed:
                raise StoreError(f"the connection to {self.url} was closed meanwhile") from error
            clock.check()
            if why := tls_failure(error):
                raise StoreAwayError(f"the server at {self.url} cannot be used: {why}") from error
            raise _BrokenError(_unreachable(self.url, error)) from error

    def _open(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            headers={**self._headers, "accept-encoding": "identity"},
            transport=transport_to(self.url, ca_file=self._ca_file),
            follow_redirects=False,
            trust_env=False,
        )


class _BrokenError(StoreError):
    """The connection failed or was lost."""

    def __init__(self, error: StoreError) -> None:
        super().__init__(str(error))
        self.error = error


def _unreachable(url: str, error: Exception) -> StoreAwayError:
    kind = "cannot be reached" if isinstance(error, httpx.ConnectError) else "broke off"
    reason = reason_of(error) or type(error).__name__
    return StoreAwayError(f"the server at {url} {kind} ({reason:.200})").hinted(
        "is `triptych serve` running there, and is the address right?"
    )


def _is_passing(status: int, body: bytes, failure: TriptychError, *, reads: bool) -> bool:
    """Return whether the same request may succeed later, and does nothing twice."""
    if not shown_problem(body)[0]:
        return status in _BUSY or status == 502  # a proxy, whose server starts again
    if isinstance(failure, StoreAwayError) and not reads:
        return False
    return status in _BUSY and isinstance(failure, StoreError | TooManyRequestsError)


# An answer in pieces

_ACCEPT: Final = "text/event-stream"


def open_stream(
    connection: Connection, arguments: Mapping[str, Any], pipeline: str = ""
) -> AnswerStream:
    """Start ``ask`` with these arguments; the search is complete when this returns.

    Raises:
        TriptychError: as `Service.ask_stream`.
    """
    prepared = prepare("ask", arguments, pipeline)
    assert prepared.body is not None
    with ExitStack() as stack:
        lines = connection.lines(prepared.path, prepared.body, _ACCEPT)
        events = _events(stack.enter_context(closing(lines)), connection.url)
        name, data = next(events, ("", None))
        if name != "context":
            raise _failed(name, data, connection.url)
        pack: ContextPack = from_dict(ContextPack, data)
        pieces = _pieces(events, stack.pop_all(), connection.url)
    return AnswerStream(pack, pieces)


def _pieces(
    events: Iterator[tuple[str, Any]], held: ExitStack, url: str
) -> Generator[str, None, Answer]:
    with held:
        for name, data in events:
            if name == "text":
                yield data["text"]
            elif name == "answer":
                answer: Answer = from_dict(Answer, data)
                return answer
            else:
                raise _failed(name, data, url)
    raise ProviderError(f"the response of the server at {url} ended early")


def _failed(name: str, data: Any, url: str) -> Exception:
    if name == "error":
        return failure_of(500, json.dumps(data).encode(), f"ask at {url}")
    return StoreError(
        f"the server at {url} sent the event {name!r:.40}, which is none of an answer"
    )


def _events(lines: Iterator[str], url: str) -> Iterator[tuple[str, Any]]:
    """Yield the events of a stream with name and data."""
    name = ""
    data: list[str] = []
    for line in lines:
        if not line:
            if data:
                try:
                    found = json.loads("\n".join(data))
                except (ValueError, RecursionError) as error:
                    raise StoreError(
                        f"the server at {url} sent an event that cannot be read ({error!s:.200})"
                    ) from error
                yield name, found
            name, data = "", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)
