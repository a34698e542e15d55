"""From bytes to text."""

from __future__ import annotations

import codecs

from triptych.errors import ParseError
from triptych.parsing.files import decode

__all__ = ["decode_text"]

# UTF-32's little-endian mark begins with UTF-16's: the longer ones come first.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def decode_text(data: bytes, name: str) -> str:
    """``data`` by its byte order mark, else as UTF-8, whose mark is kept as text.

    Raises:
        ValidationError: it is neither; the message tells at which byte.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return data.decode(encoding)
            except UnicodeDecodeError as error:
                raise ParseError(
                    f"{name!r} begins as {encoding.upper()} text and is none (byte "
                    f"{error.start}): save it as UTF-8"
                ) from error
    return decode(data, name)
