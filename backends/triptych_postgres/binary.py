"""Values in the binary forms that COPY takes: arrays, and the types of pgvector."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from triptych.errors import ValidationError
from triptych.records import SparseVector

SPARSE_WIDTH = 1_000_000_000
"""The greatest width of a sparsevec. Greater numbers of terms fold into it, which makes a product
greater, and never less."""

_MOST_TERMS = 16_000
# The types' numbers in every PostgreSQL.
BIGINTS = 1016
_BIGINT, _INTEGER, _TEXT = 20, 23, 25


def integer_arrays(values: NDArray[np.int32], bounds: NDArray[np.int64]) -> list[bytes]:
    """Each run of ``values`` between two neighbouring ``bounds`` as an integer[]."""
    cells = np.empty((len(values), 2), ">i4")
    cells[:, 0], cells[:, 1] = 4, values
    body = cells.tobytes()
    edges = bounds.tolist()
    return [
        _array(_INTEGER, end - start, body[start * 8 : end * 8]) for start, end in pairwise(edges)
    ]


def bigint_array(values: Sequence[int]) -> bytes:
    """``values`` as a bigint[]. Raises OverflowError."""
    cells = np.empty(len(values), [("size", ">i4"), ("value", ">i8")])
    cells["size"], cells["value"] = 8, values
    return _array(_BIGINT, len(values), cells.tobytes())


@lru_cache(maxsize=1024)
def text_array(values: tuple[str, ...]) -> bytes:
    """``values`` as a text[]."""
    cells = [value.encode() for value in values]
    return _array(_TEXT, len(cells), b"".join(struct.pack(">i", len(c)) + c for c in cells))


def _array(kind: int, count: int, body: bytes) -> bytes:
    if not count:
        return struct.pack(">iii", 0, 0, kind)
    return struct.pack(">iiiii", 1, 0, kind, count, 1) + body


def halfvecs(rows: Sequence[bytes]) -> list[bytes]:
    """Rows of little-endian float32, each as a halfvec."""
    body = np.frombuffer(b"".join(rows), "<f4").astype(">f2").tobytes()
    found, at = [], 0
    for row in rows:
        size = len(row) // 2
        found.append(struct.pack(">hh", len(row) // 4, 0) + body[at : at + size])
        at += size
    return found


def halfvec_text(values: NDArray[np.float32]) -> str:
    """A vector as a parameter."""
    return f"[{','.join(map(repr, values.tolist()))}]"


def sparsevec(vector: SparseVector) -> bytes:
    """A sparse vector as a sparsevec."""
    indices, values = _folded(vector)
    return (
        struct.pack(">iii", SPARSE_WIDTH, len(indices), 0)
        + indices.astype(">i4").tobytes()
        + values.astype(">f4").tobytes()
    )


def sparsevec_text(vector: SparseVector) -> str:
    """A sparse vector as a parameter; in text the numbers begin with 1."""
    indices, values = _folded(vector)
    pairs = zip((indices + 1).tolist(), values.tolist(), strict=True)
    return f"{{{','.join(f'{index}:{value!r}' for index, value in pairs)}}}/{SPARSE_WIDTH}"


def _folded(vector: SparseVector) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    indices = vector.indices.astype(np.int64)
    values: NDArray[np.float32] = vector.values
    if len(indices) > _MOST_TERMS:
        raise ValidationError(
            f"a sparse vector of {len(indices)} terms is more than PostgreSQL holds "
            f"({_MOST_TERMS}): let the encoder keep fewer"
        )
    if len(indices) and indices[-1] >= SPARSE_WIDTH:
        indices, places = np.unique(indices % SPARSE_WIDTH, return_inverse=True)
        values = np.bincount(places, values, len(indices)).astype(np.float32)
    # What rounds to nothing would not be one of its terms.
    kept = values > 0
    return indices[kept], values[kept]
