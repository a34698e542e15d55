"""Bytes to text: which encoding a file is in, or that it is no text at all."""

from __future__ import annotations

import codecs
import re
import unicodedata
from itertools import islice

__all__ = ["decode_text"]

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
    # UTF-32's little-endian mark begins with that of UTF-16, so it is asked for first.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROLS = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]")
_PAIR = re.compile(rb"[\x81-\xfe](?:[\x40-\x7e\x80-\xfe]|[\x30-\x39][\x81-\xfe][\x30-\x39])")
_HIGH = re.compile(
    rb"([\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3})|[\x80-\xff]"
)
"""A character of UTF-8 beyond ASCII, or else a byte that is none."""
_MENDING = "triptych.latin-1"
_COMMON_PAIR = re.compile(rb"[\xa1-\xf7][\xa1-\xfe]\Z")


def decode_text(data: bytes) -> str | None:
    """``data`` as text without its byte order mark; None if it is binary.

    Tried in this order: what a byte order mark says, UTF-16 without one, UTF-8, GB18030, and
    Latin-1 with Windows' additions to it. Nearly any bytes are valid GB18030 and all are
    Latin-1, so GB18030 must also look like Chinese: in it most double bytes have both halves
    in GB 2312's rows (A1-FE), whereas in Latin-1 a high byte mostly has an ASCII letter
    behind it. What is UTF-8 but for a few bytes, cut off or pasted together, is read as UTF-8,
    and those bytes as Latin-1: one of them must not garble all the rest.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _decoded(data[len(mark) :], encoding)
    if data.startswith(_MAGIC):
        return None
    if b"\0" in data:
        return _unmarked_utf16(data)
    if _has_controls(data):
        return None
    text = _decoded(data, "utf-8")
    if text is None and _mostly_utf8(data):
        return data.decode("utf-8", _MENDING)
    if text is None and _looks_chinese(data):
        text = _decoded(data, "gb18030")
    if text is None and re.search(rb"[\x80-\x9f]", data):
        text = _decoded(data, "cp1252")
    return data.decode("latin-1") if text is None else text


def _decoded(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return None


def _has_controls(data: bytes) -> bool:
    """Whether more than one byte in twenty is a control character that text does without."""
    sample = data[:_SAMPLE]
    return len(_CONTROLS.findall(sample)) * 20 > len(sample)


def _mostly_utf8(data: bytes) -> bool:
    """Whether UTF-8's sequences of bytes are at least twice as many as the bytes in none."""
    sequences = bad = 0
    for found in islice(_HIGH.finditer(data), _SAMPLE):
        if found[1] is None:
            bad += 1
        else:
            sequences += 1
    return sequences >= 2 * max(bad, 1)


def _as_latin(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)  # what decoding raises
    bad = error.object[error.start : error.end]
    return "".join(_decoded(bytes([byte]), "cp1252") or chr(byte) for byte in bad), error.end


codecs.register_error(_MENDING, _as_latin)


def _looks_chinese(data: bytes) -> bool:
    pairs = [pair[0] for pair in islice(_PAIR.finditer(data), _SAMPLE)]
    common = sum(_COMMON_PAIR.match(pair) is not None for pair in pairs)
    return bool(pairs) and common * 10 >= len(pairs) * 7


def _unmarked_utf16(data: bytes) -> str | None:
    """Text has its NULs, from ASCII, in one of the two halves of its code units alone."""
    if len(data) % 2:
        return None
    low, high = data[0::2].count(0), data[1::2].count(0)
    # A character such as U+4E00 has its NUL in the other half, but few characters do.
    if min(low, high) * 10 > max(low, high):
        return None
    # UTF-8 with a NUL here and there would read as fine Chinese.
    few = (low + high) * 10 < len(data) * 3
    if few and not _has_controls(data.replace(b"\0", b"")) and _decoded(data, "utf-8") is not None:
        return None
    text = _decoded(data, "utf-16-le" if high >= low else "utf-16-be")
    if text is None or "\0" in text:
        return None
    sample = text[:_SAMPLE]
    odd = sum(
        unicodedata.category(character) in ("Cn", "Co", "Cc") and character not in "\t\n\r\f"
        for character in sample
    )
    return text if odd * 50 <= len(sample) else None
