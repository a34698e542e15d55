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
    SettingsStore,
)
from triptych.records import (
    DerivedChunk,
    DerivedSig,
    SourceDocument,
    Vector,
    VectorSpace,
)
from triptych.records.spaces import dense
from triptych.signatures import embedding_input_sig
from triptych.vectors.lanes import Lane, ModelSet
from triptych.vectors.workers import Workers

if TYPE_CHECKING:
    from triptych._internal.progress import EmbeddingProgress
    from triptych.vectors.filler import Filler, FillResult

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
        models: ModelSet,
        concurrency: int = 1,
        executor: Executor | None = None,
        settings: SettingsStore | None = None,
    ) -> None:
        """``executor`` runs the calls of the models; None: threads of this process. ``settings``
        remember the texts that a model refuses.
        """
        self.models = models
        self._settings = settings
        self._executor = executor
        self._chunkers = chunkers
        self._concurrency = concurrency
        self._chunks = chunks
        self._workers = Workers()
        if executor is not None:
            _ = self.lanes  # a model that cannot be sent is refused at once

    def over(self, chunks: KnownVectors, models: ModelSet) -> Deriver:
        """Return the same with other ``models``, which looks vectors up elsewhere."""
        made = Deriver(chunks, self._chunkers, models, self._concurrency)
        made._workers = self._workers
        return made

    def close(self) -> None:
        """End the threads that call models; they start again when needed."""
        self._workers.close()

    @cached_property
    def lanes(self) -> Sequence[Lane[Any]]:
        """The lanes of the models, whose calls run on the executor; the embedder's is the first."""
        if self._executor is None:
            return self.models.lanes
        from triptych.vectors.executor import on_executor

        return [on_executor(lane, self._executor) for lane in self.models.lanes]

    def derive(
        self,
        dataset_id: str,
        documents: Sequence[tuple[SourceDocument, DerivedSig]],
        embed: EmbedAtOnce | None = None,
    ) -> list[Derivation]:
        """The chunk sets of ``documents``, in order, with the vectors that are known.

        Each document comes with its `ModelSet.expected_signature`.
        ``embed`` is given the texts of the others, by document name and digest, and gives back
        those vectors that it has at once. A set that lacks a vector then waits for it.
        """
        drafts = [self._draft(document, sig) for document, sig in documents]
        known = self.known_vectors(dataset_id, [sig for draft in drafts for sig in draft.texts])
        fresh: Mapping[str, Vector] = {}
        if embed is not None and self.models.embedder is not None:
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
        if self.models.embedder is not None:
            for input_sig, text in zip(input_sigs, every, strict=True):
                if input_sig not in texts and self.models.coverage.admits(text):
                    texts[input_sig] = text
        return _Draft(document=document, sig=sig, specs=specs, input_sigs=input_sigs, texts=texts)

    def known_vectors(self, dataset_id: str, digests: Sequence[str]) -> Mapping[str, Vector]:
        """Those vectors of this space that are there, by the digests of their texts."""
        wanted = list(dict.fromkeys(digests))
        if not wanted:
            return {}
        return self._chunks.known_vectors(dataset_id, dense(self.models.embed_sig), wanted)

    def filler(
        self,
        documents: DocumentRepo,
        chunks: ChunkRepo,
        lane: Lane[V],
        dataset_id: str,
        meter: EmbeddingProgress | None = None,
    ) -> Filler[V]:
        """What fills in the vectors of one of the lanes; see `Filler`."""
        from triptych._internal.progress import EmbeddingProgress
        from triptych.vectors.filler import Filler
        from triptych.vectors.refused import RefusedTexts
        from triptych.vectors.run import EmbeddingRun

        run: EmbeddingRun[V] | None = None
        if lane.model is not None:
            run = EmbeddingRun(
                lane.encode,
                self._concurrency,
                lambda digests: chunks.known_vectors(dataset_id, lane.space, digests),
                RefusedTexts(self._settings, dataset_id, lane.space),
                self._workers,
            )
        return Filler(documents, chunks, lane, dataset_id, meter or EmbeddingProgress(None), run)

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
        columns = zip(draft.specs, draft.input_sigs, offsets, lines, strict=True)
        for spec, input_sig, offset, line in columns:
            start, end = spec.start, spec.end
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
                    start=start,
                    end=end,
                    offset=offset,
                    start_line=line,
                    content=content[start:end],
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
    """A `Filler` for each lane of vectors. Close it, or use it as a context manager.

    Attributes:
        fillers: those of all lanes, in order.
        vectors: the first, which fills in the embeddings.
        touched: the names whose sets were derived, or lacked embeddings.
    """

    _documents: DocumentRepo
    _chunks: ChunkRepo
    _deriver: Deriver
    _dataset_id: str
    _meter: EmbeddingProgress | None = None

    def __attrs_post_init__(self) -> None:
        where, rest = (self._documents, self._chunks), (self._dataset_id, self._meter)
        self.fillers: list[Filler[Any]] = [
            self._deriver.filler(*where, lane, *rest) for lane in self._deriver.lanes
        ]
        self.vectors: Filler[Vector] = self.fillers[0]
        self.touched: set[str] = set()

    def close(self) -> None:
        """Cancel what runs; idempotent."""
        with ExitStack() as all_:
            for filler in self.fillers:
                all_.push(filler)

    def lacking(self, names: Sequence[str] | None = None, *, embeddings: bool = False) -> None:
        """Fill in what these documents, in this order, or all lack of further models; of the
        embedder too, with ``embeddings``."""
        for filler in self.fillers[0 if embeddings else 1 :]:
            filler.lacking(names)

    def fail(self, error: Exception) -> None:
        """Nothing more will be filled: each set that still waits failed with ``error``."""
        for filler in self.fillers:
            filler.fail(error)

    def finish(self) -> None:
        """Fill everything: embeddings first.

        Raises:
            CancelledError: the deadline has passed; what was answered is stored.
            ModelMismatchError: the dataset has another model by now.
        """
        for filler in self.fillers:
            filler.finish()

    def result(self) -> FillResult:
        """What became of all that was given; a set that lacks vectors of any kind is pending."""
        found = self.vectors.result()
        for filler in self.fillers[1:]:
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
