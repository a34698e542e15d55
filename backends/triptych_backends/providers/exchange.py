"""One call of a provider, without its I/O: what both kinds of clients decide alike.

`HttpClient` and `AsyncHttpClient` send and read; whether an answer is good, what a fault is called,
and whether to try again is decided here.
"""

from __future__ import annotations

import json
import logging
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from triptych._internal.redaction import shown_url
from triptych.errors import (
    ProviderError,
    ProviderTimeoutError,
    UnusableAnswerError,
    ValidationError,
)
from triptych_backends.providers.connection import Connection
from triptych_backends.providers.decompression import ACCEPTED, PackedAnswerError, Unpacker
from triptych_backends.providers.errors import (
    ProviderErrorRules,
    Refusal,
    Retryable,
    fault,
    message_in,
    shown,
)
from triptych_backends.providers.httpx_imports import httpx
from triptych_backends.providers.timeouts import CallClock, retry_after_seconds

__all__ = [
    "BodyReader",
    "Exchange",
    "LineSplitter",
    "RefusalBody",
    "checked_base_url",
    "checked_key",
]

_MOST_OF_A_REFUSAL = 1 << 16
_LONGEST_LINE = 1 << 22
_LONG = 1.0
"""Seconds from which on a pause is reported in the log."""

logger = logging.getLogger("triptych.providers")


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


class Exchange:
    """The rules of the calls of one provider: secrets, errors, limits and retries."""

    def __init__(
        self,
        *,
        base_url: str,
        headers: Mapping[str, str],
        key: str,
        profile: ProviderErrorRules,
        connection: Connection,
    ) -> None:
        self.base_url: str = checked_base_url(base_url)
        self.headers: dict[str, str] = {
            **headers,
            "content-type": "application/json",
            "accept-encoding": ACCEPTED,
        }
        self.profile = profile
        self.connection = connection
        self.closed: threading.Event = threading.Event()
        self._secrets = (key, *_passwords(connection.proxy))

    @property
    def verifies(self) -> bool:
        """Whether there is TLS to verify: reading the authorities takes 20 ms."""
        return self.base_url.startswith("https:")

    def clock(self) -> CallClock:
        """A new call's."""
        return CallClock(self.profile.doing, self.connection.timeouts.call)

    def body(self, payload: Mapping[str, Any]) -> bytes:
        """The body of a request."""
        return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()

    def failed(self, what: str) -> ProviderError:
        """An error of the provider's doing; ``what`` says which, and what to do."""
        return ProviderError(f"{self.profile.doing} {shown(what, self._secrets, most=1000)}")

    def unusable(self, what: str, reason: str) -> UnusableAnswerError:
        """Likewise, for an answer of which nothing can be used; ``reason`` as in the error."""
        return UnusableAnswerError(str(self.failed(what)), reason=reason)

    def refused(self, answer: Any) -> ProviderError | None:
        """The error that ``answer`` says it is, under a status of success; None if it says none."""
        if not isinstance(answer, dict) or not answer.get("error"):
            return None
        words = shown(message_in(answer["error"]), self._secrets) or "error"
        return ProviderError(
            f"{self.profile.name} says: {words} (HTTP 200): the call of its model "
            f"{self.profile.model!r} failed: try again later"
        )

    def require_open(self) -> None:
        """Raise `ProviderError` once the client is closed."""
        if self.closed.is_set():
            raise ProviderError(f"the client of {self.profile.name} is closed: make a new one")

    def object_in(self, data: bytes) -> dict[str, Any]:
        """The JSON object in a whole answer."""
        found = self._json(data)
        if not isinstance(found, dict):
            raise self._other_than("an object", found)
        return found

    def list_in(self, data: bytes) -> list[Any]:
        """The JSON array in a whole answer."""
        found = self._json(data)
        if not isinstance(found, list):
            raise self._other_than("a list", found)
        return found

    def _other_than(self, expected: str, found: Any) -> ProviderError:
        return self.failed(
            f"was answered with a JSON {type(found).__name__} where {expected} was expected: "
            "check base_url"
        )

    def _json(self, data: bytes) -> Any:
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise self.failed(
                "was answered with something that is not JSON"
                + (" but a web page" if data.lstrip()[:1] == b"<" else "")
                + ": check base_url, and what stands between you and the provider"
            ) from error
        if refused := self.refused(found):
            raise refused
        return found

    def pause_after(self, failed: Retryable, made: int, clock: CallClock) -> float:
        """Seconds until the next attempt, after ``made`` that failed.

        Raises:
            ProviderError: the fault itself, where no other attempt may follow.
            CancelledError: the deadline around the call passed.
        """
        pause = self.connection.retries.pause(made, failed.after)
        # Waiting for what cannot be done in time would hide why it failed.
        if pause is None or pause >= clock.left:
            clock.check()
            if made > 1:
                failed.error.add_note(f"{made} attempts were made")
            raise failed.error from failed.__cause__
        if pause >= _LONG:
            logger.warning("trying again in %.0f seconds: %s", pause, failed.error)
        return pause

    def redirected(self, response: httpx.Response) -> ProviderError | None:
        """The error of an answer that leads elsewhere; None for any other answer."""
        status = response.status_code
        if not 300 <= status < 400:
            return None
        try:
            host = urlsplit(response.headers.get("location", "")).netloc.rpartition("@")[2]
        except ValueError:  # an address that is none
            host = ""
        return self.failed(
            f"was redirected to {host or 'another path'!r} (HTTP {status}), where the key is "
            "not sent: set base_url to the right address (https, the version at its end)"
        )

    def fault(self, response: httpx.Response, body: bytes) -> Exception:
        """The error of an answer whose status is not 200."""
        return fault(
            Refusal(
                status=response.status_code,
                body=body.decode("utf-8", "replace"),
                retry_after=retry_after_seconds(response.headers.get("retry-after")),
            ),
            self.profile,
            self._secrets,
        )

    @contextmanager
    def mapped(self, clock: CallClock) -> Iterator[None]:
        """httpx's errors, and the sockets' under them, as ours."""
        who, limits = self.profile.doing, self.connection.timeouts
        try:
            yield
        except (httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            clock.check()
            raise Retryable(
                ProviderTimeoutError(
                    f"{who} got no connection to {self.base_url} within {limits.connect:g} "
                    f"seconds: {self.profile.start_advice}"
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
                    f"{who} reached nothing at {self.base_url} "
                    f"({shown(str(error), self._secrets)}): {self.profile.start_advice}"
                )
            ) from error
        except PackedAnswerError as error:
            said = shown(str(error), self._secrets)
            raise ProviderError(
                f"{who} was answered with bytes that {said}: check what stands between you and "
                "the provider"
            ) from error
        except RuntimeError as error:
            if not self.closed.is_set():
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


class BodyReader:
    """Unpacks the body of one answer, and refuses one that is too long."""

    def __init__(self, exchange: Exchange, encoding: str, clock: CallClock) -> None:
        self._exchange = exchange
        self._unpacker = Unpacker(encoding)
        self._clock = clock
        self._size = 0

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """What ``piece`` unpacks to."""
        yield from self._limited(self._unpacker.feed(piece))

    def end(self) -> Iterator[bytes]:
        """What the last pieces left."""
        yield from self._limited(self._unpacker.end())

    def _limited(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        most = self._exchange.connection.max_answer_bytes
        for chunk in chunks:
            self._clock.check()
            self._size += len(chunk)
            if self._size > most:
                raise self._exchange.failed(
                    f"was answered with more than {most} bytes: check base_url, ask for "
                    "less at a time, or raise Connection.max_answer_bytes"
                )
            yield chunk


class RefusalBody:
    """The beginning of the body of an answer whose status is not 200."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> bool:
        """Take ``chunk``; whether more is wanted."""
        self._parts.append(chunk)
        self._size += len(chunk)
        return self._size <= _MOST_OF_A_REFUSAL

    def whole(self, error: ProviderError | None = None) -> bytes:
        """What came; nothing where it could not be unpacked, for the status says enough.

        Raises:
            ProviderError: ``error``, of any other kind.
        """
        if error is None:
            return b"".join(self._parts)[:_MOST_OF_A_REFUSAL]
        if not isinstance(error.__cause__, PackedAnswerError):
            raise error
        return b""


class LineSplitter:
    """Lines of a body, without their ends. Split at line feeds alone: JSON may hold any other."""

    def __init__(self, profile: ProviderErrorRules) -> None:
        self._profile = profile
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[str]:
        """The lines that end in ``chunk``."""
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        for line in whole:
            yield _line(line)
        if len(self._rest) > _LONGEST_LINE:
            raise ProviderError(
                f"{self._profile.doing} streamed a line of more than {_LONGEST_LINE} bytes: "
                "check base_url"
            )

    def end(self) -> Iterator[str]:
        """The last line, which nothing ended."""
        if self._rest:
            yield _line(self._rest)


def _line(data: bytes) -> str:
    return data.rstrip(b"\r").decode("utf-8", "replace")


def _passwords(url: str | None) -> tuple[str, ...]:
    parts = urlsplit(url or "")
    return (parts.password,) if parts.password else ()
