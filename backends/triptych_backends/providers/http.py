"""Requests, retries, streams, and errors by name, over httpx."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit

from triptych._internal.redaction import shown_url
from triptych.errors import (
    NotAvailableError,
    ProviderError,
    ProviderTimeoutError,
    UnusableAnswerError,
    ValidationError,
)
from triptych_backends.embedders.lazy import Lazy
from triptych_backends.providers.connection import Connection
from triptych_backends.providers.decompression import ACCEPTED, PackedAnswerError, unpacked
from triptych_backends.providers.errors import ProviderErrorRules, Refusal, Retryable, fault, shown
from triptych_backends.providers.timeouts import CallClock, retry_after_seconds

try:
    import httpx

    from triptych_backends.providers.network import BoundedTransport, bounds
except ImportError as error:
    raise NotAvailableError(
        "model providers need the package httpx, which is not installed: "
        "pip install 'triptych[http]'"
    ) from error

__all__ = ["HttpClient", "checked_base_url", "checked_key"]

T = TypeVar("T")

_MOST_OF_A_REFUSAL = 1 << 16
_LONGEST_LINE = 1 << 22


def checked_key(key: str | None, *, advice: str, required: bool) -> str:
    """``key``, "" for none.

    Raises:
        ValidationError: it is required and missing, or cannot stand in a header. The message
            does not show it.
    """
    if key is None or key == "":
        if required:
            raise ValidationError(f"there is no key: {advice}")
        return ""
    if not isinstance(key, str) or not all("!" <= c <= "~" for c in key):
        raise ValidationError(
            "the key holds a space, a line break or a character outside ASCII, which no key "
            f"does: copy it again ({advice})"
        )
    return key


def checked_base_url(base_url: str) -> str:
    """``base_url`` without a slash at its end.

    Raises:
        ValidationError: it is not an http or https URL, or carries a password, a query or a
            fragment.
    """
    try:
        parts = urlsplit(base_url)
        _ = parts.port
        known = parts.scheme in ("http", "https") and parts.hostname
        httpx.URL(base_url)
    except (ValueError, TypeError, AttributeError, httpx.InvalidURL):
        known = None
        parts = urlsplit("")
    if parts.username is not None or parts.password is not None:
        raise ValidationError(
            "base_url carries a user or a password: give the key as api_key, or a transport "
            "that adds it"
        )
    if not known or parts.query or parts.fragment:
        raise ValidationError(
            f"base_url is {shown_url(str(base_url))[:60]!r}: give a URL such as "
            "http://localhost:8000/v1, without query or fragment"
        )
    return base_url.rstrip("/")


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
        self._base_url = checked_base_url(base_url)
        self._headers = dict(headers)
        self._secrets = (key, *_passwords(connection.proxy))
        self._profile = profile
        self._connection = connection
        self._closed = threading.Event()
        self._client: Lazy[httpx.Client] = Lazy(self._open, httpx.Client.close)

    def __repr__(self) -> str:
        return f"HttpClient({self._base_url!r})"

    @property
    def profile(self) -> ProviderErrorRules:
        """Whom errors speak of."""
        return self._profile

    def close(self) -> None:
        """Close the connections; later calls raise `ProviderError`. Idempotent."""
        self._closed.set()
        self._client.close()

    def post(self, path: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON object that the provider answers.

        Raises:
            RateLimitedError, ProviderTimeoutError, ProviderError: as the fault is.
            CancelledError: the deadline around the call passed.
        """
        clock = self._clock()
        body = _encoded(payload)

        def attempt() -> bytes:
            with self._sent(path, body, clock) as response:
                return b"".join(self._chunks(response, clock))

        return self._object(self._attempts(attempt, clock))

    def lines(self, path: str, payload: Mapping[str, Any]) -> Iterator[str]:
        """The lines of a streamed answer, without their ends, as they come.

        Attempts are repeated until the answer begins, never after. Split at line feeds alone:
        JSON may hold any other line separator.
        """
        clock = self._clock()
        body = _encoded(payload)

        def attempt() -> tuple[ExitStack, httpx.Response]:
            with ExitStack() as stack:
                response = stack.enter_context(self._sent(path, body, clock))
                return stack.pop_all(), response

        held, response = self._attempts(attempt, clock)
        with held:
            try:
                yield from _split(self._chunks(response, clock), self._profile)
            except Retryable as broken:
                raise broken.error from broken.__cause__

    def failed(self, what: str) -> ProviderError:
        """An error of the provider's doing; ``what`` says which, and what to do."""
        return ProviderError(f"{self._profile.doing} {shown(what, self._secrets, most=1000)}")

    def unusable(self, what: str, reason: str) -> UnusableAnswerError:
        """Likewise, for an answer of which nothing can be used; ``reason`` as in the error."""
        return UnusableAnswerError(str(self.failed(what)), reason=reason)

    def _object(self, data: bytes) -> dict[str, Any]:
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise self.failed(
                "was answered with something that is not JSON"
                + (" but a web page" if data.lstrip()[:1] == b"<" else "")
                + ": check base_url, and what stands between you and the provider"
            ) from error
        if not isinstance(found, dict):
            raise self.failed(
                f"was answered with a JSON {type(found).__name__} where an object was expected: "
                "check base_url"
            )
        if found.get("error") and len(found) == 1:
            detail = Refusal(status=200, body=data.decode("utf-8", "replace")).detail
            raise self.failed(f"failed ({detail}): try again later")
        return found

    def _clock(self) -> CallClock:
        return CallClock(self._profile.doing, self._connection.timeouts.call)

    def _attempts(self, attempt: Callable[[], T], clock: CallClock) -> T:
        made = 0
        while True:
            made += 1
            try:
                return attempt()
            except Retryable as failed:
                pause = self._connection.retries.pause(made, failed.after)
                # Waiting for what cannot be done in time would hide why it failed.
                if pause is None or pause >= clock.left:
                    clock.check()
                    if made > 1:
                        failed.error.add_note(f"{made} attempts were made")
                    raise failed.error from failed.__cause__
            clock.sleep(pause)

    @contextmanager
    def _sent(self, path: str, body: bytes, clock: CallClock) -> Iterator[httpx.Response]:
        """An answer with status 200, its body not read yet, while a place is held for it."""
        with self._connection.gate.place(clock):
            if self._closed.is_set():
                raise ProviderError(f"the client of {self._profile.name} is closed: make a new one")
            client = self._client.get()
            if self._closed.is_set():  # while this one waited for its place
                self._client.close()
            timeout = bounds(self._connection.timeouts, clock)
            with self._mapped(clock):
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
        status = response.status_code
        if 300 <= status < 400:
            try:
                host = urlsplit(response.headers.get("location", "")).netloc.rpartition("@")[2]
            except ValueError:  # an address that is none
                host = ""
            raise self.failed(
                f"was redirected to {host or 'another path'!r} (HTTP {status}), where the key is "
                "not sent: set base_url to the right address (https, the version at its end)"
            )
        body, size = [], 0
        try:
            for chunk in self._chunks(response, clock):
                body.append(chunk)
                size += len(chunk)
                if size > _MOST_OF_A_REFUSAL:
                    break
        except ProviderError as error:
            if not isinstance(error.__cause__, PackedAnswerError):
                raise
            body = []  # the status says enough
        raise fault(
            Refusal(
                status=status,
                body=b"".join(body)[:_MOST_OF_A_REFUSAL].decode("utf-8", "replace"),
                retry_after=retry_after_seconds(response.headers.get("retry-after")),
            ),
            self._profile,
            self._secrets,
        )

    def _chunks(self, response: httpx.Response, clock: CallClock) -> Iterator[bytes]:
        most, size = self._connection.max_answer_bytes, 0
        # A transport may have read the answer already, and unpacked it.
        whole = response.is_stream_consumed
        pieces = iter((response.content,)) if whole else response.iter_raw()
        encoding = "" if whole else response.headers.get("content-encoding", "")
        with self._mapped(clock):
            for chunk in unpacked(pieces, encoding):
                clock.check()
                size += len(chunk)
                if size > most:
                    raise self.failed(
                        f"was answered with more than {most} bytes: check base_url, ask for "
                        "less at a time, or raise Connection.max_answer_bytes"
                    )
                yield chunk

    @contextmanager
    def _mapped(self, clock: CallClock) -> Iterator[None]:
        """httpx's errors, and the sockets' under them, as ours."""
        who, limits = self._profile.doing, self._connection.timeouts
        try:
            yield
        except (httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            clock.check()
            raise Retryable(
                ProviderTimeoutError(
                    f"{who} got no connection to {self._base_url} within {limits.connect:g} "
                    f"seconds: {self._profile.start_advice}"
                )
            ) from error
        except httpx.TimeoutException as error:
            clock.check()
            # Not tried again: the provider may be at work on it, and would charge for two.
            raise ProviderTimeoutError(
                f"{who} heard nothing for {limits.read:g} seconds: allow more (Timeouts.read), "
                "or ask for less at a time"
            ) from error
        except (httpx.ConnectError, ssl.SSLError) as error:
            raise Retryable(
                ProviderError(
                    f"{who} reached nothing at {self._base_url} "
                    f"({shown(str(error), self._secrets)}): {self._profile.start_advice}"
                )
            ) from error
        except PackedAnswerError as error:
            said = shown(str(error), self._secrets)
            raise ProviderError(
                f"{who} was answered with bytes that {said}: check what stands between you and "
                "the provider"
            ) from error
        except RuntimeError as error:
            if not self._closed.is_set():
                raise
            raise self.failed(
                "was cut off because its client was closed: make a new one"
            ) from error
        except httpx.TransportError as error:
            raise Retryable(
                ProviderError(
                    f"{who} broke off in the middle ({shown(str(error), self._secrets)}): try again"
                )
            ) from error

    def _open(self) -> httpx.Client:
        given = self._connection.transport
        return httpx.Client(
            base_url=self._base_url,
            headers={
                **self._headers,
                "content-type": "application/json",
                "accept-encoding": ACCEPTED,
            },
            transport=BoundedTransport(
                # Without TLS there is nothing to verify, and reading the authorities takes 20 ms.
                verify=self._base_url.startswith("https:"),
                proxy=self._connection.proxy,
            )
            if given is None
            else _Borrowed(given),
            follow_redirects=False,
            trust_env=False,
        )


def _passwords(url: str | None) -> tuple[str, ...]:
    parts = urlsplit(url or "")
    return (parts.password,) if parts.password else ()


def _encoded(payload: Mapping[str, Any]) -> bytes:
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()


def _split(chunks: Iterator[bytes], profile: ProviderErrorRules) -> Iterator[str]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.rstrip(b"\r").decode("utf-8", "replace")
        if len(rest) > _LONGEST_LINE:
            raise ProviderError(
                f"{profile.doing} streamed a line of more than {_LONGEST_LINE} bytes: check "
                "base_url"
            )
    if rest:
        yield rest.rstrip(b"\r").decode("utf-8", "replace")
