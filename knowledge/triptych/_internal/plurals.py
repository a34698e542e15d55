"""Counts in messages: "1 document", "2 documents"."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str = "") -> str:
    """``count`` with its noun; ``plural`` "" is the noun with an s."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"
