"""A short digest over several parts: the first 32 hex digits (128 bits) of SHA-256."""

from __future__ import annotations

import hashlib

__all__ = ["digest"]


def digest(*parts: str) -> str:
    """128 bits of SHA-256 over ``parts``, as hex."""
    state = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8")
        state.update(b"%d:" % len(data))
        state.update(data)
    return state.hexdigest()[:32]
