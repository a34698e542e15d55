"""A model that makes the vectors of one space, whatever their kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any, Generic, TypeVar

import attrs

from triptych.contracts import Embedder, SparseEncoder, VectorRepo, WorkLeases
from triptych.leases import LeaseHolder
from triptych.records import SparseVector, Vector, VectorSpace
from triptych.records.spaces import dense, sparse
from triptych.vectors.embedding import CoverageGate, embed
from triptych.vectors.executor import EmbedderOnExecutor, EncoderOnExecutor
from triptych.vectors.pace import Pace
from triptych.vectors.run import EmbeddingRun
from triptych.vectors.sparse_encoding import encode_sparse

V = TypeVar("V")


@attrs.frozen(eq=False)
class VectorModel(Generic[V]):
    """What the fillers of a space need of its model.

    Attributes:
        space: where its vectors belong.
        encode: the vectors of texts, in order: a call of the model.
        admits: whether it makes a vector of a text.
    """

    space: VectorSpace[V]
    encode: Callable[[Sequence[str]], list[V]]
    admits: Callable[[str], bool] = lambda _: True
    _pace: Pace = attrs.field(factory=Pace)

    def run(
        self,
        vectors: VectorRepo,
        dataset_id: str,
        concurrency: int = 1,
        leases: WorkLeases | None = None,
    ) -> EmbeddingRun[V]:
        """A run of the model for a dataset.

        ``leases`` keep two processes from asking for one text.
        """
        space = self.space
        place = space.sig if space.kind == "dense" else f"{space.kind} {space.sig}"
        claims = (
            None
            if leases is None
            else LeaseHolder(leases, json.dumps(["texts", dataset_id, place]))
        )
        return EmbeddingRun(
            self.encode,
            concurrency,
            lambda digests: vectors.known_vectors(dataset_id, space, digests),
            claims,
            self._pace,
        )


AnyModel = VectorModel[Any]


def embedding_model(embedder: Embedder, executor: Executor | None = None) -> VectorModel[Vector]:
    """The model of an embedder, whose calls run on ``executor``; None: in this process."""
    model = embedder if executor is None else EmbedderOnExecutor(embedder, executor)
    return VectorModel(
        dense(embedder.signature),
        lambda texts: list(embed(model, texts, kind="document")),
        CoverageGate(embedder).admits,
    )


def encoding_model(
    encoder: SparseEncoder, executor: Executor | None = None
) -> VectorModel[SparseVector]:
    """The model of a sparse encoder, likewise."""
    model = encoder if executor is None else EncoderOnExecutor(encoder, executor)
    return VectorModel(
        sparse(encoder.signature), lambda texts: encode_sparse(model, texts, kind="document")
    )
