"""A key: ``tk_<id>_<secret>``, and what is kept of it, which is never the secret."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any, Final

import attrs

from triptych.access import Access
from triptych.errors import ValidationError
from triptych.records import check_text, check_whole
from triptych.records.metadata import DATE

_TOKEN: Final = re.compile(r"tk_([0-9a-f]{12})_([0-9a-f]{48})")
_ID_BYTES, _SECRET_BYTES = 6, 24  # 192 random bits: nobody guesses them, so one SHA-256 is enough
_NO_DIGEST: Final = hashlib.sha256(secrets.token_bytes(_SECRET_BYTES)).hexdigest()
_MOST_A_MINUTE: Final = 1_000_000


@attrs.frozen(slots=True)
class Token:
    """A key as a caller has it."""

    key_id: str
    secret: str = attrs.field(repr=False)

    @property
    def text(self) -> str:
        """The key itself, for the Authorization header."""
        return f"tk_{self.key_id}_{self.secret}"

    @property
    def digest(self) -> str:
        """What is kept of the secret: its SHA-256."""
        return hashlib.sha256(self.secret.encode("ascii")).hexdigest()


def make_token() -> Token:
    """A new key."""
    return Token(secrets.token_hex(_ID_BYTES), secrets.token_hex(_SECRET_BYTES))


def read_token(text: str) -> Token | None:
    """The key that ``text`` is, None if it is none."""
    found = _TOKEN.fullmatch(text)
    return None if found is None else Token(found[1], found[2])


def conditions_text(where: Any) -> str:
    """``where`` as JSON, with days and moments as ``{"$date": "…"}``.

    Raises:
        ValidationError: it holds something else than conditions do.
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
    """What is kept of a key.

    Attributes:
        id: its public part.
        name: whose it is, or what for, in words.
        digest: the SHA-256 of its secret; "" once it is revoked.
        dataset_ids, can_write: what it gives access to; see `Access`.
        conditions: the ``where`` of that access as JSON, "" for none.
        requests_per_minute: how often it may ask; None for any number. As many may come at once.
        created_at: when it was made.
        expires_at: from when on it is not valid; None for never.
        revoked_at: since when it is revoked; None if it is not.
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

    def __attrs_post_init__(self) -> None:
        check_text(self.name, "a key's name")
        if len(self.name) > 200:
            raise ValidationError("a key's name has at most 200 characters: say less")
        if self.requests_per_minute is not None:
            check_whole(self.requests_per_minute, "requests_per_minute", least=1)
            if self.requests_per_minute > _MOST_A_MINUTE:
                raise ValidationError(
                    f"requests_per_minute is at most {_MOST_A_MINUTE:,}: give None for any number"
                )
        _ = self.access

    @property
    def where(self) -> Mapping[str, Any] | None:
        """The filter that every document passes which it gives access to."""
        if not self.conditions:
            return None
        found: Mapping[str, Any] = json.loads(self.conditions)
        return found

    @property
    def access(self) -> Access:
        """What it gives access to."""
        return Access(dataset_ids=self.dataset_ids, can_write=self.can_write, where=self.where)

    def state(self, now: datetime | None = None) -> str:
        """ "valid", "expired" or "revoked"."""
        if self.revoked_at is not None:
            return "revoked"
        expired = self.expires_at is not None and self.expires_at <= (now or datetime.now(UTC))
        return "expired" if expired else "valid"


def opens(token: Token, key: AccessKey | None, now: datetime | None = None) -> bool:
    """Whether ``key`` is that of ``token``, and valid. Takes as long where it is not."""
    kept = _NO_DIGEST if key is None or not key.digest else key.digest
    same = hmac.compare_digest(token.digest, kept)
    return same and key is not None and key.state(now) == "valid"


@attrs.frozen(kw_only=True)
class NewKey:
    """A key that was just made: ``token`` is shown once, and kept nowhere."""

    token: str = attrs.field(repr=False)
    key: AccessKey
