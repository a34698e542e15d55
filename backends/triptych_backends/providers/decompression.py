"""Unpacking an answer while it comes, in small pieces, so that its size is never a surprise."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

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
