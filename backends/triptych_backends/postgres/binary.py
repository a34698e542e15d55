"""Values in the binary forms that COPY takes: arrays, and the types of pgvector."""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from triptych.errors import ValidationError
from triptych.records import SparseVector

__all__ = [
    "SPARSE_WIDTH",
    "halfvec",
    "halfvec_text",
    "integer_array",
    "sparsevec",
    "sparsevec_text",
]

SPARSE_WIDTH = 1_000_000_000
"""The greatest width of a sparsevec. Greater numbers of terms fold into it, which makes a product
greater, and never less."""

_MOST_TERMS = 16_000
_INTEGER = 23  # the type's number in every PostgreSQL


def integer_array(values: NDArray[np.int32]) -> bytes:
    """``values`` as an integer[]."""
    if not len(values):
        return struct.pack(">iii", 0, 0, _INTEGER)
    cells = np.empty((len(values), 2), ">i4")
    cells[:, 0], cells[:, 1] = 4, values
    return struct.pack(">iiiii", 1, 0, _INTEGER, len(values), 1) + cells.tobytes()


def halfvec(data: bytes) -> bytes:
    """Little-endian float32 as a halfvec."""
    values = np.frombuffer(data, "<f4").astype(">f2")
    return struct.pack(">hh", len(values), 0) + values.tobytes()


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
