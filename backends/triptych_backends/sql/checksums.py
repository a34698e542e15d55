"""The checksum that each stored chunk and layer carries.

SQLite does not check what lies in its pages: a bit that flips in a text is served as it is. The
checksum covers the text and what it is shown as, so that no text goes out under another name.
"""

from __future__ import annotations

import zlib


def text_checksum(content: bytes, name: str, *labels: object) -> int:
    """CRC-32 of a text, its document's name, and what else says which text it is.

    It finds each change of up to 32 bits in a row, and others but for one in four billion. That is
    for damage: whoever writes to the file can write the checksum too.
    """
    return zlib.crc32(content, zlib.crc32(f"{name}\0{labels}".encode()))
