"""Packed answers: unpacked in small pieces, one packing at most."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from support.rows import each_row
from triptych_providers.response_parsing import PackedAnswerError, Unpacker


def unpacked(pieces: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    unpacker = Unpacker(encoding)
    for piece in pieces:
        yield from unpacker.feed(piece)
    yield from unpacker.end()


def cut(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


@given(
    st.lists(st.binary(max_size=3000), max_size=4),
    st.integers(1, 500),
    st.sampled_from(["gzip", "x-gzip", "GZIP", " gzip ", "identity, gzip"]),
    st.integers(0, 3),
)
def test_what_was_packed_comes_out(
    members: list[bytes], size: int, encoding: str, zeros: int
) -> None:
    packed = b"".join(map(gzip.compress, members)) + b"\0" * (zeros if members else 0)
    assert b"".join(unpacked(cut(packed, size), encoding)) == b"".join(members)


@given(st.lists(st.binary(max_size=99)), st.sampled_from(["", "identity", " , ", "Identity"]))
def test_what_was_not_packed_passes(pieces: list[bytes], encoding: str) -> None:
    assert list(unpacked(pieces, encoding)) == pieces


@each_row(
    "encoding",
    ["gzip, gzip", "deflate, gzip", "br", "zstd", "deflate", "gzip,gzip,gzip", "x" * 999],
)
def test_other_packings_are_refused_before_anything_is_unpacked(encoding: str) -> None:
    with pytest.raises(PackedAnswerError, match="where gzip at most was asked for"):
        list(unpacked([gzip.compress(gzip.compress(b"x"))], encoding))


@given(st.binary(min_size=1, max_size=500), st.data())
def test_damage_is_named(content: bytes, data: st.DataObject) -> None:
    packed = gzip.compress(content)
    short = packed[: data.draw(st.integers(1, len(packed) - 1))]
    with pytest.raises(PackedAnswerError, match="end in the middle"):
        list(unpacked([short], "gzip"))
    with pytest.raises(PackedAnswerError, match="do not unpack"):
        list(unpacked([packed + b"more"], "gzip"))


@given(st.binary(max_size=200), st.integers(1, 50))
def test_nothing_else_comes_out_of_noise(noise: bytes, size: int) -> None:
    with suppress(PackedAnswerError):
        list(unpacked(cut(noise, size), "gzip"))


def test_a_bomb_is_never_in_memory() -> None:
    bomb = gzip.compress(bytes(1 << 28))
    assert len(bomb) < 300_000
    tracemalloc.start()
    try:
        assert sum(map(len, unpacked(iter([bomb]), "gzip"))) == 1 << 28
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_empty_pieces_say_that_time_passes() -> None:
    packer = zlib.compressobj(wbits=31)
    begin = packer.compress(b"") + packer.flush(zlib.Z_SYNC_FLUSH)
    pieces = [begin, *[b"\0\0\0\xff\xff"] * 5, packer.flush()]
    assert list(unpacked(pieces, "gzip")) == [b""] * 7
