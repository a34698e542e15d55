"""Unpacking an answer while it comes, in small pieces, so that its size is never a surprise."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

__all__ = ["ACCEPTED", "PackedAnswerError", "unpacked"]

ACCEPTED = "gzip"
"""What is sent as ``accept-encoding``."""

_GZIP = frozenset({"gzip", "x-gzip"})
_PIECE = 1 << 16


class PackedAnswerError(ValueError):
    """The bytes are packed in a way that was not asked for, or damaged: says how the bytes are."""


def unpacked(pieces: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """What ``pieces`` hold, at most 64 KiB at a time; an empty one where nothing came out.

    Args:
        pieces: the body as it was sent.
        encoding: the ``content-encoding`` header, "" for none.

    Raises:
        PackedAnswerError: the encoding is none of gzip, or several, or the bytes are damaged
            or end too early.
    """
    steps = [step for each in encoding.split(",") if (step := each.strip().lower())]
    steps = [step for step in steps if step != "identity"]
    if not steps:
        yield from pieces
    elif len(steps) > 1 or steps[0] not in _GZIP:
        shown = ", ".join(steps)[:60]
        raise PackedAnswerError(f"are packed as {shown!r} where gzip at most was asked for")
    else:
        yield from _gunzipped(pieces)


def _gunzipped(pieces: Iterable[bytes]) -> Iterator[bytes]:
    member = zlib.decompressobj(zlib.MAX_WBITS | 16)
    begun = False
    for piece in pieces:
        rest = piece
        while True:
            if member.eof:  # other members may follow, or zeros
                if not (rest := rest.lstrip(b"\0")):
                    break
                member = zlib.decompressobj(zlib.MAX_WBITS | 16)
            begun = begun or bool(rest)
            try:
                yield member.decompress(rest, _PIECE)
            except zlib.error as error:
                raise PackedAnswerError("do not unpack as their header says") from error
            rest = member.unused_data if member.eof else member.unconsumed_tail
            if not rest:
                break
    # What the last pieces left inside: a full piece may have stopped short of it.
    while begun and not member.eof:
        try:
            more = member.decompress(b"", _PIECE)
        except zlib.error as error:
            raise PackedAnswerError("do not unpack as their header says") from error
        if not more:
            raise PackedAnswerError("end in the middle of what was packed")
        yield more
