"""The keys of a store: ``tk_<id>_<secret>``. The store keeps a record without the secret.

They are in the store's settings, so that every process sees changes at once.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, Final

import attrs

from triptych.access import Access
from triptych.contracts import SettingsStore
from triptych.errors import CorruptStoreError, NotAvailableError, NotFoundError, ValidationError
from triptych.records import DATE, check_text, check_whole
from triptych.records.serialization import from_dict, to_dict
from triptych.service import KnowledgeBase

_TOKEN: Final = re.compile(r"tk_([0-9a-f]{12})_([0-9a-f]{48})")
_ID_BYTES, _SECRET_BYTES = 6, 24  # 192 random bits: nobody guesses them, so one SHA-256 is enough
_NO_DIGEST: Final = hashlib.sha256(secrets.token_bytes(_SECRET_BYTES)).hexdigest()
_MOST_A_MINUTE: Final = 1_000_000


@attrs.frozen(slots=True)
class Token:
    """A key with its secret, as a caller has it."""

    key_id: str
    secret: str = attrs.field(repr=False)

    @property
    def text(self) -> str:
        """The key itself, for the Authorization header."""
        return f"tk_{self.key_id}_{self.secret}"

    @property
    def digest(self) -> str:
        """The SHA-256 of the secret, which is stored."""
        return hashlib.sha256(self.secret.encode("ascii")).hexdigest()


def make_token() -> Token:
    """A new key."""
    return Token(secrets.token_hex(_ID_BYTES), secrets.token_hex(_SECRET_BYTES))


def read_token(text: str) -> Token | None:
    """Parse a key; None if ``text`` is not a key."""
    found = _TOKEN.fullmatch(text)
    return None if found is None else Token(found[1], found[2])


def conditions_text(where: Any) -> str:
    """Return ``where`` as JSON, with dates as ``{"$date": "…"}``.

    Raises:
        ValidationError: it has other values than conditions allow.
    """
    try:
        return json.dumps(where, ensure_ascii=False, default=_plain)
    except (TypeError, ValueError) as error:
        raise ValidationError(f"where cannot be kept: {error}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, datetime | date):
        return {DATE: value.isoformat()}
    if isinstance(value, set | frozenset):
        return list(value)
    raise TypeError(f"{type(value).__name__} is of no kind that conditions compare with")


def _moment(given: datetime | None) -> datetime | None:
    if given is None:
        return None
    return given if given.tzinfo is not None else given.replace(tzinfo=UTC)


@attrs.frozen(kw_only=True)
class AccessKey:
    """The stored record of a key.

    Attributes:
        id: its public part.
        name: its owner or purpose.
        digest: the SHA-256 of its secret; "" after revocation.
        dataset_ids, can_write: its access; see `Access`.
        conditions: the ``where`` of its access as JSON, "" for none.
        requests_per_minute: its rate limit, also the maximum burst; None for unlimited.
        created_at: when it was created.
        expires_at: when it expires; None for never.
        revoked_at: when it was revoked; None if it was not.
        agent: whether its holder is a program whose writes wait for review; see `Access`.
    """

    id: str
    name: str = ""
    digest: str = attrs.field(default="", repr=False)
    dataset_ids: tuple[str, ...] | None = None
    can_write: bool = False
    conditions: str = ""
    requests_per_minute: int | None = None
    created_at: datetime
    expires_at: datetime | None = attrs.field(default=None, converter=_moment)
    revoked_at: datetime | None = None
    agent: bool = False

    def __attrs_post_init__(self) -> None:
        check_text(self.name, "a key's name")
        if len(self.name) > 200:
            raise ValidationError("a key's name has at most 200 characters: shorten it")
        if self.requests_per_minute is not None:
            check_whole(self.requests_per_minute, "requests_per_minute", least=1)
            if self.requests_per_minute > _MOST_A_MINUTE:
                raise ValidationError(
                    f"requests_per_minute is at most {_MOST_A_MINUTE:,}: give None for any number"
                )
        _ = self.access

    @property
    def where(self) -> Mapping[str, Any] | None:
        """The filter of the documents that the key can access."""
        if not self.conditions:
            return None
        found: Mapping[str, Any] = json.loads(self.conditions)
        return found

    @property
    def access(self) -> Access:
        """The access of the key."""
        return Access(
            dataset_ids=self.dataset_ids,
            can_write=self.can_write,
            where=self.where,
            agent=self.agent,
            caller=self.who,
        )

    @property
    def who(self) -> str:
        """Its name and its id."""
        return f"{self.name} ({self.id})".lstrip()

    def state(self, now: datetime | None = None) -> str:
        """ "valid", "expired" or "revoked"."""
        if self.revoked_at is not None:
            return "revoked"
        expired = self.expires_at is not None and self.expires_at <= (now or datetime.now(UTC))
        return "expired" if expired else "valid"


def opens(token: Token, key: AccessKey | None, now: datetime | None = None) -> bool:
    """Return whether ``key`` matches ``token`` and is valid, in constant time."""
    kept = _NO_DIGEST if key is None or not key.digest else key.digest
    same = hmac.compare_digest(token.digest, kept)
    return same and key is not None and key.state(now) == "valid"


@attrs.frozen(kw_only=True)
class NewKey:
    """A new key: ``token`` is shown once and not stored."""

    token: str = attrs.field(repr=False)
    key: AccessKey


# Kept in the settings

_PREFIX: Final = "access/key/"


class KeyStore:
    """Creates, lists and revokes keys."""

    def __init__(self, settings: SettingsStore) -> None:
        self._settings = settings

    @classmethod
    def of(cls, service: KnowledgeBase) -> KeyStore:
        """Return the keys of a Service's store.

        Raises:
            NotAvailableError: the store keeps no settings, or the Service is restricted.
        """
        settings = service.capabilities.settings
        if service.access is not None:
            raise NotAvailableError(
                "a restricted Service has no keys: use the unrestricted Service"
            )
        if settings is None:
            raise NotAvailableError(
                "this store keeps no settings, which keys need: use SQLite, files or memory"
            )
        return cls(settings)

    def add(
        self,
        name: str = "",
        *,
        dataset_ids: Iterable[str] | None = None,
        can_write: bool = False,
        where: Mapping[str, Any] | None = None,
        requests_per_minute: int | None = None,
        expires_at: datetime | None = None,
        agent: bool = False,
    ) -> NewKey:
        """Create and store a key; only this result has its text.

        The arguments are those of `AccessKey`.

        Raises:
            ValidationError: an argument is invalid, or the expiry has passed.
        """
        dataset_ids = Access(dataset_ids=dataset_ids).dataset_ids
        while True:
            token, now = make_token(), datetime.now(UTC)
            key = AccessKey(
                id=token.key_id,
                name=name,
                digest=token.digest,
                dataset_ids=dataset_ids,
                can_write=can_write,
                conditions="" if where is None else conditions_text(where),
                requests_per_minute=requests_per_minute,
                created_at=now,
                expires_at=expires_at,
                agent=agent,
            )
            if key.state(now) != "valid":
                raise ValidationError("the key would have expired already: give a later moment")
            # An id that is taken is as likely as one in 2^48.
            if self._settings.set_setting(_PREFIX + key.id, _text(key), expected=None):
                return NewKey(token=token.text, key=key)

    def get(self, key_id: str) -> AccessKey | None:
        """Return the key with this id, None if there is none.

        Raises:
            CorruptStoreError: its record cannot be read.
        """
        text = self._settings.get_setting(_PREFIX + key_id)
        return None if text is None else _key(text)

    def list(self) -> Sequence[AccessKey]:
        """Return all keys, including expired and revoked ones, in order of creation.

        Raises:
            CorruptStoreError: as `get`.
        """
        found = self._settings.list_settings(_PREFIX)
        return sorted(map(_key, found.values()), key=lambda key: (key.created_at, key.id))

    def any(self) -> bool:
        """Return whether any key exists, valid or not."""
        return bool(self._settings.list_settings(_PREFIX))

    def revoke(self, key_id: str) -> AccessKey:
        """Revoke a key at once in every process. Idempotent.

        Raises:
            NotFoundError: there is no key with this id.
        """
        while True:
            text = self._settings.get_setting(_PREFIX + key_id)
            if text is None:
                raise NotFoundError(f"there is no key {key_id!r:.60}").hinted(
                    "`triptych admin keys list` shows the ids of the keys"
                )
            key = _key(text)
            if key.revoked_at is not None:
                return key
            revoked = attrs.evolve(key, digest="", revoked_at=datetime.now(UTC))
            if self._settings.set_setting(_PREFIX + key_id, _text(revoked), expected=text):
                return revoked


def _text(key: AccessKey) -> str:
    return json.dumps(to_dict(key), ensure_ascii=False)


def _key(text: str) -> AccessKey:
    try:
        return from_dict(AccessKey, json.loads(text))
    except (ValueError, TypeError, ValidationError) as error:
        raise CorruptStoreError(f"a key of the store cannot be read: {error}") from error
