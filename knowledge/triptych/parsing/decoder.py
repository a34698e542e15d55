"""Decoding bytes: by byte order mark, as UTF-8, by the file's declaration, or by a guess."""

from __future__ import annotations

import codecs
import re
import unicodedata
from itertools import islice
from pathlib import PurePosixPath

import attrs

from triptych.errors import ParseError

_SNIFFED = 4096
_HTML = frozenset((".htm", ".html", ".xhtml"))
_PYTHON = frozenset((".py", ".pyi", ".pyw"))
_LIKE_HTML = re.compile(rb"\s*(?:<!--.{0,1000}?-->\s*)?<(?:!doctype\s+html|html[\s>])", re.I | re.S)
_META_CHARSET = re.compile(rb"<meta[^>]{0,500}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.I)
_XML = re.compile(rb"<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})[\"']")
_COOKIE = re.compile(rb"(?:[^\r\n]*\r?\n)?[ \t\f]*#[^\r\n]{0,200}?coding[:=][ \t]*([-\w.]{1,40})")
"""PEP 263: a comment in one of the first two lines."""

# The standard (https://encoding.spec.whatwg.org, section 4.2) reads these labels as others.
_LABELS = {
    "iso-8859-1": "cp1252",
    "iso8859-1": "cp1252",
    "latin1": "cp1252",
    "us-ascii": "cp1252",
    "ascii": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "shift-jis": "cp932",
    "euc-kr": "cp949",
    "ks_c_5601-1987": "cp949",
}
_TEXT = ("big5", "cp", "euc_", "gb", "hz", "iso2022", "iso8859", "koi8", "mac", "shift_jis", "tis")
"""Prefixes of Python's names for encodings that a file may declare: without Unicode, which is tried
earlier, and codecs such as "punycode", which are not encodings of files."""


def is_html(data: bytes) -> bool:
    """Whether ``data`` begins as an HTML page does."""
    return _LIKE_HTML.match(data[:_SNIFFED]) is not None


def declared_encoding(data: bytes, name: str) -> str:
    """Python's name of the encoding that XML, HTML or Python source declares; "" for none, one
    that is not known, or Unicode's own."""
    head = data[:_SNIFFED]
    ending = PurePosixPath(name).suffix.lower()
    label = _XML.match(head)
    if label is None and (ending in _HTML or is_html(head)):
        label = _META_CHARSET.search(head)
    if label is None and ending in _PYTHON:
        label = _COOKIE.match(head)
    return "" if label is None else _codec(label[1].decode("ascii").lower())


def _codec(label: str) -> str:
    try:
        found = codecs.lookup(_LABELS.get(label, label))
    except LookupError:
        return ""
    return found.name if found.name.startswith(_TEXT) and found.name != "cp65001" else ""


_SAMPLE = 65_536
"""The maximum number of bytes or units for a guess, to limit its time."""

GUESSED = {
    "gb18030": "GB18030",
    "big5": "Big5",
    "euc_jp": "EUC-JP",
    "cp932": "Shift_JIS",
    "cp949": "EUC-KR",
    "cp1251": "windows-1251",
    "koi8_r": "KOI8-R",
    "cp1253": "windows-1253",
    "cp1256": "windows-1256",
    "cp1252": "windows-1252",
    "latin-1": "ISO-8859-1",
    "utf-16-le": "UTF-16LE",
    "utf-16-be": "UTF-16BE",
}
"""The encodings that can be guessed: Python's codec and the common name."""

# Of the Latin ones only windows-1252 is guessed: the guesser takes French for windows-1250.
_LATIN = ("cp1250", "cp1252")
_EUC = ("cp949", "euc_jp", "gb18030", "")
_ASKED = [each for each in GUESSED if each not in ("latin-1", "utf-16-le", "utf-16-be")] + [
    "cp1250"
]
_FEW = 32
"""The minimum number of non-ASCII bytes for statistics."""
_WORD = 6

_CONTROLS = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]")
_HIGH_RUN = re.compile(rb"[\x80-\xff]+")
_PAIR = re.compile(rb"[\x81-\xfe](?:[\x40-\x7e\x80-\xfe]|[\x30-\x39][\x81-\xfe][\x30-\x39])")
_COMMON_PAIR = re.compile(rb"[\xa1-\xfe]{2}\Z")


def has_controls(data: bytes) -> bool:
    """Whether more than one byte in twenty is a control character that text does without."""
    sample = data[:_SAMPLE]
    return len(_CONTROLS.findall(sample)) * 20 > len(sample)


def guess_encoding(data: bytes) -> str:
    """The codec that ``data`` can be decoded with, and most likely was encoded with.

    `charset-normalizer` is asked among the encodings that text is met in. Three questions are
    answered here, because it answers them worse (measured in tests/parsing/test_decoder.py):

    - Single letters beyond ASCII among ASCII ones are Western text, however short.
    - Chinese, Japanese and Korean in EUC are distinguished by the rows of their characters.
    - Of a few words the ranges of the bytes say more than statistics.
    """
    lines = _lines_to_judge(data)
    if not _is_western(lines):
        for encoding in _candidates(lines):
            if _decodes(data, encoding):
                return encoding
    if re.search(rb"[\x80-\x9f]", data) and _decodes(data, "cp1252"):
        return "cp1252"
    return "latin-1"


def _lines_to_judge(data: bytes) -> bytes:
    """The first lines that have bytes beyond ASCII; no encoding asked for has a line end within a
    character."""
    if len(data) <= _SAMPLE:
        return data
    taken, size = [], 0
    at = 0
    for found in _HIGH_RUN.finditer(data):
        if found.start() < at:
            continue
        start = max(data.rfind(b"\n", at, found.start()) + 1, at)
        end = data.find(b"\n", found.end(), found.end() + _SAMPLE)
        end = min(found.end() + _SAMPLE, len(data)) if end < 0 else end + 1
        taken.append(data[max(start, found.start() - 4096) : end])
        size += len(taken[-1])
        at = end
        if size > _SAMPLE:
            break
    return b"".join(taken)


def _is_western(data: bytes) -> bool:
    """Whether most bytes beyond ASCII have two bytes of ASCII on either side."""
    alone = total = 0
    before = -3
    runs = [found.span() for found in islice(_HIGH_RUN.finditer(data), _SAMPLE)]
    for number, (start, end) in enumerate(runs):
        after = runs[number + 1][0] if number + 1 < len(runs) else end + 3
        total += end - start
        alone += end - start == 1 and start - before > 2 and after - end > 2
        before = end - 1
    return 2 * alone > total


def _candidates(data: bytes) -> list[str]:
    runs = [found[0] for found in islice(_HIGH_RUN.finditer(data), _SAMPLE)]
    high = b"".join(runs)
    few = len(high) < _FEW
    pairs = [pair[0] for pair in islice(_PAIR.finditer(data), _SAMPLE)]
    common = [pair for pair in pairs if _COMMON_PAIR.match(pair) is not None]
    if few and len(common) == len(pairs) and all(len(run) % 2 == 0 for run in runs):
        return [*_by_rows(common), *_by_ranges(high), "gb18030"]
    if few and len(high) >= 3 * len(runs) and (letters := _by_ranges(high)):
        return letters
    best = _asked(data)
    if best in _LATIN or (few and best == "cp932" and min(high) > 0x9F):
        return []  # all half-width kana: rather Western capitals
    if best in _EUC and len(common) * 10 >= len(pairs) * 7:
        return [*_by_rows(common), "gb18030"]
    return [best] if best else []


def _asked(data: bytes) -> str:
    from charset_normalizer import from_bytes

    found = from_bytes(
        data, cp_isolation=_ASKED, preemptive_behaviour=False, enable_fallback=False
    ).best()
    return "" if found is None else found.encoding


def _by_rows(pairs: list[bytes]) -> list[str]:
    """Japanese has kana, in rows A4 and A5. Korean stands in B0-C8, Chinese reaches beyond. Rows
    AA-AF are empty in all three, and full in Big5."""
    kana = sum(pair[0] in (0xA4, 0xA5) for pair in pairs)
    hangul = sum(0xB0 <= pair[0] <= 0xC8 for pair in pairs)
    beyond = sum(pair[0] > 0xC8 for pair in pairs)
    if 10 * sum(0xAA <= pair[0] <= 0xAF for pair in pairs) > len(pairs):
        return ["big5"]
    if kana and 8 * kana >= len(pairs):
        return ["euc_jp"]
    return ["cp949"] if hangul > 2 and 20 * beyond <= hangul else []


def _by_ranges(high: bytes) -> list[str]:
    """The small letters of Russian, the bulk of a word: E0-FF in windows-1251, C0-DF in KOI8-R."""
    if len(high) < _WORD:
        return []
    if 10 * sum(byte >= 0xE0 for byte in high) >= 7 * len(high):
        return ["cp1251"]
    return ["koi8_r"] if 10 * sum(0xC0 <= byte <= 0xDF for byte in high) >= 8 * len(high) else []


def _decodes(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def unmarked_utf16(data: bytes) -> str | None:
    """UTF-16's codec, "utf-16-le" or "utf-16-be", that ``data`` with NULs in it is text of.

    Text has its NULs, from ASCII, in one of the two halves of its code units alone.
    """
    if len(data) % 2:
        return None
    low, high = data[0::2].count(0), data[1::2].count(0)
    # A character such as U+4E00 has its NUL in the other half, but few characters do.
    if min(low, high) * 10 > max(low, high):
        return None
    # UTF-8 with a NUL here and there would read as fine Chinese.
    few = (low + high) * 10 < len(data) * 3
    if few and not has_controls(data.replace(b"\0", b"")) and _decodes(data, "utf-8"):
        return None
    encoding = "utf-16-le" if high >= low else "utf-16-be"
    if not _decodes(data, encoding):
        return None
    sample = data[: 2 * _SAMPLE].decode(encoding, "ignore")
    if "\0" in data.decode(encoding):
        return None
    odd = sum(
        unicodedata.category(character) in ("Cn", "Co", "Cc") and character not in "\t\n\r\f"
        for character in sample
    )
    return encoding if odd * 50 <= len(sample) else None


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
"""The first bytes of common binary formats, which may contain no NUL."""

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
"""A non-ASCII character in UTF-8, or else an invalid byte."""

_ESCAPED = {
    0xDC00 + byte: bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in range(128, 256)
}
_SEVEN_BIT = ("iso2022", "hz")
"""Encodings whose bytes are all ASCII, which only a declaration can identify."""


@attrs.frozen(kw_only=True, slots=True)
class DecodedText:
    """A text and its encoding.

    If the encoding is uncertain, ``notes`` has a warning that names the file and the encoding.
    """

    text: str
    encoding: str = "utf-8"
    notes: tuple[str, ...] = ()


def decode_text(data: bytes, name: str = "") -> DecodedText | None:
    """Decode ``data``; return None for binary data. The first rule that applies decides:

    1. A byte order mark. The mark of UTF-8 remains in the text, code point U+FEFF. 2. UTF-16
    without a mark, recognised by its NULs. Other data with a NUL is binary. 3. UTF-8. 4. The
    declared encoding of XML, HTML or Python source, recognised by ``name`` or content. 5. UTF-8
    except for a few invalid bytes, which are read as windows-1252. 6. A guess (`guess_encoding`).

    After 2, 5 and 6, and if bytes do not match the declared encoding, ``notes`` says so.

    Raises:
        ParseError: the data after a byte order mark is not in its encoding.
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
