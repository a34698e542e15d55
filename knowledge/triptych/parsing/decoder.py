"""From bytes to text: the one decoder, whoever reads the file."""

from __future__ import annotations

import codecs
import re
from itertools import islice

import attrs

from triptych.errors import ParseError
from triptych.parsing.encoding_declaration import declared_encoding
from triptych.parsing.encoding_guess import GUESSED, guess_encoding, has_controls, unmarked_utf16

_SAMPLE = 65_536
_MAGIC = (
    b"%PDF-",
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"\x89PNG",
    b"\xff\xd8\xff",
    b"GIF8",
    b"\x7fELF",
    b"BZh",
    b"\xfd7zXZ",
    b"7z\xbc\xaf",
    b"\xd0\xcf\x11\xe0",
    b"SQLite format 3",
)
"""How well-known binary formats begin, some of which may hold no NUL."""

_MARKS = (
    # UTF-32's little-endian mark begins with that of UTF-16, so it comes first. UTF-8's own mark
    # is a part of the text, which comes back byte for byte.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_HIGH = re.compile(
    rb"([\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3})|[\x80-\xff]"
)
"""A character of UTF-8 beyond ASCII, or else a byte that is none."""

_ESCAPED = {
    0xDC00 + byte: bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in range(128, 256)
}
_SEVEN_BIT = ("iso2022", "hz")
"""Encodings whose text is ASCII too: only a declaration tells."""


@attrs.frozen(kw_only=True, slots=True)
class DecodedText:
    """A text, and the encoding it was read in.

    ``notes`` holds a warning, which names the file and the encoding, where that is not certain.
    """

    text: str
    encoding: str = "utf-8"
    notes: tuple[str, ...] = ()


def decode_text(data: bytes, name: str = "") -> DecodedText | None:
    """``data`` as text; None for binary data. The first of these that applies decides:

    1. A byte order mark. UTF-8's stays in the text, code point U+FEFF.
    2. UTF-16 without a mark, told by where its NULs are. Other data with a NUL is binary.
    3. UTF-8.
    4. The encoding that XML, HTML or Python source declares, told by ``name`` or content.
    5. UTF-8 but for a few bytes, cut off or pasted together. They are read as windows-1252: one
       of them must not garble the rest.
    6. A guess (`guess_encoding`).

    After 2, 5 and 6, and where bytes do not fit the declared encoding, ``notes`` says so.

    Raises:
        ParseError: what follows a byte order mark is not in its encoding.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _as_marked(data, name, encoding)
    if data.startswith(_MAGIC):
        return None
    if b"\0" in data:
        wide = unmarked_utf16(data)
        return None if wide is None else _guessed(data, name, wide)
    if has_controls(data):
        return None
    declared = declared_encoding(data, name)
    text = _decoded(data, "utf-8")
    if text is not None and not declared.startswith(_SEVEN_BIT):
        return DecodedText(text=text)
    if declared:
        found = _as_declared(data, name, declared)
        if found is not None:
            return found
    if text is not None:
        return DecodedText(text=text)
    if _mostly_utf8(data):
        return _as_mixed(data, name)
    return _guessed(data, name, guess_encoding(data))


def _decoded(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return None


def _as_marked(data: bytes, name: str, encoding: str) -> DecodedText | None:
    try:
        return DecodedText(text=data.decode(encoding), encoding=encoding)
    except UnicodeDecodeError as error:
        if encoding == "utf-8":
            return _as_mixed(data, name)
        raise ParseError(
            f"{name!r} begins as {encoding.upper()} text and is damaged at byte {error.start}: "
            "save it as UTF-8"
        ) from error


def _as_declared(data: bytes, name: str, encoding: str) -> DecodedText | None:
    """None where so much does not fit that the declaration must be wrong."""
    text = _decoded(data, encoding)
    if text is not None:
        return DecodedText(text=text, encoding=encoding)
    text = data.decode(encoding, "replace")
    bad = text.count("\ufffd")
    if 20 * bad > sum(character > "\x7f" for character in text):
        return None
    note = f"{name!r} declares {encoding} and has bytes that are not: they became U+FFFD"
    return DecodedText(text=text, encoding=encoding, notes=(note,))


def _guessed(data: bytes, name: str, encoding: str) -> DecodedText:
    note = (
        f"{name!r} does not say its encoding: {GUESSED[encoding]} was guessed; save it as UTF-8 "
        "if its text is wrong"
    )
    return DecodedText(text=data.decode(encoding), encoding=encoding, notes=(note,))


def _mostly_utf8(data: bytes) -> bool:
    """Whether UTF-8's sequences of bytes are at least twice as many as the bytes in none."""
    sequences = bad = 0
    for found in islice(_HIGH.finditer(data), _SAMPLE):
        if found[1] is None:
            bad += 1
        else:
            sequences += 1
    return sequences >= 2 * max(bad, 1)


def _as_mixed(data: bytes, name: str) -> DecodedText:
    text = data.decode("utf-8", "surrogateescape")  # other bytes become U+DC80 to U+DCFF
    count = sum("\udc80" <= character <= "\udcff" for character in text)
    what = "1 byte" if count == 1 else f"{count} bytes"
    note = f"{name!r} is UTF-8 but for {what}, read as {GUESSED['cp1252']}: save it as UTF-8"
    return DecodedText(text=text.translate(_ESCAPED), notes=(note,))
