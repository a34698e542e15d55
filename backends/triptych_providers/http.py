"""HTTP requests with retries, streams and error mapping, over httpx2 or httpx."""

from __future__ import annotations

import asyncio
import codecs
import json
import logging
import os
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from triptych.errors import (
    ProviderError,
    ProviderSetupError,
    ProviderTimeoutError,
    UnusableAnswerError,
    ValidationError,
)
from triptych.resources import shown_url
from triptych_providers.arguments import (
    checked_base_url,
    checked_key,
    checked_model,
    httpx,
)
from triptych_providers.background_loop import background_loop, run
from triptych_providers.connection import (
    CallClock,
    Connection,
    Timeouts,
    retry_after_seconds,
)
from triptych_providers.errors import (
    NO_SUCH_PATH,
    ProviderErrorRules,
    Refusal,
    Retryable,
    error_in,
    fault,
    message_in,
    shown,
)
from triptych_providers.response_parsing import ACCEPTED, PackedAnswerError, Unpacker

T = TypeVar("T")
J = TypeVar("J", dict[str, Any], list[Any])

_MOST_OF_A_REFUSAL = 1 << 16
_LONGEST_LINE = 1 << 22
_OF_AUTHORITIES = re.compile(r"\.(pem|crt|cer|\d+)$", re.IGNORECASE)
_LONG = 1.0
"""Seconds from which on a pause is reported in the log."""
_KEPT = httpx.Limits(max_connections=None, max_keepalive_connections=16, keepalive_expiry=5.0)

logger = logging.getLogger("triptych.providers")


def transport_to(
    base_url: str, proxy: str | None = None, ca_file: str | None = None
) -> httpx.AsyncHTTPTransport:
    """httpx's transport, which reads nothing from the environment.

    ``ca_file`` is a file or folder of certificate authorities that are trusted, too.

    Raises:
        ValidationError: it cannot be read, or holds no certificate.
    """
    verify: ssl.SSLContext | bool = base_url.startswith("https:")
    if verify and ca_file:  # else 20 ms would go to reading the authorities
        verify = httpx.create_ssl_context(trust_env=False)
        try:
            _trust(verify, ca_file)
        except (OSError, ValueError) as error:
            raise ValidationError(
                f"the certificate authorities in {ca_file!r:.200} cannot be read ({error}): give "
                "a file in PEM, or a folder of such, by ca_file (TRIPTYCH_CA_FILE) or SSL_CERT_FILE"
            ) from error
    return httpx.AsyncHTTPTransport(
        verify=verify,
        trust_env=False,
        limits=_KEPT,
        proxy=proxy,
    )


def _trust(verify: ssl.SSLContext, ca_file: str) -> None:
    """Trust the authorities of a file, of each file of a folder, or of several (`os.pathsep`).

    Raises:
        OSError, ValueError: there are none.
    """
    ca_file = os.path.expanduser(ca_file)
    failed: Exception = ValueError("no file there ends in .pem, .crt or .cer")
    found = False
    for place in [ca_file] if os.path.exists(ca_file) else ca_file.split(os.pathsep):
        files = [place]
        if os.path.isdir(place):  # OpenSSL would find only those with its hashed names
            names = filter(_OF_AUTHORITIES.search, os.listdir(place))
            files = [os.path.join(place, name) for name in names]
        for file in files:
            try:
                verify.load_verify_locations(cafile=file)
            except (OSError, ValueError) as error:  # another file may hold one
                failed = error
            else:
                found = True
    if not found:
        raise failed


def request_options(timeouts: Timeouts) -> dict[str, Any]:
    """The extensions of a request that its call's clock may cut off at any time."""
    streams: list[Any] = []

    async def close_what_breaks(event: str, info: Mapping[str, Any]) -> None:
        # httpcore leaves the socket open when the handshake of TLS is cancelled.
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            streams.append(info["return_value"])
        elif event.endswith("start_tls.failed") and streams:
            await streams[-1].aclose()

    seconds = {"connect": timeouts.connect, "read": timeouts.read, "write": timeouts.read}
    return {"timeout": {**seconds, "pool": timeouts.call}, "trace": close_what_breaks}


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        if isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        else:
            cause = cause.__cause__ or cause.__context__


def reason_of(error: BaseException) -> str:
    """What a connection failed of, in the words of the system, which anyio hides behind its own."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLError):
            continue  # the number of OpenSSL's error is not one of the system's
        if isinstance(cause, OSError) and cause.errno and cause.errno > 0:
            return f"[Errno {cause.errno}] {os.strerror(cause.errno)}"
    return str(error)


_RENEW = "check this machine's clock, else the server needs a new certificate"
_NAME = "write the address with a name that the certificate has"
_CERTIFICATE = {9: _RENEW, 10: _RENEW, 62: _NAME, 64: _NAME}
"""What to do about a certificate of a trusted authority, by OpenSSL's X509_V_ERR_ number."""


def tls_failure(error: BaseException) -> str:
    """Why TLS failed, and what to do; "" if something else did, or the peer only went away."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            if advice := _CERTIFICATE.get(cause.verify_code):
                return f"its certificate is not valid ({cause.verify_message}): {advice}"
            return (
                f"its certificate is not trusted ({cause.verify_message}): if its authority is "
                "your own, name the file of that by ca_file (TRIPTYCH_CA_FILE) or SSL_CERT_FILE"
            )
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError):
            return (
                f"TLS failed ({cause.reason or cause}): check that the port speaks TLS, else "
                "write the address with http://"
            )
    return ""


class HttpClient:
    """POSTs JSON to one provider, over connections of the event loop that runs.

    No redirect is followed, so that the key goes nowhere else, and no environment variable is
    read: a proxy comes in with ``connection``.

    Args:
        key_header: the header that carries the key, after "Bearer " if it is "authorization".
        headers: others.

    Raises:
        ValidationError: the key is missing or invalid, or the address is invalid.
    """

    def __init__(
        self,
        *,
        base_url: str,
        api_key: str | None,
        needs_key: bool = False,
        key_header: str = "authorization",
        headers: Mapping[str, str] | None = None,
        rules: ProviderErrorRules,
        connection: Connection | None,
    ) -> None:
        key = checked_key(api_key, advice=rules.key_advice, required=needs_key)
        self.base_url: str = checked_base_url(base_url)
        self.rules = rules
        self.connection: Connection = connection or Connection()
        self.headers: dict[str, str] = {
            **(headers or {}),
            "content-type": "application/json",
            "accept-encoding": ACCEPTED,
        }
        if key:
            bearer = key_header == "authorization"
            self.headers[key_header] = f"Bearer {key}" if bearer else key
        self._secrets = (key, urlsplit(self.connection.proxy or "").password or "")
        self._closed = False
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = (
            WeakKeyDictionary()
        )

    def __repr__(self) -> str:
        return f"HttpClient({self.base_url!r})"

    def close(self) -> None:
        """Close the connections of calls that block; all later calls raise `ProviderError`."""
        self._closed = True
        loop = background_loop()
        if loop is not None and loop in self._clients:
            run(self.disconnect())

    async def aclose(self) -> None:
        """`close`, and the connections of the running event loop. Idempotent."""
        self.close()
        await self.disconnect()

    async def disconnect(self) -> None:
        """Close the connections of the running event loop; a later call opens others."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    def failed(self, what: str) -> ProviderError:
        """An error of the provider's doing; ``what`` says which, and what to do."""
        return ProviderError(f"{self.rules.doing} {shown(what, self._secrets, most=1000)}")

    def unusable(self, what: str, reason: str) -> UnusableAnswerError:
        """Likewise, for an answer of which nothing can be used; ``reason`` as in the error."""
        return UnusableAnswerError(str(self.failed(what)), reason=reason)

    def refused(self, answer: Any) -> ProviderError | None:
        """The error that ``answer`` says it is, under a status of success; None if it says none."""
        if not isinstance(answer, dict):
            return None
        if not (error := error_in(answer)):
            return None
        words = shown(message_in(error), self._secrets) or "error"
        if NO_SUCH_PATH.search(words):
            return ProviderSetupError(
                f"{self.rules.name} says: {words} (HTTP 200): {self.base_url} is not where its "
                "models are: check base_url, which often ends in /v1"
            )
        return ProviderError(
            f"{self.rules.name} says: {words} (HTTP 200): the call of its model "
            f"{self.rules.model!r} failed: try again later"
        )

    async def post(self, path: str, payload: Mapping[str, Any], *, of: type[J]) -> J:
        """The JSON object or array that the provider answers.

        Raises:
            RateLimitedError, ProviderTimeoutError, ProviderError: as the fault is.
            CancelledError: the deadline around the call passed.
        """
        clock, body = self._clock(), _body(payload)

        async def attempt() -> bytes:
            async with (
                self._sent(path, body, clock) as response,
                aclosing(self._chunks(response, clock)) as chunks,
            ):
                return b"".join([chunk async for chunk in chunks])

        found = self._json(await self._attempts(attempt, clock))
        if not isinstance(found, of):
            raise self.failed(
                f"was answered with a JSON {type(found).__name__} where "
                f"{'an object' if of is dict else 'a list'} was expected: check base_url"
            )
        return found

    async def lines(self, path: str, payload: Mapping[str, Any]) -> AsyncGenerator[str, None]:
        """The lines of a streamed answer, without their ends, as they come.

        Attempts are repeated until the answer begins, never after. Lines are split at line feeds
        only: JSON may hold any other end.
        """
        clock, body = self._clock(), _body(payload)
        async with AsyncExitStack() as held:
            response = await self._attempts(
                lambda: held.enter_async_context(self._sent(path, body, clock)), clock
            )
            rest, mark = b"", codecs.BOM_UTF8
            try:
                async with aclosing(self._chunks(response, clock)) as chunks:
                    async for chunk in chunks:
                        *whole, rest = (rest + chunk).split(b"\n")
                        for line in whole:
                            yield _text(line.removeprefix(mark))
                            mark = b""
                        if len(rest) > _LONGEST_LINE:
                            raise self.failed(
                                f"streamed a line of more than {_LONGEST_LINE} bytes: check "
                                "base_url"
                            )
                if rest:
                    yield _text(rest.removeprefix(mark))
            except Retryable as broken:
                raise broken.error from broken.__cause__

    def _clock(self) -> CallClock:
        return CallClock(self.rules.doing, self.connection.timeouts.call)

    async def _attempts(self, attempt: Callable[[], Awaitable[T]], clock: CallClock) -> T:
        made = 0
        while True:
            made += 1
            try:
                return await attempt()
            except Retryable as failed:
                pause = self.connection.retries.pause(made, failed.after)
                # Waiting for what cannot be done in time would hide why it failed.
                if pause is None or pause >= clock.left:
                    clock.check()
                    if made > 1:
                        failed.error.add_note(f"{made} attempts were made")
                    raise failed.error from failed.__cause__
                if pause >= _LONG:
                    logger.warning("trying again in %.0f seconds: %s", pause, failed.error)
            async with clock.limit():
                await asyncio.sleep(pause)

    @asynccontextmanager
    async def _sent(
        self, path: str, body: bytes, clock: CallClock
    ) -> AsyncIterator[httpx.Response]:
        """An answer with status 200, its body not read yet, while a place is held for it."""
        async with self.connection.gate.place(clock):
            if self._closed:
                raise ProviderError(f"the client of {self.rules.name} is closed: make a new one")
            client = self._client()
            with self._mapped(clock):
                request = client.build_request(
                    "POST", path, content=body, extensions=request_options(self.connection.timeouts)
                )
                async with clock.limit():
                    response = await client.send(request, stream=True)
            try:
                if response.status_code != 200:
                    await self._refuse(response, clock)
                yield response
            finally:
                await response.aclose()

    async def _refuse(self, response: httpx.Response, clock: CallClock) -> NoReturn:
        status, body = response.status_code, b""
        if 300 <= status < 400:
            raise self._redirected(response)
        try:
            async with aclosing(self._chunks(response, clock)) as chunks:
                async for chunk in chunks:
                    body += chunk
                    if len(body) > _MOST_OF_A_REFUSAL:
                        break
        except ProviderError as error:
            if not isinstance(error.__cause__, PackedAnswerError):
                raise
            body = b""  # the status says enough
        refusal = Refusal(
            status=status,
            body=body[:_MOST_OF_A_REFUSAL].decode("utf-8", "replace"),
            retry_after=retry_after_seconds(response.headers.get("retry-after")),
        )
        raise fault(refusal, self.rules, self._secrets)

    def _redirected(self, response: httpx.Response) -> ProviderError:
        try:
            host = urlsplit(response.headers.get("location", "")).netloc.rpartition("@")[2]
        except ValueError:  # an address that is none
            host = ""
        return self.failed(
            f"was redirected to {host or 'another path'!r} (HTTP {response.status_code}), where "
            "the key is not sent: set base_url to the right address (https, the version at its "
            "end)"
        )

    async def _chunks(
        self, response: httpx.Response, clock: CallClock
    ) -> AsyncGenerator[bytes, None]:
        """The body, unpacked in small pieces; refused where it is too long."""
        most, size = self.connection.max_answer_bytes, 0
        # A transport may have read the answer already, and unpacked it.
        whole = response.is_stream_consumed
        pieces = response.aiter_bytes() if whole else response.aiter_raw()
        with self._mapped(clock):
            unpacker = Unpacker("" if whole else response.headers.get("content-encoding", ""))
            piece: bytes | None = b""
            while piece is not None:
                piece = await clock.piece(pieces)
                for chunk in unpacker.end() if piece is None else unpacker.feed(piece):
                    clock.check()
                    size += len(chunk)
                    if size > most:
                        raise self.failed(
                            f"was answered with more than {most} bytes: check base_url, ask for "
                            "less at a time, or raise Connection.max_answer_bytes"
                        )
                    yield chunk

    def _json(self, data: bytes) -> Any:
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise self.failed(
                "was answered with something that is not JSON"
                + (" but a web page" if data.lstrip()[:1] == b"<" else "")
                + ": check base_url, and any proxy between you and the provider"
            ) from error
        if refused := self.refused(found):
            raise refused
        return found

    @contextmanager
    def _mapped(self, clock: CallClock) -> Iterator[None]:
        """httpx's errors, and the sockets' under them, as ours."""
        who, limits = self.rules.doing, self.connection.timeouts
        try:
            yield
        except (httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            clock.check()
            raise Retryable(
                ProviderTimeoutError(
                    f"{who} got no connection to {self.base_url} within {limits.connect:g} "
                    f"seconds: {self.rules.start_advice}"
                )
            ) from error
        except httpx.TimeoutException as error:
            clock.check()
            # Not tried again: the provider may be at work on it, and would charge for two.
            raise ProviderTimeoutError(
                f"{who} got no data for {limits.read:g} seconds: allow more (Timeouts.read), or "
                "request less at a time"
            ) from error
        except (httpx.ConnectError, ssl.SSLError) as error:
            if why := tls_failure(error):
                raise ProviderSetupError(
                    f"{who} got no connection to {self.base_url}: {shown(why, self._secrets)}"
                ) from error
            place, advice = self.base_url, self.rules.start_advice
            if self.connection.proxy:
                place = f"the proxy {shown_url(self.connection.proxy)}, on the way to {place}"
                advice = "check HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY"
            raise Retryable(
                ProviderError(
                    f"{who} reached nothing at {place} "
                    f"({shown(reason_of(error), self._secrets)}): {advice}"
                )
            ) from error
        except PackedAnswerError as error:
            said = shown(str(error), self._secrets)
            raise ProviderError(
                f"{who} was answered with bytes that {said}: check proxies between you and the "
                "provider"
            ) from error
        except RuntimeError as error:
            if not self._closed:
                raise
            raise self.failed(
                "was cut off because its client was closed: make a new one"
            ) from error
        except httpx.TransportError as error:
            said = shown(reason_of(error), self._secrets)
            raise Retryable(ProviderError(f"{who} ended early ({said}): try again")) from error

    def _client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            given = self.connection.transport
            transport = (
                given()
                if given
                else transport_to(self.base_url, self.connection.proxy, self.connection.ca_file)
            )
            if not isinstance(transport, httpx.AsyncBaseTransport):
                raise ValidationError(
                    f"Connection.transport made {type(transport)!r:.80}: requests are "
                    f"sent by {httpx.__name__} here, so make a transport of that package, "
                    f"such as {httpx.__name__}.AsyncHTTPTransport"
                )
            self._clients[loop] = httpx.AsyncClient(
                base_url=self.base_url,
                headers=self.headers,
                transport=transport,
                follow_redirects=False,
                trust_env=False,
            )
        return self._clients[loop]


def _body(payload: Mapping[str, Any]) -> bytes:
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()


def _text(line: bytes) -> str:
    return line.rstrip(b"\r").decode("utf-8", "replace")


def hosted(
    name: str,
    variable: str,
    model: str,
    base_url: str,
    api_key: str | None,
    connection: Connection | None,
    **others: Any,
) -> HttpClient:
    """The client of a provider whose accounts have keys, which users keep in ``variable``."""
    return HttpClient(
        base_url=base_url,
        api_key=api_key,
        needs_key=True,
        rules=ProviderErrorRules(
            name=name, model=checked_model(model), key_advice=f"set {variable}, or give api_key"
        ),
        connection=connection,
        **others,
    )
