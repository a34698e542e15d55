"""A prefix of names as a range."""

from __future__ import annotations


def prefix_end(prefix: str) -> str | None:
    """The least string above all that start with ``prefix``, by code point; None: there is none.

    Surrogates are no characters: U+D7FF is followed by U+E000.
    """
    kept = prefix.rstrip("\U0010ffff")
    if not kept:
        return None
    last = ord(kept[-1]) + 1
    return kept[:-1] + chr(0xE000 if last == 0xD800 else last)
