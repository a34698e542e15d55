"""Pages within a limit of tokens, and their cursors.

Nothing is kept between calls. The cursor of hits says where the page ended, and holds digests of
the arguments and of the hits before it: the same search is run again, and either goes on exactly
there or says that it cannot. The cursor of a list holds the key of the last entry that was shown,
not a number: entries that come or go before it change nothing of the rest.

What a cursor says is sealed, so that only what was given is taken back. A seal is no secret. It
tells a cursor that a model has mangled, or that is of another call.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from triptych._internal.digests import digest
from triptych.chunking.boundaries import align_left
from triptych.errors import BudgetExceededError, ConflictError, ValidationError
from triptych.text.tokens import MOST_CHARACTERS
from triptych_adapters.tools.rendering import tokens

_PLACE: Final = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})\.([0-9a-f]{8})")
_POSITION: Final = re.compile(r"([0-9a-f]{8}|)\.([0-9]{1,9})\.(.*)", re.DOTALL)
_LENGTH: Final = re.compile(r"[0-9]{1,9}")
_OPTIONAL: Final = ("chunk_id", "metadata", "heading_path", "locator", "scores", "signs")
"""What is left out of a hit, in this order, when there would be no room for its content."""


@attrs.frozen(slots=True)
class Place:
    """Where a page begins: the hit's number from 0, and the code point in its content.

    ``seen`` is the digest of the hits up to there, where a cursor has it.
    """

    hit: int = 0
    character: int = 0
    seen: str = ""


# Cursors of hits


def next_cursor(place: Place, hits: Sequence[Mapping[str, Any]], asked: str) -> str:
    """The cursor to ``place`` in the ``hits`` of what was ``asked``."""
    return seal(f"{place.hit}.{place.character}.{_seen(place, hits)}", asked)


def read_cursor(cursor: str, asked: str) -> Place:
    """The place that ``cursor`` leads to.

    Raises:
        ValidationError: it is damaged, or of a call with other arguments.
    """
    said = unseal(cursor, asked, _PLACE)
    return Place(int(said[1]), int(said[2]), said[3])


def check_cursor(place: Place, hits: Sequence[Mapping[str, Any]]) -> None:
    """Refuse to go on where ``hits`` are no longer those that the cursor was made for.

    Raises:
        ConflictError: documents have changed, and with them the hits before ``place``.
    """
    if not place.seen:
        return
    inside = len(hits[place.hit].get("content", "")) if place.hit < len(hits) else 0
    there = place.hit <= len(hits) and place.character <= inside
    if not there or place.seen != _seen(place, hits):
        raise ConflictError(
            "the documents have changed since the cursor was given, and the hits are others "
            "now: search again without a cursor"
        )


def _seen(place: Place, hits: Sequence[Mapping[str, Any]]) -> str:
    """The digest of the hits before ``place``, and of its own if it lies inside one."""
    before = hits[: place.hit + (place.character > 0)]
    keys = ("dataset_id", "doc_name", "name", "layer", "chunk_index", "content")
    return short(str(len(before)), *(str(hit.get(key)) for hit in before for key in keys))


# Cursors of lists

Key = tuple[str, ...]
"""What an entry is found again by."""


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
    said = unseal(arguments["cursor"], asked, _POSITION)
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


# Seals


def seal(body: str, asked: str) -> str:
    """The cursor that says ``body`` of the call ``asked``."""
    sealed = f"{short(asked)}.{body}"
    return f"{short(sealed)}.{sealed}"


def unseal(cursor: str, asked: str, form: re.Pattern[str]) -> re.Match[str]:
    """What ``cursor`` says, which is of this form: anybody can make a seal.

    Raises:
        ValidationError: it is damaged, or of a call with other arguments.
    """
    mark, _, sealed = cursor.partition(".")
    of, dot, body = sealed.partition(".")
    said = form.fullmatch(body)
    if not dot or said is None or short(sealed) != mark:
        raise ValidationError(
            "the argument 'cursor' is damaged: give it exactly as the last answer had it, or "
            "leave it out to begin again"
        )
    if of != short(asked):
        raise ValidationError(
            "the argument 'cursor' belongs to a call with other arguments: repeat those of the "
            "call that answered it, or leave it out to begin again"
        )
    return said


def short(*parts: str) -> str:
    """A short digest."""
    return digest("cursor", *parts)[:8]


# Pages


def paginate(
    hits: Sequence[Mapping[str, Any]],
    start: Place,
    max_tokens: int,
    cost: Callable[[Mapping[str, Any]], int] = tokens,
) -> tuple[list[dict[str, Any]], Place | None]:
    """The hits from ``start`` that fit into ``max_tokens``, and where the next page begins.

    Whole hits as long as they fit. One that does not fit into a page of its own is cut, behind
    a word where it can be: ``cut`` tells which code points of its content are there. Joined
    over all pages, the contents are what they were. Where a hit's other fields would leave no
    room for its content some are not shown: ``left_out`` names them.

    Raises:
        BudgetExceededError: the names alone are above the limit.
    """
    shown: list[dict[str, Any]] = []
    room = max_tokens
    at, character = start.hit, start.character
    while at < len(hits):
        length = len(hits[at].get("content", ""))
        whole = _part(hits[at], character, length)
        # What is certainly too long need not be counted, which takes a while for a megabyte.
        too_long = length - character > MOST_CHARACTERS * room
        price = room + 1 if too_long else cost(whole)
        if price <= room:
            shown.append(whole)
            room -= price
            at, character = at + 1, 0
            continue
        if shown:
            return shown, Place(at, character)
        part, end = _cut(hits[at], character, room, cost)
        if end < length:
            return [part], Place(at, end)
        shown.append(part)
        room -= cost(part)
        at, character = at + 1, 0
    return shown, None


def _part(
    hit: Mapping[str, Any], start: int, end: int, left_out: Sequence[str] = ()
) -> dict[str, Any]:
    """The hit with its content from ``start`` to ``end``."""
    part = {key: value for key, value in hit.items() if key != "content" and key not in left_out}
    content = hit.get("content", "")
    if left_out:
        part["left_out"] = list(left_out)
    if start > 0 or end < len(content):
        part["cut"] = {"from": start, "to": end, "of": len(content)}
    if "content" in hit:
        part["content"] = content[start:end]
    return part


def _cut(
    hit: Mapping[str, Any], start: int, room: int, cost: Callable[[Mapping[str, Any]], int]
) -> tuple[dict[str, Any], int]:
    """As much of the hit as fits, and where its content was cut."""
    content = hit.get("content", "")
    left_out: list[str] = []
    least = room // 2 if content else room
    for key in _OPTIONAL:
        if cost(_part(hit, start, start, left_out)) <= least:
            break
        if key in hit:
            left_out.append(key)
    ends = range(start + 1, min(len(content), start + MOST_CHARACTERS * room) + 1)
    end = start + bisect_left(
        ends, True, key=lambda end: cost(_part(hit, start, end, left_out)) > room
    )
    if end < len(content):
        end = _behind_word(content, start, end)
    if end == start < len(content) or cost(_part(hit, start, end, left_out)) > room:
        name = hit.get("doc_name") or hit.get("name", "")
        raise BudgetExceededError(
            f"the hit {name[:40]!r}… does not fit into an answer, even without its "
            "text: raise the limit of tokens"
        )
    return _part(hit, start, end, left_out), end


def _behind_word(content: str, start: int, end: int) -> int:
    """``end``, or a little left of it, where no word or character is split."""
    for at in range(end, start + (end - start) * 3 // 4, -1):
        if content[at - 1].isspace():
            return at
    return align_left(content, end, start + 1) if end > start else end
