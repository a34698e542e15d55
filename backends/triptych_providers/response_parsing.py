"""Parsing providers' responses: decompression, events, and values by path."""

from __future__ import annotations

import base64
import binascii
import json
import math
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

ACCEPTED = "gzip"
"""What is sent as ``accept-encoding``."""

_GZIP = frozenset({"gzip", "x-gzip"})
_PIECE = 1 << 16


class PackedAnswerError(ValueError):
    """The bytes are packed in a way that was not asked for, or damaged: says how the bytes are."""


class Unpacker:
    """Unpacks the pieces of one body, at most 64 KiB at a time.

    Raises:
        PackedAnswerError: the ``content-encoding`` header is none of gzip, or names several. In
            `feed` and `end`: the bytes are damaged or end too early.
    """

    def __init__(self, encoding: str) -> None:
        steps = [step for each in encoding.split(",") if (step := each.strip().lower())]
        steps = [step for step in steps if step != "identity"]
        if len(steps) > 1 or (steps and steps[0] not in _GZIP):
            shown = ", ".join(steps)[:60]
            raise PackedAnswerError(f"are packed as {shown!r} where gzip at most was asked for")
        self._is_packed = bool(steps)
        self._member = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self._begun = False

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """What ``piece`` unpacks to; an empty one where nothing came out. Read it to its end."""
        if not self._is_packed:
            yield piece
            return
        rest = piece
        while True:
            if self._member.eof:  # other members may follow, or zeros
                if not (rest := rest.lstrip(b"\0")):
                    break
                self._member = zlib.decompressobj(zlib.MAX_WBITS | 16)
            self._begun = self._begun or bool(rest)
            try:
                yield self._member.decompress(rest, _PIECE)
            except zlib.error as error:
                raise PackedAnswerError("do not unpack as their header says") from error
            rest = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            if not rest:
                break

    def end(self) -> Iterator[bytes]:
        """What the last pieces left inside: a full piece may have stopped short of it."""
        while self._is_packed and self._begun and not self._member.eof:
            try:
                more = self._member.decompress(b"", _PIECE)
            except zlib.error as error:
                raise PackedAnswerError("do not unpack as their header says") from error
            if not more:
                raise PackedAnswerError("end in the middle of what was packed")
            yield more


MOST_COUNTED = 1 << 53
"""The largest count of tokens that is taken from a server."""

T = TypeVar("T")


class MalformedAnswerError(ValueError):
    """The answer is not of the shape that its protocol says. It never leaves this package."""


def _named(path: Sequence[str | int]) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "".join(steps).lstrip(".")


def at(value: Any, *path: str | int, of: type[T]) -> T:
    """What lies at ``path`` in a JSON value, an ``of``.

    Raises:
        MalformedAnswerError: there is nothing, or something else.
    """
    for depth, step in enumerate(path):
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError) as error:
            raise MalformedAnswerError(f"has no {_named(path[: depth + 1])}") from error
    if not isinstance(value, of) or (of is int and isinstance(value, bool)):
        raise MalformedAnswerError(
            f"has a {type(value).__name__} as {_named(path) or 'its top'}, where a "
            f"{of.__name__} was expected"
        )
    return value


def text_at(value: Any, *path: str | int) -> str:
    """The string at ``path``; "" where there is none, or null."""
    try:
        return at(value, *path, of=str)
    except MalformedAnswerError:
        return ""


_NO_TEXT = frozenset(
    {
        "thinking",
        "reasoning",
        "redacted_thinking",
        "tool_use",
        "server_tool_use",
        "refusal",
        "reference",  # Mistral's
        # Those of Anthropic's streams.
        "thinking_delta",
        "signature_delta",
        "input_json_delta",
        "citations_delta",
    }
)
"""The types of parts of an answer that are not its text."""


def content_at(value: Any, *path: str | int) -> str:
    """The text of the content at ``path``: a string, or a list of parts; "" if there is none.

    Raises:
        MalformedAnswerError: it is something else, or has a part of an unknown type.
    """
    try:
        found = at(value, *path, of=object)
    except MalformedAnswerError:
        return ""
    if found is None or isinstance(found, str):
        return found or ""
    if isinstance(found, list):
        return "".join(map(part_text, found))
    raise MalformedAnswerError(
        f"has a {type(found).__name__} as {_named(path)}, where text was expected"
    )


def part_text(part: Any) -> str:
    """The text of one part of an answer's content; "" for a thought, or the call of a tool.

    Raises:
        MalformedAnswerError: its type is unknown, or it has no text.
    """
    if isinstance(part, str):
        return part
    kind = text_at(part, "type").lower()
    if kind in _NO_TEXT:
        return ""
    if kind and not kind.startswith(("text", "output_text")):
        raise MalformedAnswerError(f"has a part of the unknown type {kind!r:.40} in its content")
    found = at(part, "text", of=object)
    if isinstance(found, dict):
        found = at(found, "value", of=object)
    return "" if found is None else at(found, of=str)


_BESIDE: Final = (
    ("a refusal", ("refusal",)),
    ("calls of tools", ("tool_", "function_call")),
    ("thoughts", ("thinking", "reasoning")),
)


def beside_text(message: Any) -> str:
    """What a message, or its content's parts, hold beside text: one of `_BESIDE`, or ""."""
    parts = message.get("content") if isinstance(message, dict) else None
    kinds = [text_at(part, "type") for part in parts] if isinstance(parts, list) else []
    kinds += [key for key, held in message.items() if held] if isinstance(message, dict) else []
    found = (said for said, of in _BESIDE if any(each in kind for kind in kinds for each in of))
    return next(found, "")


def count_at(value: Any, *path: str | int) -> int:
    """The count at ``path``, 0 to `MOST_COUNTED`; 0 where there is none.

    Not every server counts tokens, and what is not a count must not reach sums and stores.
    """
    try:
        found = at(value, *path, of=object)
    except MalformedAnswerError:
        return 0
    if isinstance(found, bool) or not isinstance(found, int | float):
        return 0
    if isinstance(found, float) and not math.isfinite(found):
        return 0
    return int(min(max(found, 0), MOST_COUNTED))


def by_index(items: Sequence[Any], count: int) -> list[Any]:
    """``items`` in the order of their ``index``, each of 0 to ``count`` - 1 once.

    An item without one, or with null, has its position: some servers leave out all, and those that
    follow protobuf an index of 0, wherever the item stands.

    Raises:
        MalformedAnswerError: one is doubled or out of range, or there are too few or many items.
    """
    if len(items) != count:
        raise MalformedAnswerError(f"has {len(items)} entries for {count} inputs")
    ordered: list[Any] = [None] * count
    without: list[tuple[int, Any]] = []
    for position, item in enumerate(items):
        if at(item, of=dict).get("index") is None:
            without.append((position, item))
            continue
        index = at(item, "index", of=int)
        if not 0 <= index < count or ordered[index] is not None:
            raise MalformedAnswerError(f"has index {index} out of range or twice, at {position}")
        ordered[index] = item
    if len(without) == 1 < count:
        without = [(ordered.index(None), without[0][1])]
    for position, item in without:
        if ordered[position] is not None:
            raise MalformedAnswerError(f"has no index at {position}, where another item belongs")
        ordered[position] = item
    return ordered


def rows_of(vectors: Sequence[Any], count: int) -> NDArray[np.float64]:
    """The vectors, shape (count, width), each a list of numbers or float32 in base64.

    Raises:
        MalformedAnswerError: they are too few or many, of several widths, empty, not numbers,
            not finite, or zero.
    """
    if len(vectors) != count:
        raise MalformedAnswerError(f"has {len(vectors)} vectors for {count} texts")
    try:
        with np.errstate(all="ignore"):  # what is not finite is named below
            rows = np.array([_row(vector) for vector in vectors], dtype=np.float64)
    except (ValueError, TypeError, OverflowError, binascii.Error) as error:
        raise MalformedAnswerError(
            "has vectors that are no numbers, or of several widths"
        ) from error
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise MalformedAnswerError("has empty vectors")
    # By its largest value first: the square of a large or small number is none.
    largest = np.abs(rows).max(axis=1)
    bad = np.flatnonzero(~np.isfinite(largest) | (largest == 0))
    if bad.size:
        raise MalformedAnswerError(f"has a zero or infinite vector, at {bad[0]}")
    rows /= largest[:, np.newaxis]
    unit: NDArray[np.float64] = rows / np.linalg.norm(rows, axis=1)[:, np.newaxis]
    return unit


def numbers(values: Sequence[Any]) -> NDArray[np.float32]:
    """``values`` as float32.

    Raises:
        MalformedAnswerError: one is not a number, or not finite.
    """
    if not all(type(value) in (int, float) for value in values):
        raise MalformedAnswerError("has scores that are no numbers")
    try:
        with np.errstate(all="ignore"):
            found = np.array(values, dtype=np.float64).astype(np.float32)
    except OverflowError as error:
        raise MalformedAnswerError("has scores that are not finite") from error
    if not np.all(np.isfinite(found)):
        raise MalformedAnswerError("has scores that are not finite")
    return found


def scores_in(
    items: Sequence[Any], count: int, *, key: str = "relevance_score"
) -> NDArray[np.float32]:
    """The score of each of ``count`` texts, in their order; ``items`` have an ``index`` each.

    Raises:
        MalformedAnswerError: a score is missing, doubled, no number or not finite; or they are
            sorted without any index: nothing says of which text each is.
    """
    scores = numbers([at(item, key, of=object) for item in by_index(items, count)])
    named = any(item.get("index") is not None for item in items)
    if not named and np.all(scores[:-1] >= scores[1:]) and np.any(scores != scores[:1]):
        raise MalformedAnswerError("has sorted scores without any index: they may be of any text")
    return scores


def _row(vector: Any) -> Any:
    if isinstance(vector, str):
        return np.frombuffer(base64.b64decode(vector, validate=True), dtype="<f4")
    if not isinstance(vector, list) or not all(type(x) in (float, int) for x in vector):
        raise TypeError("a vector is a list of numbers")
    return vector


class EventFormat(Protocol):
    """Makes events of the lines of one stream, whoever reads them."""

    def feed(self, line: str) -> Iterator[dict[str, Any] | None]:
        """The events that end with ``line``; None for one that says that nothing follows.

        Raises:
            MalformedAnswerError: one is not a JSON object.
        """
        ...


class ServerSent:
    """The data of each event (WHATWG HTML, 9.2.6); None for OpenAI's closing "[DONE]".

    An event that the end of the stream cut short is left out, as the standard says.
    """

    def __init__(self) -> None:
        self._data: list[str] = []

    def feed(self, line: str) -> Iterator[dict[str, Any] | None]:
        if line:
            name, _, value = line.partition(":")
            if name == "data":
                self._data.append(value.removeprefix(" "))
        elif self._data:
            text, self._data = "\n".join(self._data), []
            yield None if text.strip() == "[DONE]" else _object(text)


class JsonLines:
    """The object in each line that is not blank."""

    def feed(self, line: str) -> Iterator[dict[str, Any] | None]:
        if line.strip():
            yield _object(line)


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedAnswerError("has an event that is not JSON") from error
    if not isinstance(found, dict):
        raise MalformedAnswerError("has an event that is not a JSON object")
    return found
