"""The lanes of vectors that stores keep, each with the model that makes its vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import attrs

from triptych.contracts import ChunkRepo, Embedder
from triptych.contracts.models import how_to_set
from triptych.errors import NotAvailableError
from triptych.records import (
    DerivedSig,
    DocumentInfo,
    EmbedKind,
    Mode,
    ResolvedQuery,
    SourceDocument,
    SparseVector,
    StaleReason,
    Vector,
    VectorSpace,
)
from triptych.records.values import SpaceKind
from triptych.signatures import content_sha256, document_input_sig
from triptych.vectors.embedding import (
    CoverageGate,
    embed,
    embed_each,
    encode_sparse,
    mean_vector,
)

V = TypeVar("V")


@attrs.frozen(eq=False)
class Lane(ABC, Generic[V]):
    """A kind of vectors that stores keep, with the model that makes them.

    Attributes:
        name: a mode, and a key of ``min_scores`` and of `Hit.scores`.
        kind: the kind of the spaces of its vectors.
        maker: what messages call its model.
        vectors: what messages call its vectors.
        of_layers: whether layers have such vectors.
        model: what makes the vectors, None for nothing.
        gate: which texts the model takes.
        sig: the signature of the model, "" for none.
        space: the space of the model's vectors.
    """

    name: ClassVar[str]
    kind: ClassVar[SpaceKind]
    maker: ClassVar[str]
    vectors: ClassVar[str]
    of_layers: ClassVar[bool]
    model: Any
    gate: CoverageGate = attrs.field(init=False)
    sig: str = attrs.field(init=False)
    space: VectorSpace[V] = attrs.field(init=False)

    @gate.default
    def _gate(self) -> CoverageGate:
        return CoverageGate(self.model)

    @sig.default
    def _sig(self) -> str:
        return "" if self.model is None else self.model.signature

    @space.default
    def _space(self) -> VectorSpace[V]:
        return VectorSpace(self.kind, self.sig)

    @property
    def option(self) -> str:
        """The option that sets the model."""
        return self.maker.replace(" ", "_")

    @abstractmethod
    def encode(self, texts: Sequence[str], *, kind: EmbedKind = "document") -> list[V]:
        """Return the vector of each text, checked.

        Raises:
            ProviderError: the model failed.
        """

    def query_vector(self, query: ResolvedQuery) -> V:
        """Return what a search looks for.

        Raises:
            NotAvailableError: the model takes too little of the query.
            ProviderError: the model failed.
        """
        (vector,) = self.encode([query.text], kind="query")
        return vector


class DenseLane(Lane[Vector]):
    """The vectors of an embedder."""

    name: ClassVar[str] = Mode.VECTOR
    kind: ClassVar[SpaceKind] = "dense"
    maker: ClassVar[str] = "embedder"
    vectors: ClassVar[str] = "vectors"
    of_layers: ClassVar[bool] = True

    def encode(self, texts: Sequence[str], *, kind: EmbedKind = "document") -> list[Vector]:
        return list(embed(self.model, texts, kind=kind))

    def query_vector(self, query: ResolvedQuery) -> Vector:
        """See `Lane.query_vector`: the mean of `ResolvedQuery.embedded`."""
        texts = query.embedded
        admitted = [each for each in texts if self.gate.admits(each[1])]
        if not admitted:
            raise NotAvailableError(self.gate.objection(texts[0][1]) or "nothing to embed")
        return mean_vector(list(embed_each(self.model, admitted).values()))


@attrs.frozen(eq=False)
class SparseLane(Lane[SparseVector]):
    """The vectors of a sparse encoder."""

    name: ClassVar[str] = "sparse"
    kind: ClassVar[SpaceKind] = "sparse"
    maker: ClassVar[str] = "sparse encoder"
    vectors: ClassVar[str] = "sparse vectors"
    of_layers: ClassVar[bool] = False
    _last: list[tuple[str, SparseVector]] = attrs.field(factory=list, init=False, repr=False)

    def encode(self, texts: Sequence[str], *, kind: EmbedKind = "document") -> list[SparseVector]:
        return encode_sparse(self.model, texts, kind=kind)

    def query_vector(self, query: ResolvedQuery) -> SparseVector:
        """See `Lane.query_vector`: that of the last query is kept, which is asked again, deeper."""
        for text, known in self._last[:]:
            if text == query.text:
                return known
        vector = super().query_vector(query)
        self._last[:] = [(query.text, vector)]
        return vector


def check_keeps(chunks: ChunkRepo, models: ModelSet) -> None:
    """Refuse a model whose vectors the store does not keep.

    Raises:
        NotAvailableError: there is one.
    """
    for lane in models.lanes:
        if lane.kind not in chunks.kinds:
            raise NotAvailableError(
                f"the store keeps no {lane.vectors}, and the {lane.maker} {lane.sig!r} is "
                "configured: use a store that keeps them (memory, SQLite, files), or leave out "
                f"{lane.option}"
            )


def lane_of(model: object) -> Lane[Any]:
    """Return the lane of an embedder, of None likewise, or of a sparse encoder."""
    encodes = not hasattr(model, "embed") and hasattr(model, "encode")
    return SparseLane(model) if encodes else DenseLane(model)


def needs(mode: object) -> str:
    """Return what an error says of a mode that needs a model; "" for any other."""
    if mode != SparseLane.name:
        return ""
    lane = SparseLane(None)
    return f" (the mode {mode!r} needs a {lane.maker}: {how_to_set(lane.option)})"


class ModelSet:
    """The models of a Service, and the signatures that fresh derived data has.

    Attributes:
        kept: the lanes of vectors, also those without a model.
        lanes: those with a model; the first is the embedder's, also without one.
        embedder: what makes dense vectors, and their signature ``embed_sig`` ("" for none).
        coverage: which texts the embedder takes.
        chunker_sig: the signature of the chunkers.
        sigs: the signature of each of ``lanes``, by kind.
    """

    def __init__(self, dense: DenseLane, *further: Lane[Any], chunker_sig: str = "") -> None:
        self.kept: tuple[Lane[Any], ...] = (dense, *further)
        used = (each for each in further if each.model is not None)
        self.lanes: tuple[Lane[Any], ...] = (dense, *used)
        self.embedder: Embedder | None = dense.model
        self.embed_sig: str = dense.sig
        self.coverage: CoverageGate = dense.gate
        self.chunker_sig = chunker_sig
        self.sigs: Mapping[SpaceKind, str] = {lane.kind: lane.sig for lane in self.lanes}

    def only(self, kinds: Collection[SpaceKind]) -> ModelSet:
        """Return the same without the models of other kinds."""
        dense = DenseLane(self.embedder if "dense" in kinds else None)
        further = [each for each in self.lanes[1:] if each.kind in kinds]
        return ModelSet(dense, *further, chunker_sig=self.chunker_sig)

    def expected_signature(
        self, document: SourceDocument | DocumentInfo, input_sig: str = ""
    ) -> DerivedSig:
        """Return the signature that a fresh chunk set of ``document`` has.

        ``input_sig`` is the document's, where it is known: it reads the whole content.
        """
        if isinstance(document, DocumentInfo):
            input_sig = document.input_sig
        elif not input_sig:
            input_sig = document_input_sig(
                document.name,
                content_sha256(document.content),
                document.metadata,
                document.system.outline,
            )
        return DerivedSig(
            source_version=document.version,
            chunker_sig=self.chunker_sig,
            embed_sig=self.embed_sig,
            input_sig=input_sig,
        )

    def stale_reason(self, sig: DerivedSig, document: DocumentInfo) -> StaleReason | None:
        """Return why the chunk set of ``document`` with the signature ``sig`` is stale; None if it
        is fresh."""
        return sig.stale_reason(self.expected_signature(document))
