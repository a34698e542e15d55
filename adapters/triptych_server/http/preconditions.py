"""Writes under conditions: If-Match and If-None-Match over versions, and Idempotency-Key.

Preconditions are those of RFC 9110, section 13. The ETag of a document is its version and a digest
of the answer: ``"3-9f86d081"``. The version alone, ``"3"``, stands for it. A write under If-Match
holds where the document is at the version of one of the tags. It is checked in the write itself, by
``if_version``, so that nobody comes between.

By an Idempotency-Key (draft-ietf-httpapi-idempotency-key-header) a request that is sent again is
answered again, and done once. Answers are kept in the store's settings, so that every process on it
has them, for `Limits.idempotency_hours`, the newest `Limits.idempotency_keys` of them. An answer
with a status from 500 up is not kept: the request may be tried again. A request that lasts says so
every few seconds. A process that was killed in one, or stood still, leaves it open for 15 seconds;
then it is done again, which changes nothing that was done, as operations that find their result
write nothing.

An answer may hold a whole document. `Service.purge` removes those that may hold what it erases; so
a request writes its answer only in the place that it made when it began, and not where a purge
removed that.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import re
import threading
import time
import uuid
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

import attrs
from starlette.requests import Request

from triptych.contracts import SettingsStore
from triptych.derivation import BODIES, PLACE, STATES
from triptych.errors import ConflictError, NotAvailableError, NotFoundError, TriptychError
from triptych.service import KnowledgeBase
from triptych_server.http.limits import Limits
from triptych_server.http.responses import ProblemError

T = TypeVar("T")

CONDITIONAL: Final = frozenset({"put_document", "delete_document", "restore"})
"""Operations on one document that take ``if_version``."""

_TAG: Final = re.compile(r'(W/)?"([^"]*)"')
_OWN: Final = re.compile(r"(\d{1,18})(?:-[0-9a-f]+)?")
_ATTEMPTS: Final = 5


def etag(body: bytes, version: int | None = None) -> str:
    """The ETag of an answer of these bytes, of a document with its version."""
    digest = hashlib.sha256(body).hexdigest()[:20]
    return f'"{digest}"' if version is None else f'"{version}-{digest}"'


def is_unchanged(request: Request, tag: str) -> bool:
    """Whether If-None-Match names ``tag``, or its version: the client has this answer."""
    given = request.headers.get("if-none-match", "")
    names = {tag, f'{tag.rpartition("-")[0]}"'}
    return given.strip() == "*" or any(f'"{each[1]}"' in names for each in _TAG.findall(given))


def guarded(
    request: Request, service: KnowledgeBase, arguments: dict[str, Any], run: Callable[..., T]
) -> T:
    """``run(**arguments)`` under the request's preconditions, if it has any.

    Raises:
        ProblemError: 412, they do not hold; nothing was written.
    """
    match, none = request.headers.get("if-match"), request.headers.get("if-none-match")
    if match is None and none is None:
        return run(**arguments)
    if "if_version" in arguments or (match is not None and none is not None):
        raise ProblemError(
            400, "INVALID_REQUEST", "give one of If-Match, If-None-Match and if_version"
        )
    for attempt in range(_ATTEMPTS):
        version = _wanted(service, arguments, match, none)
        try:
            return run(**arguments, if_version=version)
        except ConflictError as error:
            # Another writer came between. Only "*" holds for whatever that one wrote.
            if match is None or match.strip() != "*" or attempt == _ATTEMPTS - 1:
                raise _failed(str(error)) from None
    raise AssertionError("the last attempt returns or raises")


def _wanted(
    service: KnowledgeBase, arguments: dict[str, Any], match: str | None, none: str | None
) -> int:
    if match is None:
        if none is not None and none.strip() != "*":
            raise ProblemError(
                400,
                "INVALID_REQUEST",
                "If-None-Match of a write must be *: only if the document does not exist",
            )
        return 0
    try:
        stored = service.get_document(arguments["dataset_id"], arguments["name"]).version
    except NotFoundError as error:
        raise _failed(str(error)) from None
    if match.strip() == "*":
        return stored
    tags = [own for weak, tag in _TAG.findall(match) if not weak and (own := _OWN.fullmatch(tag))]
    if stored not in {int(own[1]) for own in tags}:
        raise _failed(f"the document is at version {stored}, which If-Match does not name")
    return stored


def _failed(message: str) -> ProblemError:
    return ProblemError(
        412, "PRECONDITION_FAILED", message, hint="get the document again, and its ETag"
    )


# Idempotency-Key

_LONGEST: Final = 255
_STANDS: Final = 15.0
"""Seconds that a request is taken to be under way, from its beginning or `OpenKey.renew`."""
_log = logging.getLogger("triptych.http")


@attrs.frozen
class KeptAnswer:
    """What a request was answered."""

    status: int
    body: bytes


@attrs.define
class OpenKey:
    """The key of a request that is being done."""

    _settings: SettingsStore
    _limits: Limits
    _id: str
    _state: str
    _place: str
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    @classmethod
    def of(
        cls,
        request: Request,
        settings: SettingsStore | None,
        limits: Limits,
        content: bytes,
        arguments: Mapping[str, Any],
    ) -> OpenKey | KeptAnswer | None:
        """Open the key of a request: None if it has none, the answer if that is known.

        ``arguments`` are those of the operation.

        Raises:
            ProblemError: the key was used for another request, is being used, or is malformed.
            NotAvailableError: the store keeps no settings.
        """
        key = request.headers.get("idempotency-key")
        if key is None:
            return None
        if not 0 < len(key) <= _LONGEST:
            raise ProblemError(
                400, "INVALID_REQUEST", f"Idempotency-Key has 1 to {_LONGEST} characters"
            )
        if settings is None:
            raise NotAvailableError("this store does not support Idempotency-Key: leave it out")
        sender = request.headers.get("authorization", "")
        name = _digest(sender.encode("latin-1"), key.encode("latin-1"))
        target = f"{request.method} {request.scope['path']}".encode()
        about = {each: arguments[each] for each in ("dataset_id", "name") if arguments.get(each)}
        return cls._opened(settings, limits, name, {**about, "of": _digest(target, content)})

    @classmethod
    def _opened(
        cls, settings: SettingsStore, limits: Limits, name: str, about: dict[str, Any]
    ) -> OpenKey | KeptAnswer:
        while True:
            now = time.time()
            opened = json.dumps({**about, "at": now})
            before = settings.get_setting(STATES + name)
            state = {} if before is None else json.loads(before)
            # A request stands as long as it may still be under way, its answer for hours.
            lasts = limits.idempotency_hours * 3600 if "status" in state else _STANDS
            if state and now - state["at"] < lasts:
                if state["of"] != about["of"]:
                    raise ProblemError(
                        422,
                        "IDEMPOTENCY_KEY_REUSED",
                        "this Idempotency-Key belongs to another request",
                    )
                if "status" not in state:
                    raise ProblemError(
                        409,
                        "IDEMPOTENCY_IN_PROGRESS",
                        "a request with this Idempotency-Key is still running",
                        headers={"Retry-After": "1"},
                    )
                kept = settings.get_setting(BODIES + name)
                if kept is not None and not kept.startswith(PLACE):
                    body = zlib.decompress(base64.b64decode(kept))
                    return KeptAnswer(state["status"], body)
            if settings.set_setting(STATES + name, opened, expected=before):
                place = PLACE + uuid.uuid4().hex
                kept = settings.get_setting(BODIES + name)
                settings.set_setting(BODIES + name, place, expected=kept)
                return cls(settings, limits, name, opened, place)

    def renew(self) -> None:
        """Say that the request is still under way."""
        with self._lock, suppress(TriptychError):
            state = json.dumps(json.loads(self._state) | {"at": time.time()})
            if self._settings.set_setting(STATES + self._id, state, expected=self._state):
                self._state = state

    def keep(self, answer: KeptAnswer) -> None:
        """Keep the answer, unless a purge or a later request has the place.

        What was done is done, and is answered, also where the answer cannot be kept: the log says
        so, and the key may be used again.
        """
        try:
            with self._lock:
                self._keep(answer)
        except TriptychError:
            _log.exception("the answer to an Idempotency-Key is not kept")
            self.drop()

    def _keep(self, answer: KeptAnswer) -> None:
        settings = self._settings
        body = base64.b64encode(zlib.compress(answer.body)).decode("ascii")
        if not settings.set_setting(BODIES + self._id, body, expected=self._place):
            return
        state = json.loads(self._state) | {"status": answer.status}
        if settings.set_setting(STATES + self._id, json.dumps(state), expected=self._state):
            self._forget()
        else:
            settings.set_setting(BODIES + self._id, None, expected=body)

    def drop(self) -> None:
        """Let the request be tried again."""
        try:
            with self._lock:
                self._settings.set_setting(STATES + self._id, None, expected=self._state)
                self._settings.set_setting(BODIES + self._id, None, expected=self._place)
        except TriptychError:
            _log.exception("an Idempotency-Key stays open for a while")

    def _forget(self) -> None:
        """Remove what is too old, and the oldest of what is too much."""
        states = {
            name: (json.loads(text)["at"], text)
            for name, text in self._settings.list_settings(STATES).items()
        }
        oldest = time.time() - self._limits.idempotency_hours * 3600
        by_age = sorted(states, key=lambda name: states[name][0])
        surplus = max(0, len(by_age) - self._limits.idempotency_keys)
        for number, name in enumerate(by_age):
            at, text = states[name]
            if number < surplus or at < oldest:
                self._settings.set_setting(name, None, expected=text)
                body = BODIES + name.removeprefix(STATES)
                self._settings.set_setting(body, None, expected=self._settings.get_setting(body))


def _digest(*parts: bytes) -> str:
    made = hashlib.sha256()
    for part in parts:
        made.update(b"%d:" % len(part) + part)
    return made.hexdigest()
