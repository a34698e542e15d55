"""The changes that an access shows, and cursors that count nothing else."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import string
import struct

import attrs

from triptych.access.view import AccessView
from triptych.contracts import ChangeReader, SettingsStore
from triptych.errors import NotAvailableError, StoreError
from triptych.records import ChangeCursor, ChangePage, DocumentChange, Subject
from triptych.records.filters import NAME, conditions_of

__all__ = ["AccessChanges", "CursorSeal"]

_SETTING = "access/secret"
_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_LONGEST = 64  # characters that the mark of a cursor may have
_NONCE = _TAG = 6  # bytes
_NONE = 2**48 - 1
_MOST_AT_ONCE = 10_000


class AccessChanges:
    """A `ChangeReader` of what an access shows.

    The numbers of a store's log count the changes of all datasets: under an access the cursors are
    sealed, so that nobody reads them. Which documents a filter on metadata showed before they were
    deleted, no log knows: such an access has no changes. By their names it is known.
    """

    def __init__(
        self, view: AccessView, reader: ChangeReader, settings: SettingsStore | None
    ) -> None:
        self._view = view
        self._reader = reader
        self._settings = settings
        self._seal: CursorSeal | None = None
        self._is_whole = view.access.dataset_ids is None and view.tree is None
        # Cursors that another access has sealed already stay as they are.
        self._within = isinstance(reader, AccessChanges) and reader.seals

    @property
    def seals(self) -> bool:
        """Whether its cursors are sealed."""
        return self._within or not self._is_whole

    def change_head(self) -> str:
        """See `ChangeReader.change_head`."""
        return self._reader.change_head()

    def read_changes(
        self, since: ChangeCursor | None, *, dataset_id: str | None, limit: int
    ) -> ChangePage:
        """See `ChangeReader.read_changes`.

        Raises:
            NotAvailableError: the access has a filter on something else than names.
        """
        view = self._view
        if any(condition.field != NAME for condition in conditions_of(view.tree)):
            raise NotAvailableError(
                "this access has a filter on metadata, and no log knows which deleted documents "
                "passed it: ask for an access by doc_prefix, doc_name or datasets"
            )
        if self._is_whole:
            return self._reader.read_changes(since, dataset_id=dataset_id, limit=limit)
        seal = None if self._within else self._sealed()
        position = since if since is None or seal is None else seal.open(since)
        found: list[DocumentChange] = []
        reset = False
        more = True
        at_end = ""
        while more and len(found) <= limit:
            page = self._reader.read_changes(
                position, dataset_id=dataset_id, limit=min(limit + 1, _MOST_AT_ONCE)
            )
            if page.reset and found:
                # The log was cut off while it was read: begin again, as the reset says.
                found = []
            reset = reset or page.reset
            found += [each for each in page.changes if self._shows(each)]
            position, more, at_end = ChangeCursor.parse(page.cursor), page.more, page.cursor
        shown = found[:limit]
        cut = len(found) > limit
        cursor = shown[-1].cursor if cut else at_end
        if seal is not None:
            shown = [attrs.evolve(each, cursor=seal.close(each.cursor)) for each in shown]
            cursor = seal.close(cursor)
        return ChangePage(changes=tuple(shown), cursor=cursor, reset=reset, more=cut)

    def _shows(self, change: DocumentChange) -> bool:
        return self._view.access.names(change.dataset_id) and self._view.access.admits(
            Subject(name=change.name)
        )

    def _sealed(self) -> CursorSeal:
        if self._seal is None:
            self._seal = CursorSeal(_secret(self._settings))
        return self._seal


class CursorSeal:
    """Makes cursors that only who has the secret reads, and that nobody else makes.

    Encrypt-then-MAC with SHA-256 as the pseudorandom function; a new nonce each time, so that two
    cursors to one place differ as those to two places do.
    """

    def __init__(self, secret: bytes) -> None:
        self._stream = hmac.digest(secret, b"cursor stream", "sha256")
        self._check = hmac.digest(secret, b"cursor check", "sha256")

    def close(self, text: str) -> str:
        """The cursor ``text``, sealed.

        Raises:
            StoreError: the store's cursors are too long for it.
        """
        cursor = ChangeCursor.parse(text)
        try:
            packed = _packed(cursor)
        except (ValueError, struct.error) as error:
            raise StoreError("the cursors of this store cannot be sealed") from error
        nonce = secrets.token_bytes(_NONCE)
        body = nonce + self._mixed(nonce, packed)
        digits = _to_digits(body + hmac.digest(self._check, body, "sha256")[:_TAG])
        if len(digits) > _LONGEST:
            raise StoreError("the cursors of this store are too long to be sealed")
        return str(ChangeCursor(number=0, mark=digits))

    def open(self, cursor: ChangeCursor) -> ChangeCursor:
        """The cursor that was sealed; of one that was not, a cursor that no store goes on from."""
        nothing = ChangeCursor(number=0, mark="unknown")
        data = _from_digits(cursor.mark)
        body, tag = data[:-_TAG], data[-_TAG:]
        if cursor.number or len(body) <= _NONCE:
            return nothing
        if not hmac.compare_digest(tag, hmac.digest(self._check, body, "sha256")[:_TAG]):
            return nothing
        return _unpacked(self._mixed(body[:_NONCE], body[_NONCE:]))

    def _mixed(self, nonce: bytes, data: bytes) -> bytes:
        stream = b"".join(
            hmac.digest(self._stream, nonce + bytes([block]), hashlib.sha256)
            for block in range(len(data) // 32 + 1)
        )
        return bytes(one ^ other for one, other in zip(data, stream, strict=False))


def _packed(cursor: ChangeCursor) -> bytes:
    numbers = (cursor.number, cursor.base, cursor.until)
    fields = b"".join((_NONE if each is None else each).to_bytes(6, "big") for each in numbers)
    return fields + bytes.fromhex(cursor.mark)


def _unpacked(data: bytes) -> ChangeCursor:
    number, base, until = (int.from_bytes(data[at : at + 6], "big") for at in (0, 6, 12))
    return ChangeCursor(
        number=number,
        mark=data[18:].hex(),
        base=None if base == _NONE else base,
        until=None if until == _NONE else until,
    )


def _to_digits(data: bytes) -> str:
    value = int.from_bytes(b"\1" + data, "big")  # so that leading zeros are kept
    digits = ""
    while value:
        value, digit = divmod(value, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits


def _from_digits(text: str) -> bytes:
    value = 0
    for character in text:
        value = value * len(_DIGITS) + _DIGITS.index(character)
    data = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return data[1:] if data[:1] == b"\1" else b""


def _secret(settings: SettingsStore | None) -> bytes:
    """The store's secret, made when it is first needed; of this process where none can be kept."""
    made = secrets.token_hex(32)
    if settings is None:
        return bytes.fromhex(made)
    try:
        kept = settings.get_setting(_SETTING)
        if kept is None and not settings.set_setting(_SETTING, made, expected=None):
            kept = settings.get_setting(_SETTING)
    except StoreError:  # such as of a store that is only read
        kept = None
    return bytes.fromhex(kept or made)
