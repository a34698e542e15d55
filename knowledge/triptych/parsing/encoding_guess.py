"""Which encoding a text is in that neither is UTF-8 nor says what it is."""

from __future__ import annotations

import re
import unicodedata
from itertools import islice

_SAMPLE = 65_536
"""Bytes, or units of another kind, that a guess looks at: its time has an upper bound."""

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
"""What can be guessed: Python's codec, and the name that people know."""

# Of the Latin ones only windows-1252 is guessed: the guesser takes French for windows-1250.
_LATIN = ("cp1250", "cp1252")
_EUC = ("cp949", "euc_jp", "gb18030", "")
_ASKED = [each for each in GUESSED if each not in ("latin-1", "utf-16-le", "utf-16-be")] + [
    "cp1250"
]
_FEW = 32
"""Fewer bytes beyond ASCII are too few for statistics."""
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
