"""What a server sends, read within bounds: its bodies, its lines, what strangers say."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from typing import Final

from triptych.errors import StoreError
from triptych_backends.providers.httpx_imports import httpx
from triptych_backends.providers.timeouts import CallClock

MOST: Final = 256 << 20
"""Bytes of one answer that are read."""
_MOST_OF_A_FAILURE: Final = 1 << 16
_MOST_OF_A_LINE: Final = 64 << 20
_SHOWN: Final = 200
_HIDDEN: Final = re.compile(
    r"<(style|script)\b(?:[^<]|<(?!/\1))*+(?:</\1\s*>|\Z)|<[^<>]*+>", re.IGNORECASE
)


async def read_body(answer: httpx.Response, url: str, clock: CallClock) -> bytes:
    """The body of an answer; of a failure, its beginning.

    Raises:
        StoreError: it is longer than `MOST`, or compressed, which nobody asked for.
    """
    _check_plain(answer, url)
    most = MOST if answer.is_success else _MOST_OF_A_FAILURE
    parts, size, pieces = [], 0, answer.aiter_raw()
    while (part := await clock.next(pieces)) is not None:
        parts.append(part)
        size += len(part)
        if size > most:
            if not answer.is_success:
                break
            raise _too_long(url)
    return b"".join(parts)


async def lines_of(answer: httpx.Response, url: str, clock: CallClock) -> AsyncGenerator[str, None]:
    """The lines of an answer, as they come.

    Raises:
        StoreError: a line or the whole is too long, or it is compressed.
    """
    _check_plain(answer, url)
    size, line, pieces = 0, bytearray(), answer.aiter_raw()
    while (part := await clock.next(pieces)) is not None:
        size += len(part)
        *ended, rest = part.split(b"\n")
        for each in ended:
            yield (line + each).removesuffix(b"\r").decode("utf-8", "replace")
            line.clear()
        line += rest
        if size > MOST or len(line) > _MOST_OF_A_LINE:
            raise _too_long(url)
    if line:
        yield line.decode("utf-8", "replace")


def stranger(body: bytes) -> str:
    """What a failure that Triptych did not write says, in a few words: HTML without its tags."""
    text = body[:_MOST_OF_A_FAILURE].decode("utf-8", "replace")
    if text.lstrip()[:1] == "<":
        text = _HIDDEN.sub(" ", text)
    words = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return words if len(words) <= _SHOWN else f"{words[:_SHOWN]}…"


def _check_plain(answer: httpx.Response, url: str) -> None:
    # A few bytes may be decompressed to gigabytes at once: it is asked for plain.
    encoding = answer.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise StoreError(
            f"the answer of {url} is compressed ({encoding!r:.40}), and plain text was asked for: "
            "does a proxy stand in front of the server?"
        )


def _too_long(url: str) -> StoreError:
    return StoreError(
        f"the answer of the server at {url} is longer than {MOST >> 20} MiB, and was not read to "
        "its end: ask for less at a time"
    )
