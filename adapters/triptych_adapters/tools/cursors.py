"""Cursors of lists that are read as far as an answer has room.

A cursor holds the key of the last entry that was shown, not a number: entries that come or go
before it change nothing of the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import attrs

from triptych.errors import ConflictError
from triptych_adapters.tools.base import Base
from triptych_adapters.tools.paging import Place
from triptych_adapters.tools.rendering import to_json
from triptych_adapters.tools.seals import seal, short, unseal

MOST_ENTRIES: Final = 200
"""The most entries of one answer."""

Key = tuple[str, ...]
"""What an entry is found again by."""


_CURSOR: Final = re.compile(r"([0-9a-f]{8}|)\.([0-9]{1,9})\.(.*)", re.DOTALL)
_LENGTH: Final = re.compile(r"[0-9]{1,9}")


@attrs.frozen(slots=True)
class Position:
    """Where a page begins: after an entry, and at a code point of the next one's content.

    ``seen`` is the digest of the entry in which it begins, "" where it begins with a whole one.
    """

    after: Key = ()
    character: int = 0
    seen: str = ""


def read_position(arguments: Mapping[str, Any], asked: str) -> Position:
    """The position that the argument ``cursor`` leads to; the start where there is none.

    Raises:
        ValidationError: it is damaged, or of a call with other arguments.
    """
    if "cursor" not in arguments:
        return Position()
    said = unseal(arguments["cursor"], asked, _CURSOR)
    return Position(_read_key(said[3]), int(said[2]), said[1])


def write_cursor(position: Position, asked: str) -> str:
    """The cursor to ``position`` in what was ``asked``."""
    key = "".join(f"{len(each)}:{each}" for each in position.after)
    return seal(f"{position.seen}.{position.character}.{key}", asked)


def _read_key(text: str) -> Key:
    key = []
    while text:
        length, _, rest = text.partition(":")
        if not _LENGTH.fullmatch(length):
            break  # of a seal that somebody made
        key.append(rest[: int(length)])
        text = rest[int(length) :]
    return tuple(key)


def fill_by_key(
    base: Base,
    answer: dict[str, Any],
    field: str,
    entries: Iterable[tuple[Key, Mapping[str, Any]]],
    position: Position,
    asked: str,
    *,
    limit: int = MOST_ENTRIES,
) -> dict[str, Any]:
    """``answer`` with as many of the entries after ``position`` as there is room for.

    Raises:
        ConflictError: the entry that the position lies in is another one now.
    """
    found: list[tuple[Key, Mapping[str, Any]]] = []
    room, more = base.max_tokens, False
    iterator = iter(entries)
    for key, entry in islice(iterator, limit):
        found.append((key, entry))
        room -= base.form.cost(entry)
        if room < 0:
            break
    else:
        more = len(found) == limit and next(iterator, None) is not None
    keys: Sequence[Key] = [position.after, *(key for key, _ in found)]
    shown = [entry for _, entry in found]
    if position.character and (not shown or _seen(shown[0]) != position.seen):
        raise ConflictError(
            "the text that the cursor leads into has changed: ask again without a cursor"
        )

    def cursor(place: Place | None) -> str | None:
        if place is None and not (more or room < 0):
            return None
        at, character = (len(shown), 0) if place is None else (place.hit, place.character)
        seen = _seen(shown[at]) if character and at < len(shown) else ""
        return write_cursor(Position(keys[at], character, seen), asked)

    return base.fill(answer, field, shown, Place(0, position.character), cursor)


def _seen(entry: Mapping[str, Any]) -> str:
    return short(
        to_json({key: entry.get(key) for key in ("dataset_id", "name", "layer", "content")})
    )
