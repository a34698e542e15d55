"""The vector spaces of models."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeAlias, TypeVar, get_args

import attrs
import numpy as np
from numpy.typing import NDArray

from triptych.records.derived import DatasetConfig
from triptych.records.sparse_vectors import SparseVector
from triptych.records.values import SpaceKind, Vector


def cosine_similarity(
    left: Sequence[float] | NDArray[np.floating], right: Sequence[float] | NDArray[np.floating]
) -> float:
    """Return the cosine of the angle between two vectors, from -1 to 1.

    It is 0 if the dimensions differ, or if either vector is empty or has zero norm.
    """
    a, b = np.asarray(left, dtype=np.float64), np.asarray(right, dtype=np.float64)
    if a.shape != b.shape or a.size == 0:
        return 0.0
    norms = float(np.linalg.norm(a)) * float(np.linalg.norm(b))
    return float(a @ b) / norms if norms else 0.0


KINDS: tuple[SpaceKind, ...] = get_args(SpaceKind)

AnyVector: TypeAlias = Vector | SparseVector

V = TypeVar("V")


@attrs.frozen(slots=True)
class VectorSpace(Generic[V]):
    """The vector space of one model: its ``kind`` and the model's signature ("" for no model)."""

    kind: SpaceKind
    sig: str

    def serves(self, config: DatasetConfig | None) -> bool:
        """Return whether searches of a dataset with this configuration use the space."""
        return config is not None and bool(self.sig) and self.sig == config.sigs[self.kind]


AnySpace: TypeAlias = VectorSpace[Any]


@attrs.frozen(kw_only=True, slots=True)
class StoredSpace:
    """The vectors of one model in one dataset, one for each distinct text: not of an embedder.

    Attributes:
        kind: the kind of the space.
        sig: the model's signature.
        vectors: how many there are.
        size: their size in the store in bytes.
        pending: the documents that wait for vectors, if searches use the space.
    """

    kind: SpaceKind
    sig: str
    vectors: int = 0
    size: int = 0
    pending: int = 0


def serving(config: DatasetConfig | None) -> tuple[AnySpace, ...]:
    """Return the spaces that searches of a dataset with this configuration use."""
    sigs = {} if config is None else config.sigs
    return tuple(VectorSpace(kind, sig) for kind in KINDS if (sig := sigs.get(kind)))


def further(config: DatasetConfig | None) -> tuple[AnySpace, ...]:
    """Return those of `serving` that are not dense."""
    return tuple(space for space in serving(config) if space.kind != "dense")


def vector_text(vector: Any) -> str:
    """Return a vector that is not dense as text."""
    return base64.b64encode(vector.to_bytes()).decode("ascii")


def vector_of_text(kind: SpaceKind, text: str) -> Any:
    """Return the vector of this kind that `vector_text` wrote.

    Raises:
        ValueError: it is something else, or damaged.
    """
    return CODECS[kind].from_bytes(base64.b64decode(text, validate=True))


CODECS: Mapping[SpaceKind, type[SparseVector]] = {"sparse": SparseVector}
"""What reads and writes the vectors of each kind that is not dense."""


def dense(embed_sig: str) -> VectorSpace[Vector]:
    """Return the space of an embedder."""
    return VectorSpace("dense", embed_sig)


def sparse(sparse_sig: str) -> VectorSpace[SparseVector]:
    """Return the space of a sparse encoder."""
    return VectorSpace("sparse", sparse_sig)
