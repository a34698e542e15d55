"""Authentication: from a request's Authorization header to a restricted Service."""

from __future__ import annotations

import os
import struct
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

import attrs

from triptych.errors import AuthenticationError, TooManyRequestsError, ValidationError
from triptych.service import KnowledgeBase, Service
from triptych_server.keys.key_store import AccessKey, KeyStore, Token, opens, read_token

_REFUSED: Final = "give a valid key in the header Authorization: Bearer tk_…"
_LONGEST: Final = 200  # code points of a header that is looked at
_NOBODY: Final = Token("0" * 12, "0" * 48)
_MOST_SERVICES: Final = 64  # each may hold a store of the past in memory
_MOST_BUCKETS: Final = 10_000  # buckets that are kept; a key that has none begins with a full one
_STATE: Final = struct.Struct("3d")
_Allowed = tuple[tuple[str, ...] | None, bool, str, str | None]


class Authenticator(Protocol):
    """Maps the Authorization header of a request to the Service for its sender.

    It is called in a worker thread, once for each request, and again every five seconds during a
    response, which ends if it raises. It may block. `authenticator` makes one from the keys of a
    store.
    """

    def __call__(self, authorization: str | None) -> Service:
        """Return the Service for the sender, restricted to its access.

        ``authorization`` is the header's value, or None.

        Raises:
            AuthenticationError: the sender is unknown; status 401.
            AccessDeniedError: the sender is known, but has no access; status 403.
            TooManyRequestsError: the sender exceeds its rate limit; status 429.
        """
        ...


@attrs.define
class _Bucket:
    most: float
    left: float
    at: float


class RateLimiter:
    """Limits the rate of each key with a token bucket (Turner, New directions, 1986).

    Each process counts separately, unless they share a folder. Thread-safe.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, shared: Path | None = None
    ) -> None:
        """``shared`` is a folder that only this user can write (POSIX only); processes that share
        it must use the system clock."""
        self._clock = clock
        self._shared = None if shared is None else _held(shared)
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, key_id: str, requests_per_minute: int | None, requests: int = 1) -> float:
        """Take tokens; return 0.0, or the seconds until enough tokens are available."""
        if requests_per_minute is None:
            return 0.0
        most = float(requests_per_minute)
        rate = most / 60
        with self._lock, self._bucket(key_id, most) as bucket:
            now = self._clock()
            bucket.left = min(most, bucket.left + (now - bucket.at) * rate)
            bucket.at = now
            if bucket.left < requests:
                return (requests - bucket.left) / rate
            bucket.left -= requests
            return 0.0

    @contextmanager
    def _bucket(self, key_id: str, most: float) -> Iterator[_Bucket]:
        """A context with the bucket of a key, locked against other processes; initially full."""
        full = _Bucket(most, most, self._clock())
        if self._shared is None:
            bucket = self._buckets.get(key_id, full)
            bucket = self._buckets[key_id] = bucket if bucket.most == most else full
            self._buckets.move_to_end(key_id)
            while len(self._buckets) > _MOST_BUCKETS:
                self._buckets.popitem(last=False)
            yield bucket
            return
        import fcntl

        file = os.open(key_id, os.O_RDWR | os.O_CREAT, 0o600, dir_fd=self._shared)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)  # it ends with a process that is killed
            kept = os.read(file, _STATE.size)
            bucket = _Bucket(*_STATE.unpack(kept)) if kept else full
            bucket = bucket if bucket.most == most else full
            yield bucket
            os.pwrite(file, _STATE.pack(bucket.most, bucket.left, bucket.at), 0)
        finally:
            os.close(file)


def _held(folder: Path) -> int:
    """Return the descriptor of a locked folder; the lock protects it from cleaners of temporary
    files."""
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


class KeyAuthenticator:
    """Gives each sender a Service restricted to what the key allows.

    A key is looked up in the store at each request, so that revoking it in any process takes effect
    at once. All invalid keys give the same error after the same work: one read of the store and one
    digest. Nothing is recorded of invalid keys. Thread-safe.
    """

    def __init__(
        self, service: Service, keys: KeyStore, *, limiter: RateLimiter | None = None
    ) -> None:
        """``limiter`` counts requests by key; None creates one for this process."""
        self._service = service
        self._keys = keys
        self.limiter = limiter or RateLimiter()
        self._services: OrderedDict[_Allowed, Service] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, authorization: str | None) -> Service:
        """Return the Service for the key in ``authorization``, the value of the header.

        Raises:
            AuthenticationError: there is no key, or it is invalid.
            TooManyRequestsError: the key exceeds its rate limit.
        """
        key = self.key(authorization)
        self._count(key, 1)
        return self._restricted(key)

    def count_queries(self, authorization: str | None, queries: int) -> None:
        """Count each of ``queries`` in one request, after the first, as a request of the key.

        Raises:
            AuthenticationError: there is no key, or it is invalid.
            ValidationError: there are more than the key's limit.
            TooManyRequestsError: the key exceeds its rate limit.
        """
        key = self.key(authorization)
        most = key.requests_per_minute
        if most is not None and queries > most:
            raise ValidationError(
                f"{queries:,} queries count as {queries:,} requests, and this key may ask {most:,} "
                "times a minute: send fewer in one request"
            )
        self._count(key, queries - 1)

    def _count(self, key: AccessKey, requests: int) -> None:
        wait = self.limiter.take(key.id, key.requests_per_minute, requests)
        if wait:
            raise TooManyRequestsError(
                f"this key may ask {key.requests_per_minute} times a minute: try again in "
                f"{wait:.1f} seconds",
                retry_after=wait,
            )

    def key(self, authorization: str | None) -> AccessKey:
        """Return the valid key in the header.

        Raises:
            AuthenticationError: there is none.
        """
        token = _token(authorization)
        asked = token or _NOBODY
        found = self._keys.get(asked.key_id)
        if not opens(asked, found) or found is None or token is None:
            raise AuthenticationError(_REFUSED)
        return found

    def _restricted(self, key: AccessKey) -> Service:
        """Return the Service for a key; keys with the same access share it, except agents' keys."""
        same = (key.dataset_ids, key.can_write, key.conditions, key.who if key.agent else None)
        with self._lock:
            service = self._services.get(same)
            if service is None:
                service = self._services[same] = self._service.restricted(key.access)
            self._services.move_to_end(same)
            while len(self._services) > _MOST_SERVICES:
                # Not closed: another request may be using it. It ends with its last one.
                self._services.popitem(last=False)
            return service


def authenticator(service: KnowledgeBase) -> KeyAuthenticator | None:
    """Return an authenticator for the keys of the Service's store; None if no key was ever
    created."""
    if not isinstance(service, Service) or service.capabilities.settings is None:
        return None
    keys = KeyStore.of(service)
    return KeyAuthenticator(service, keys) if keys.any() else None


def key_id(authorization: str | None) -> str:
    """The id of the key in an Authorization header, valid or not; "" for no key."""
    token = _token(authorization)
    return "" if token is None else token.key_id


def _token(authorization: str | None) -> Token | None:
    """Return the key in a header ``Bearer tk_…``."""
    if authorization is None or len(authorization) > _LONGEST:
        return None
    scheme, _, text = authorization.strip().partition(" ")
    return read_token(text.strip()) if scheme.lower() == "bearer" else None
