"""Sends requests to a server of Triptych, over httpx, within the caller's deadline."""

from __future__ import annotations

import math
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from triptych import deadlines
from triptych.errors import StoreError, StoreLockedError, TriptychError
from triptych_adapters.client.requests import Prepared, answer_of, failure_of, prepare
from triptych_adapters.wire.operations import Effect
from triptych_backends.embedders.lazy import Lazy
from triptych_backends.providers.exchange import checked_base_url, checked_key
from triptych_backends.providers.httpx_imports import httpx
from triptych_backends.providers.network import BoundedTransport, bounds
from triptych_backends.providers.timeouts import CallClock, Timeouts, retry_after_seconds

__all__ = ["Connection"]

_ATTEMPTS: Final = 4
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0
_BUSY: Final = frozenset({429, 503})


class Connection:
    """The way to one server. Thread-safe; a forked child opens connections of its own."""

    def __init__(self, url: str, *, key: str | None, timeouts: Timeouts | None = None) -> None:
        self.url: str = checked_base_url(url)
        secret = checked_key(key, advice="the key of a server of Triptych", required=False)
        self._headers = {"authorization": f"Bearer {secret}"} if secret else {}
        self._timeouts = timeouts or Timeouts()
        self._closed = threading.Event()
        self._client: Lazy[httpx.Client] = Lazy(self._open, httpx.Client.close)

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed.is_set()

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._closed.set()
        self._client.close()

    def call(self, operation: str, arguments: Mapping[str, Any], *, pipeline: str = "") -> Any:
        """The answer to an operation with these arguments, which are JSON's types already.

        ``pipeline`` is the name of one that it runs by.

        A request that the server was too busy for is sent again, as one is that did not reach it.
        One that may have been carried out is sent again with the same key, by which the server
        carries it out once.

        Raises:
            TriptychError: as the operation.
            StoreError: the server does not answer.
            CancelledError: the deadline passed.
        """
        prepared = prepare(operation, arguments, pipeline)
        headers = dict(prepared.headers)
        if prepared.operation.effect is not Effect.READS:
            headers["idempotency-key"] = uuid.uuid4().hex
        what = f"{operation} at {self.url}"
        return answer_of(prepared, self._sent(prepared, headers, what))

    def get(self, path: str) -> bytes:
        """The body of what is at ``path``, as JSON of the server's own."""
        clock = CallClock(f"asking {self.url}", self._timeouts.call)
        with self._request("GET", path, {}, None, {"accept": "application/json"}, clock) as answer:
            body: bytes = answer.read()
            if answer.status_code == 200:
                return body
            raise failure_of(answer.status_code, body, f"{path} at {self.url}")

    @contextmanager
    def stream(self, path: str, body: bytes, accept: str) -> Iterator[httpx.Response]:
        """An answer that is read as it comes."""
        clock = CallClock(f"asking {self.url}", self._timeouts.call)
        headers = {"accept": accept, "content-type": "application/json"}
        with self._request("POST", path, {}, body, headers, clock) as answer:
            if answer.status_code != 200:
                raise failure_of(answer.status_code, answer.read(), f"{path} at {self.url}")
            yield answer

    def _sent(self, prepared: Prepared, headers: Mapping[str, str], what: str) -> bytes:
        clock = CallClock(what, self._timeouts.call)
        pause = _FIRST_PAUSE
        for attempt in range(1, _ATTEMPTS + 1):
            last = attempt == _ATTEMPTS
            try:
                with self._request(
                    prepared.method, prepared.path, prepared.query, prepared.body, headers, clock
                ) as answer:
                    body: bytes = answer.read()
            except _BrokenError as broken:
                if last:
                    raise broken.error from broken.__cause__
                wait = pause
            else:
                if 200 <= answer.status_code < 300:
                    return body
                failure = failure_of(answer.status_code, body, what)
                asked = retry_after_seconds(answer.headers.get("retry-after"))
                if last or asked is None or not _is_passing(answer.status_code, failure):
                    raise failure
                wait = max(pause, asked)
                if wait > clock.left:
                    raise failure
            clock.sleep(wait)
            pause = min(2 * pause, _LONGEST_PAUSE)
        raise AssertionError("the last attempt returns or raises")

    @contextmanager
    def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes | None,
        headers: Mapping[str, str],
        clock: CallClock,
    ) -> Iterator[httpx.Response]:
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
                extensions={"timeout": bounds(self._timeouts, clock)},
            )
            answer = client.send(request, stream=True)
            try:
                yield answer
            finally:
                answer.close()
        except httpx.InvalidURL as error:
            raise StoreError(f"{self.url} cannot be asked for {path!r:.200}: {error}") from error
        except httpx.TransportError as error:
            if self.closed:
                raise StoreError(f"the connection to {self.url} was closed meanwhile") from error
            clock.check()
            raise _BrokenError(_unreachable(self.url, error)) from error

    def _open(self) -> httpx.Client:
        return httpx.Client(
            headers=self._headers,
            transport=BoundedTransport(verify=self.url.startswith("https:"), proxy=None),
            follow_redirects=False,
            trust_env=False,
        )


class _BrokenError(StoreError):
    """The connection broke, or there was none."""

    def __init__(self, error: StoreError) -> None:
        super().__init__(str(error))
        self.error = error


def _unreachable(url: str, error: Exception) -> StoreError:
    kind = "cannot be reached" if isinstance(error, httpx.ConnectError) else "broke off"
    reason = str(error) or type(error).__name__
    return StoreError(f"the server at {url} {kind} ({reason:.200})").hinted(
        "is `triptych serve` running there, and is the address right?"
    )


def _is_passing(status: int, failure: TriptychError) -> bool:
    """Whether the same request may succeed a little later."""
    return status in _BUSY and (status == 429 or isinstance(failure, StoreLockedError | StoreError))
