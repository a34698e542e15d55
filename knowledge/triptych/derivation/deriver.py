"""Deriving chunk sets from documents: chunk, reuse known vectors, embed the rest.

Nothing here holds a lock or a transaction: the sources are committed before, the sets are
swapped in after. Work is batched across documents, and a text that the dataset has a
vector for is not embedded again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import attrs

from triptych._internal.close_on_exit import CloseOnExit
from triptych.chunking import ChunkerSet, ChunkSpec, byte_offsets, embedding_text, start_lines
from triptych.chunking.specs import embedded_title
from triptych.contracts import (
    ChunkRepo,
    DocumentRepo,
    Embedder,
    LayerRepo,
    SettingsStore,
    SparseEncoder,
)
from triptych.errors import ModelMismatchError
from triptych.records import (
    DatasetConfig,
    DerivedChunk,
    DerivedSig,
    DocumentInfo,
    SourceDocument,
    Vector,
    VectorSpace,
)
from triptych.records.spaces import dense
from triptych.signatures import content_sha256, document_input_sig, embedding_input_sig
from triptych.vectors.embedding import CoverageGate

if TYPE_CHECKING:
    from triptych._internal.progress import EmbeddingProgress
    from triptych.vectors.filler import Filler, FillResult
    from triptych.vectors.model import VectorModel

V = TypeVar("V")

EmbedAtOnce = Callable[[Mapping[str, Mapping[str, str]]], Mapping[str, Vector]]
"""Of texts by document name and digest, those vectors that are there soon, by digest."""


@attrs.frozen(kw_only=True)
class Derivation:
    """A document's new chunk set, and how many texts were embedded for it.

    ``missing`` are the texts, by digest, whose vectors the set waits for.
    """

    document: SourceDocument
    sig: DerivedSig
    chunks: tuple[DerivedChunk, ...] = ()
    missing: Mapping[str, str] = attrs.field(factory=dict)
    embedded: int = 0
    reused: int = 0


class KnownVectors(Protocol):
    """Where vectors are looked up: see `VectorRepo.known_vectors`."""

    def known_vectors(
        self, dataset_id: str, space: VectorSpace[V], digests: Sequence[str]
    ) -> Mapping[str, V]:
        """See `VectorRepo.known_vectors`."""
        ...


class Deriver:
    """Makes chunk sets under one configuration."""

    def __init__(
        self,
        chunks: KnownVectors,
        chunkers: ChunkerSet,
        embedder: Embedder | None,
        concurrency: int = 1,
        sparse_encoder: SparseEncoder | None = None,
        executor: Executor | None = None,
        next_embedder: Embedder | None = None,
        settings: SettingsStore | None = None,
    ) -> None:
        """``executor`` runs the calls of the models; None: threads of this process. ``settings``
        remember the texts that a model refuses.

        ``next_embedder`` serves the datasets whose configuration names it: see `of_space`.
        """
        self.next: Deriver | None = None
        if next_embedder is not None and (
            embedder is None or embedder.signature != next_embedder.signature
        ):
            self.next = Deriver(
                chunks,
                chunkers,
                next_embedder,
                concurrency,
                sparse_encoder,
                executor,
                settings=settings,
            )
        self._settings = settings
        self._executor = executor
        self.sparse_encoder = sparse_encoder
        self.sparse_sig: str = "" if sparse_encoder is None else sparse_encoder.signature
        self._chunkers = chunkers
        self._concurrency = concurrency
        self.embedder = embedder
        self.coverage: CoverageGate = CoverageGate(embedder)
        self._chunks = chunks
        self.embed_sig: str = "" if embedder is None else embedder.signature
        self.chunker_sig: str = chunkers.signature
        if executor is not None:
            _ = self.models  # one that cannot be sent is refused at once

    def over(self, chunks: KnownVectors, *, embeds: bool = True, encodes: bool = False) -> Deriver:
        """Return the same pipeline, which looks vectors up elsewhere, or makes none."""
        return Deriver(
            chunks,
            self._chunkers,
            self.embedder if embeds else None,
            self._concurrency,
            sparse_encoder=self.sparse_encoder if encodes else None,
            next_embedder=self.next.embedder if self.next is not None and embeds else None,
        )

    @cached_property
    def model(self) -> VectorModel[Vector] | None:
        """The embedder's."""
        from triptych.vectors.model import embedding_model  # only what writes needs it

        return None if self.embedder is None else embedding_model(self.embedder, self._executor)

    @cached_property
    def further(self) -> list[VectorModel[Any]]:
        """The sparse encoder's, where there is one."""
        from triptych.vectors.model import encoding_model

        encoder = self.sparse_encoder
        return [] if encoder is None else [encoding_model(encoder, self._executor)]

    @property
    def models(self) -> list[VectorModel[Any]]:
        """All models whose vectors chunk sets get."""
        return [*([] if self.model is None else [self.model]), *self.further]

    def of_space(self, embed_sig: str) -> Deriver:
        """Return the pipeline whose embedder has this signature; this one where neither has."""
        if self.next is not None and self.next.embed_sig == embed_sig:
            return self.next
        return self

    def of_config(self, config: DatasetConfig | None) -> Deriver:
        """Return the pipeline that derives a dataset of this configuration; this one for None."""
        return self if config is None else self.of_space(config.embed_sig)

    def expected_signature(
        self, document: SourceDocument | DocumentInfo, input_sig: str = ""
    ) -> DerivedSig:
        """The signature that a fresh chunk set of ``document`` carries.

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

    def derive(
        self,
        dataset_id: str,
        documents: Sequence[tuple[SourceDocument, DerivedSig]],
        embed: EmbedAtOnce | None = None,
    ) -> list[Derivation]:
        """The chunk sets of ``documents``, in order, with the vectors that are known.

        Each document comes with its `expected_signature`.
        ``embed`` is given the texts of the others, by document name and digest, and gives back
        those vectors that it has at once. A set that lacks a vector then waits for it.
        """
        drafts = [self._draft(document, sig) for document, sig in documents]
        known = self.known_vectors(dataset_id, [sig for draft in drafts for sig in draft.texts])
        fresh: Mapping[str, Vector] = {}
        if embed is not None and self.embedder is not None:
            missing = {
                draft.document.name: {
                    sig: text for sig, text in draft.texts.items() if sig not in known
                }
                for draft in drafts
            }
            fresh = embed(missing)
        vectors = {**known, **fresh}
        unclaimed = set(fresh)
        return [self._finish(draft, vectors, unclaimed) for draft in drafts]

    def _draft(self, document: SourceDocument, sig: DerivedSig) -> _Draft:
        """Chunk one document, and write down what each chunk's vector is made from."""
        content = document.content
        chunker = self._chunkers.for_document(
            document.name, document.metadata, document.system.outline
        )
        specs = chunker.chunk(content)
        # A title that is a heading is in the heading paths of its own section already: before
        # every chunk of the document it would make each of them depend on one heading's words.
        paths = (spec.heading_path for spec in specs)
        title = embedded_title(document.name, document.metadata, paths)
        every = [
            embedding_text(title, spec.heading_path, content[spec.start : spec.end])
            for spec in specs
        ]
        input_sigs = [embedding_input_sig(text) for text in every]
        texts: dict[str, str] = {}
        if self.embedder is not None:
            for input_sig, text in zip(input_sigs, every, strict=True):
                if input_sig not in texts and self.coverage.admits(text):
                    texts[input_sig] = text
        return _Draft(document=document, sig=sig, specs=specs, input_sigs=input_sigs, texts=texts)

    def known_vectors(self, dataset_id: str, digests: Sequence[str]) -> Mapping[str, Vector]:
        """Those vectors of this space that are there, by the digests of their texts."""
        wanted = list(dict.fromkeys(digests))
        if not wanted:
            return {}
        return self._chunks.known_vectors(dataset_id, dense(self.embed_sig), wanted)

    def filler(
        self,
        documents: DocumentRepo,
        chunks: ChunkRepo,
        model: VectorModel[V] | None,
        dataset_id: str,
        meter: EmbeddingProgress | None = None,
        layers: LayerRepo | None = None,
    ) -> Filler[V]:
        """What fills in the vectors of one of the models; see `Filler`."""
        from triptych._internal.progress import EmbeddingProgress
        from triptych.vectors.filler import Filler

        how = self._concurrency, self._settings
        run = None if model is None else model.run(chunks, dataset_id, *how)
        meter = meter or EmbeddingProgress(None)
        return Filler(documents, chunks, model, dataset_id, meter, run, layers)

    def _finish(
        self, draft: _Draft, vectors: Mapping[str, Vector], unclaimed: set[str]
    ) -> Derivation:
        """Put specs and vectors together; a text embedded now counts once, for whom it meets."""
        document, sig = draft.document, draft.sig
        missing = {digest: text for digest, text in draft.texts.items() if digest not in vectors}
        content = document.content
        offsets, lines = byte_offsets(content, draft.specs), start_lines(content, draft.specs)
        chunks = []
        embedded = reused = 0
        met: dict[str, int] = {}
        dataset_id, name = document.dataset_id, document.name
        waiting = bool(missing)
        for at, (spec, input_sig) in enumerate(zip(draft.specs, draft.input_sigs, strict=True)):
            vector = vectors.get(input_sig)
            if input_sig in unclaimed:
                unclaimed.discard(input_sig)
                embedded += 1
            elif vector is not None:
                reused += 1
            occurrence = met.get(input_sig, 0)
            met[input_sig] = occurrence + 1
            chunks.append(
                DerivedChunk(
                    dataset_id=dataset_id,
                    doc_name=name,
                    index=spec.index,
                    start=spec.start,
                    end=spec.end,
                    offset=offsets[at],
                    start_line=lines[at],
                    content=content[spec.start : spec.end],
                    vector=vector,
                    sig=DerivedSig(
                        source_version=sig.source_version,
                        chunker_sig=sig.chunker_sig,
                        embed_sig="" if waiting and vector is None else sig.embed_sig,
                        input_sig=input_sig,
                    ),
                    heading_path=spec.heading_path,
                    window_start=spec.window_start,
                    window_end=spec.window_end,
                    locator=spec.locator,
                    occurrence=occurrence,
                )
            )
        return Derivation(
            document=document,
            sig=attrs.evolve(sig, embed_sig="") if missing else sig,
            chunks=tuple(chunks),
            missing=missing,
            embedded=embedded,
            reused=reused,
        )


@attrs.frozen(kw_only=True)
class _Draft:
    document: SourceDocument
    sig: DerivedSig
    specs: Sequence[ChunkSpec]
    input_sigs: list[str]
    texts: dict[str, str]
    """What is to be embedded, by digest: the texts that the embedder covers."""


@attrs.define(eq=False, slots=False)
class SetFiller(CloseOnExit):
    """A `Filler` for the embedder, and one for each further model.

    Where the dataset is swapped to another embedder that ``deriver`` knows, it goes on with that
    one. Close it, or use it as a context manager.

    Attributes:
        deriver: the pipeline of the dataset's embedder.
        vectors: what fills in the embeddings.
        touched: the names whose sets were derived, or lacked embeddings.
    """

    _documents: DocumentRepo
    _chunks: ChunkRepo
    _known: Deriver
    _dataset_id: str
    _meter: EmbeddingProgress | None = None

    def __attrs_post_init__(self) -> None:
        self.deriver: Deriver = self._known
        if self.deriver.next is not None:
            self.deriver = self.deriver.of_config(self._chunks.config(self._dataset_id))
        self._before: list[FillResult] = []
        self.vectors: Filler[Vector] = self._filler(self.deriver, self.deriver.model)
        self.touched: set[str] = set()
        self._further: list[Filler[Any]] = [
            self._filler(self._known, model) for model in self._known.further
        ]

    def _filler(self, deriver: Deriver, model: VectorModel[V] | None) -> Filler[V]:
        return deriver.filler(self._documents, self._chunks, model, self._dataset_id, self._meter)

    def follow(self) -> bool:
        """Go on with the dataset's embedder of now; False where that is no other one.

        What still waits is asked for again, and what was made is counted.
        """
        if self._known.next is None:
            return False
        deriver = self._known.of_config(self._chunks.config(self._dataset_id))
        if deriver is self.deriver:
            return False
        self.vectors.close()
        made = self.vectors.result()
        self._before.append(attrs.evolve(made, pending=(), failed=()))
        self.deriver = deriver
        self.vectors = self._filler(deriver, deriver.model)
        self.vectors.later(made.pending)
        return True

    def close(self) -> None:
        """Cancel what runs; idempotent."""
        with ExitStack() as all_:
            for filler in (self.vectors, *self._further):
                all_.push(filler)

    def lacking(self, names: Sequence[str] | None = None, *, embeddings: bool = False) -> None:
        """Fill in what these documents, in this order, or all lack of further models; of the
        embedder too, with ``embeddings``."""
        for filler in (*([self.vectors] if embeddings else []), *self._further):
            filler.lacking(names)

    def fail(self, error: Exception) -> None:
        """Nothing more will be filled: each set that still waits failed with ``error``."""
        for filler in (self.vectors, *self._further):
            filler.fail(error)

    def finish(self) -> None:
        """Fill everything: embeddings first.

        Raises:
            CancelledError: the deadline has passed; what was answered is stored.
            ModelMismatchError: the dataset has another model by now.
        """
        while True:
            try:
                self.vectors.finish()
                break
            except ModelMismatchError:
                if not self.follow():
                    raise
        for filler in self._further:
            filler.finish()

    def result(self) -> FillResult:
        """What became of all that was given; a set that lacks vectors of any kind is pending."""
        found = self.vectors.result()
        for earlier in self._before:
            found = _joined(earlier, found)
        for filler in self._further:
            more = filler.result()
            known = {failure.name for failure in found.failed}
            failed = tuple(failure for failure in more.failed if failure.name not in known)
            encoded = attrs.evolve(more, embedded=0, reused=0, encoded=more.embedded, failed=failed)
            found = _joined(found, encoded)
        return found


def _joined(left: FillResult, right: FillResult) -> FillResult:
    pending = dict.fromkeys([*left.pending, *right.pending])
    complete = dict.fromkeys([*left.complete, *right.complete])
    return attrs.evolve(
        left,
        complete=tuple(name for name in complete if name not in pending),
        pending=tuple(pending),
        embedded=left.embedded + right.embedded,
        reused=left.reused + right.reused,
        encoded=left.encoded + right.encoded,
        failed=(*left.failed, *right.failed),
    )
