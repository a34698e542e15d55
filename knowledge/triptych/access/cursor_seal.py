"""Cursors that only who has the secret reads."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import string
import struct

from triptych.errors import StoreError
from triptych.records import ChangeCursor

__all__ = ["CursorSeal"]

_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_LONGEST = 8192  # characters that the mark of a cursor may have
_NONCE = _TAG = 6  # bytes
_NONE = 2**48 - 1
_AS_TEXT = (2**48 - 2).to_bytes(6, "big")
"""What begins a cursor whose mark is not bytes in hexadecimal digits."""


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
    try:
        packed = bytes.fromhex(cursor.mark)
    except ValueError:
        return _AS_TEXT + str(cursor).encode()
    if packed.hex() != cursor.mark:
        return _AS_TEXT + str(cursor).encode()
    numbers = (cursor.number, cursor.base, cursor.until)
    fields = b"".join((_NONE if each is None else each).to_bytes(6, "big") for each in numbers)
    return fields + packed


def _unpacked(data: bytes) -> ChangeCursor:
    if data.startswith(_AS_TEXT):
        return ChangeCursor.parse(data[len(_AS_TEXT) :].decode())
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
