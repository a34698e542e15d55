"""Requests, retries, streams, and errors by name, over httpx: calls that block."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, NoReturn, TypeVar

from triptych.errors import ProviderError, UnusableAnswerError
from triptych_backends.embedders.lazy import Lazy
from triptych_backends.providers.async_http import AsyncHttpClient
from triptych_backends.providers.connection import Connection
from triptych_backends.providers.errors import ProviderErrorRules, Retryable
from triptych_backends.providers.exchange import (
    BodyReader,
    Exchange,
    LineSplitter,
    RefusalBody,
    checked_base_url,
    checked_key,
)
from triptych_backends.providers.httpx_imports import httpx
from triptych_backends.providers.network import BoundedTransport, bounds
from triptych_backends.providers.timeouts import CallClock

__all__ = ["HttpClient", "checked_base_url", "checked_key"]

T = TypeVar("T")


class _Borrowed(httpx.BaseTransport):
    """A transport that stays open when the client that uses it is closed."""

    def __init__(self, transport: httpx.BaseTransport) -> None:
        self._transport = transport

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._transport.handle_request(request)


class HttpClient:
    """POSTs JSON to one provider. Thread-safe; a forked child opens its own connections.

    No redirect is followed, so that the key goes nowhere else, and no environment variable is
    read: a proxy comes in as ``connection.transport``.

    Attributes:
        asynchronous: the same calls for an event loop.
    """

    def __init__(
        self,
        *,
        base_url: str,
        headers: Mapping[str, str],
        key: str,
        profile: ProviderErrorRules,
        connection: Connection,
    ) -> None:
        self._exchange = Exchange(
            base_url=base_url, headers=headers, key=key, profile=profile, connection=connection
        )
        self._client: Lazy[httpx.Client] = Lazy(self._open, httpx.Client.close)
        self.asynchronous: AsyncHttpClient = AsyncHttpClient(self._exchange)

    def __repr__(self) -> str:
        return f"HttpClient({self._exchange.base_url!r})"

    @property
    def profile(self) -> ProviderErrorRules:
        """Whom errors speak of."""
        return self._exchange.profile

    def close(self) -> None:
        """Close the connections; later calls raise `ProviderError`. Idempotent."""
        self._exchange.closed.set()
        self._client.close()

    async def aclose(self) -> None:
        """`close`, and the connections of the running event loop. Idempotent."""
        self.close()
        await self.asynchronous.aclose()

    def failed(self, what: str) -> ProviderError:
        """See `Exchange.failed`."""
        return self._exchange.failed(what)

    def refused(self, answer: Any) -> ProviderError | None:
        """See `Exchange.refused`."""
        return self._exchange.refused(answer)

    def unusable(self, what: str, reason: str) -> UnusableAnswerError:
        """See `Exchange.unusable`."""
        return self._exchange.unusable(what, reason)

    def post(self, path: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON object that the provider answers.

        Raises:
            RateLimitedError, ProviderTimeoutError, ProviderError: as the fault is.
            CancelledError: the deadline around the call passed.
        """
        return self._exchange.object_in(self._answer(path, payload))

    def post_for_list(self, path: str, payload: Mapping[str, Any]) -> list[Any]:
        """`post` to a provider that answers a JSON array."""
        return self._exchange.list_in(self._answer(path, payload))

    def lines(self, path: str, payload: Mapping[str, Any]) -> Generator[str, None, None]:
        """The lines of a streamed answer, without their ends, as they come.

        Attempts are repeated until the answer begins, never after.
        """
        clock = self._exchange.clock()
        body = self._exchange.body(payload)

        def attempt() -> tuple[ExitStack, httpx.Response]:
            with ExitStack() as stack:
                response = stack.enter_context(self._sent(path, body, clock))
                return stack.pop_all(), response

        held, response = self._attempts(attempt, clock)
        with held:
            lines = LineSplitter(self.profile)
            try:
                for chunk in self._chunks(response, clock):
                    yield from lines.feed(chunk)
                yield from lines.end()
            except Retryable as broken:
                raise broken.error from broken.__cause__

    def _answer(self, path: str, payload: Mapping[str, Any]) -> bytes:
        clock = self._exchange.clock()
        body = self._exchange.body(payload)

        def attempt() -> bytes:
            with self._sent(path, body, clock) as response:
                return b"".join(self._chunks(response, clock))

        return self._attempts(attempt, clock)

    def _attempts(self, attempt: Callable[[], T], clock: CallClock) -> T:
        made = 0
        while True:
            made += 1
            try:
                return attempt()
            except Retryable as failed:
                pause = self._exchange.pause_after(failed, made, clock)
            clock.sleep(pause)

    @contextmanager
    def _sent(self, path: str, body: bytes, clock: CallClock) -> Iterator[httpx.Response]:
        """An answer with status 200, its body not read yet, while a place is held for it."""
        exchange = self._exchange
        with exchange.connection.gate.place(clock):
            exchange.require_open()
            client = self._client.get()
            if exchange.closed.is_set():  # while this one waited for its place
                self._client.close()
            timeout = bounds(exchange.connection.timeouts, clock)
            with exchange.mapped(clock):
                request = client.build_request(
                    "POST", path, content=body, extensions={"timeout": timeout}
                )
                response = client.send(request, stream=True)
            try:
                if response.status_code != 200:
                    self._refuse(response, clock)
                yield response
            finally:
                response.close()

    def _refuse(self, response: httpx.Response, clock: CallClock) -> NoReturn:
        if redirected := self._exchange.redirected(response):
            raise redirected
        body, failed = RefusalBody(), None
        try:
            for chunk in self._chunks(response, clock):
                if not body.feed(chunk):
                    break
        except ProviderError as error:
            failed = error
        raise self._exchange.fault(response, body.whole(failed))

    def _chunks(self, response: httpx.Response, clock: CallClock) -> Iterator[bytes]:
        # A transport may have read the answer already, and unpacked it.
        whole = response.is_stream_consumed
        pieces = iter((response.content,)) if whole else response.iter_raw()
        encoding = "" if whole else response.headers.get("content-encoding", "")
        with self._exchange.mapped(clock):
            body = BodyReader(self._exchange, encoding, clock)
            for piece in pieces:
                yield from body.feed(piece)
            yield from body.end()

    def _open(self) -> httpx.Client:
        exchange = self._exchange
        given = exchange.connection.transport
        return httpx.Client(
            base_url=exchange.base_url,
            headers=exchange.headers,
            transport=BoundedTransport(verify=exchange.verifies, proxy=exchange.connection.proxy)
            if given is None
            else _Borrowed(given),
            follow_redirects=False,
            trust_env=False,
        )
