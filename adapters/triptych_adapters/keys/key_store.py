"""The keys of a store, in its settings: every process that has it open sees them at once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import attrs

from triptych.access import Access
from triptych.contracts import SettingsStore
from triptych.errors import CorruptStoreError, NotAvailableError, NotFoundError, ValidationError
from triptych.records.serialization import from_dict, to_dict
from triptych.service import Service
from triptych_adapters.keys.access_key import AccessKey, NewKey, conditions_text, make_token

_PREFIX: Final = "access/key/"


class KeyStore:
    """Makes, lists and revokes keys."""

    def __init__(self, settings: SettingsStore) -> None:
        self._settings = settings

    @classmethod
    def of(cls, service: Service) -> KeyStore:
        """The keys of a Service's store.

        Raises:
            NotAvailableError: the store keeps no settings, or the Service is restricted.
        """
        from triptych.access.service import RestrictedService

        settings = service.capabilities.settings
        if isinstance(service, RestrictedService):
            raise NotAvailableError("a restricted Service has no keys: use the one it is made of")
        if settings is None:
            raise NotAvailableError(
                "this store keeps no settings, and so no keys: use SQLite, files or memory"
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
    ) -> NewKey:
        """Make a key and keep it; the answer has its text, which nothing shows again.

        The arguments are those of `AccessKey`.

        Raises:
            ValidationError: one of them is invalid, or the key would have expired already.
        """
        token, now = make_token(), datetime.now(UTC)
        key = AccessKey(
            id=token.key_id,
            name=name,
            digest=token.digest,
            dataset_ids=Access(dataset_ids=dataset_ids).dataset_ids,
            can_write=can_write,
            conditions="" if where is None else conditions_text(where),
            requests_per_minute=requests_per_minute,
            created_at=now,
            expires_at=expires_at,
        )
        if key.state(now) != "valid":
            raise ValidationError("the key would have expired already: give a later moment")
        # An id that is taken is as likely as one in 2^48.
        if not self._settings.set_setting(_PREFIX + key.id, _text(key), expected=None):
            return self.add(
                name,
                dataset_ids=dataset_ids,
                can_write=can_write,
                where=where,
                requests_per_minute=requests_per_minute,
                expires_at=expires_at,
            )
        return NewKey(token=token.text, key=key)

    def get(self, key_id: str) -> AccessKey | None:
        """The key of this id, None if there is none.

        Raises:
            CorruptStoreError: what is kept of it cannot be read.
        """
        text = self._settings.get_setting(_PREFIX + key_id)
        return None if text is None else _key(text)

    def list(self) -> Sequence[AccessKey]:
        """All keys, expired and revoked ones too, in the order they were made.

        Raises:
            CorruptStoreError: as `get`.
        """
        found = self._settings.list_settings(_PREFIX)
        return sorted(map(_key, found.values()), key=lambda key: (key.created_at, key.id))

    def any(self) -> bool:
        """Whether a key was ever made, be it valid or not."""
        return bool(self._settings.list_settings(_PREFIX))

    def revoke(self, key_id: str) -> AccessKey:
        """Make a key invalid, from now on and in every process. Idempotent.

        Raises:
            NotFoundError: there is no key of this id.
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
