"""Sparse vectors, and their bytes."""

from __future__ import annotations

import struct
import zlib
from functools import reduce
from operator import add
from typing import Any

import attrs
import numpy as np
from numpy.typing import ArrayLike, NDArray

from triptych.errors import ValidationError

_HEAD = struct.Struct("<BI")
_MOST = 2**32 - 1
_NARROW = 2**16


def _indices(values: ArrayLike) -> NDArray[np.uint32]:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValidationError("the indices of a sparse vector are one row of whole numbers")
    if array.size and (int(array.min()) < 0 or int(array.max()) > _MOST):
        raise ValidationError(f"the indices of a sparse vector lie between 0 and {_MOST}")
    return _kept(array.astype(np.uint32))


def _values(values: ArrayLike) -> NDArray[np.float32]:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "fiu"):
        raise ValidationError("the values of a sparse vector are one row of numbers")
    with np.errstate(over="ignore", under="ignore"):  # what float32 cannot hold is refused below
        return _kept(array.astype(np.float32))


def _kept(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


@attrs.frozen(eq=False, slots=True, repr=False)
class SparseVector:
    """The weights of some terms; all other terms have weight 0.

    ``indices`` are the numbers of the terms, uint32 of shape (terms,), ascending and distinct.
    ``values`` are their weights, float32 of the same shape, finite and above 0. Both are read-only
    copies, and may be empty.

    Raises:
        ValidationError: an array is invalid.
    """

    indices: NDArray[np.uint32] = attrs.field(converter=_indices)
    values: NDArray[np.float32] = attrs.field(converter=_values)

    def __attrs_post_init__(self) -> None:
        if self.indices.shape != self.values.shape:
            raise ValidationError(
                f"a sparse vector has {len(self.indices)} indices and {len(self.values)} values"
            )
        if not np.all(self.indices[1:] > self.indices[:-1]):
            raise ValidationError("the indices of a sparse vector ascend, each of them once")
        if not (np.isfinite(self.values).all() and (self.values > 0).all()):
            raise ValidationError("the values of a sparse vector are finite float32 above 0")

    def __len__(self) -> int:
        return len(self.indices)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SparseVector):
            return NotImplemented
        return np.array_equal(self.indices, other.indices) and np.array_equal(
            self.values, other.values
        )

    def __hash__(self) -> int:
        return hash((self.indices.tobytes(), self.values.tobytes()))

    def __repr__(self) -> str:
        return f"<SparseVector of {len(self)} terms>"

    @classmethod
    def of(cls, terms: ArrayLike, weights: ArrayLike, *, most: int | None = None) -> SparseVector:
        """Return the vector of distinct ``terms``, in any order, with their ``weights``.

        Weights of 0 and less are dropped. ``most`` is the maximum number of terms: the heaviest are
        kept, of equal weights those with the lower numbers.

        Raises:
            ValidationError: as `SparseVector`.
        """
        numbers, values = np.asarray(terms), np.asarray(weights)
        if numbers.ndim != 1 or numbers.shape != values.shape:
            raise ValidationError(
                f"terms of shape {numbers.shape} have weights of shape {values.shape}"
            )
        values = _values(values)
        kept = ~(values <= 0)  # what is not a number stays, and is refused
        numbers, values = numbers[kept], values[kept]
        if most is not None and len(numbers) > most:
            heaviest = np.lexsort((numbers, -values))[:most]
            numbers, values = numbers[heaviest], values[heaviest]
        order = np.argsort(numbers, kind="stable")
        if not len(numbers):
            numbers = np.empty(0, np.uint32)
        return cls(numbers[order], values[order])

    def dot(self, other: SparseVector) -> float:
        """Return the dot product, summed in float64 in the order of the terms."""
        _, mine, theirs = np.intersect1d(
            self.indices, other.indices, assume_unique=True, return_indices=True
        )
        products = self.values[mine].astype(np.float64) * other.values[theirs]
        # Not by `sum`, which rounds otherwise from Python 3.12 on than the stores do.
        return float(reduce(add, products.tolist(), 0.0))

    def to_bytes(self) -> bytes:
        """Serialize the vector in 5 bytes plus 6 bytes a term (8 if an index is above 65,535).

        The format, little-endian: one byte for the width of an index, a CRC-32 of all else, the
        indices, the values.
        """
        narrow = not len(self) or int(self.indices[-1]) < _NARROW
        width = 2 if narrow else 4
        body = self.indices.astype("<u2" if narrow else "<u4").tobytes()
        body += self.values.astype("<f4", copy=False).tobytes()
        return _HEAD.pack(width, zlib.crc32(body, width)) + body

    @classmethod
    def from_bytes(cls, data: bytes) -> SparseVector:
        """Deserialize the result of `to_bytes`.

        Raises:
            ValueError: ``data`` is invalid or damaged.
        """
        if not isinstance(data, bytes) or len(data) < _HEAD.size:
            raise ValueError("a sparse vector is cut short")
        width, checksum = _HEAD.unpack_from(data)
        body = data[_HEAD.size :]
        if width not in (2, 4) or len(body) % (width + 4) or zlib.crc32(body, width) != checksum:
            raise ValueError("a sparse vector fails its checksum")
        count = len(body) // (width + 4)
        indices = np.frombuffer(body, f"<u{width}", count)
        return cls(indices, np.frombuffer(body, "<f4", count, width * count))
