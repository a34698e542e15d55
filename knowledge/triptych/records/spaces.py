"""Vector spaces: what vectors of one model, which may be compared, belong to."""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeAlias, TypeVar

import attrs

from triptych.records.derived import DatasetConfig
from triptych.records.sparse import SparseVector
from triptych.records.values import Vector

SpaceKind: TypeAlias = Literal["dense", "sparse"]
"""What the vectors of a space are: of an embedder, or of a sparse encoder."""

AnyVector: TypeAlias = Vector | SparseVector

V = TypeVar("V")


@attrs.frozen(slots=True)
class VectorSpace(Generic[V]):
    """The space of one model: its ``kind``, and the model's signature ("" for no model)."""

    kind: SpaceKind
    sig: str

    def serves(self, config: DatasetConfig | None) -> bool:
        """Whether searches of a dataset of this configuration use the space."""
        if config is None or not self.sig:
            return False
        return self.sig == (config.embed_sig if self.kind == "dense" else config.sparse_sig)


AnySpace: TypeAlias = VectorSpace[Any]


def dense(embed_sig: str) -> VectorSpace[Vector]:
    """The space of an embedder."""
    return VectorSpace("dense", embed_sig)


def sparse(sparse_sig: str) -> VectorSpace[SparseVector]:
    """The space of a sparse encoder."""
    return VectorSpace("sparse", sparse_sig)


@attrs.frozen(kw_only=True, slots=True)
class SpaceCount:
    """What a dataset keeps of one space.

    Attributes:
        space: the space.
        vectors: how many distinct texts have a vector.
        dimension: how wide each vector is; 0 before the first, and of sparse vectors.
        size: what sparse vectors take in the store, in bytes.
    """

    space: AnySpace
    vectors: int
    dimension: int = 0
    size: int = 0
