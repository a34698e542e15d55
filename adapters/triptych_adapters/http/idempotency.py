"""Idempotency-Key: a request that is sent again is answered again, and done once.

As in draft-ietf-httpapi-idempotency-key-header. Answers are kept in the store's settings, so that
every process on it has them, for `Limits.idempotency_hours`, the newest
`Limits.idempotency_keys` of them. An answer with a status from 500 up is not kept: the request may
be tried again. A request that lasts says so every few seconds. A process that was killed in one, or
stood still, leaves it open for 15 seconds; then it is done again, which changes nothing that was
done, as operations that find their result write nothing.

An answer may hold a whole document. `Service.purge` removes those that may hold what it erases; so
a request writes its answer only in the place that it made when it began, and not where a purge
removed that.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import threading
import time
import uuid
import zlib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import attrs
from starlette.requests import Request

from triptych.contracts import SettingsStore
from triptych.derivation.erasure import BODIES, PLACE, STATES
from triptych.errors import NotAvailableError, TriptychError
from triptych_adapters.http.limits import Limits
from triptych_adapters.http.problems import ProblemError

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
            raise NotAvailableError(
                "this store keeps no keys of requests: leave Idempotency-Key out"
            )
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
            if state and now - state["at"] < _lasts(limits, "status" in state):
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
                        "a request of this Idempotency-Key is under way",
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


def _lasts(limits: Limits, done: bool) -> float:
    """Seconds for which a key stands: its answer, or a request that may still be under way."""
    return limits.idempotency_hours * 3600 if done else _STANDS


def _digest(*parts: bytes) -> str:
    made = hashlib.sha256()
    for part in parts:
        made.update(b"%d:" % len(part) + part)
    return made.hexdigest()
