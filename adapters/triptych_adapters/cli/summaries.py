"""What a command over many documents did, in one line: counts that are zero say nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

__all__ = ["counts_of", "plural", "summary_line"]

_INSIDE = ("embedded", "reused", "encoded", "pending")
"""Counts of chunks, which stand after those."""
_LAST = ("failed", "skipped")
_NOUNS = {"model_calls": ("model call", "model calls")}


def counts_of(report: Any, names: Sequence[str] = ()) -> dict[str, int | None]:
    """The counts of a report, by name: its numbers, and how many are in its lists.

    ``names`` are those to show, in this order, where the report has them; none are all.
    """
    fields = [field.name for field in attrs.fields(type(report))]
    shown = [name for name in names if name in fields] if names else fields
    values = {name: getattr(report, name) for name in shown}
    return {
        name: len(value) if isinstance(value, tuple) else value for name, value in values.items()
    }


def summary_line(counts: Mapping[str, int | None]) -> str:
    """``331 added, 8,325 chunks (8,322 embedded), 4 skipped``, of the counts of a report.

    None is a count that is not known. They come in the order given, but chunks before what failed
    or was skipped; without any, the line says ``nothing to do``.
    """
    done = [
        _count(name, count)
        for name, count in counts.items()
        if count and name not in (*_INSIDE, *_LAST, "chunks")
    ]
    inside = [f"{counts[name]:,} {name}" for name in _INSIDE if counts.get(name)]
    chunks = counts.get("chunks") or 0
    if chunks or inside:
        of_them = f" ({', '.join(inside)})" if inside else ""
        done.append(f"{plural(chunks, 'chunk')}{of_them}")
    done += [_count(name, count) for name in _LAST if (count := counts.get(name))]
    return ", ".join(done) or "nothing to do"


def plural(count: int, noun: str, several: str = "") -> str:
    """``1 file``, ``2 files``."""
    return f"{count:,} {noun if count == 1 else several or f'{noun}s'}"


def _count(name: str, count: int) -> str:
    if name in _NOUNS:
        return plural(count, *_NOUNS[name])
    return f"{count:,} {name}"
