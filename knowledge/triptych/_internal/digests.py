"""A short digest over several parts: the first 32 hex digits (128 bits) of SHA-256."""

from __future__ import annotations

import hashlib


def digest(*parts: str) -> str:
    """128 bits of SHA-256 over ``parts``, as hex."""
    text = "".join([f"{len(part)}:{part}" for part in parts])
    if text.isascii():
        joined = text.encode("ascii")
    else:
        encoded = [part.encode("utf-8") for part in parts]
        joined = b"".join([b"%d:%b" % (len(data), data) for data in encoded])
    return hashlib.sha256(joined).hexdigest()[:32]
