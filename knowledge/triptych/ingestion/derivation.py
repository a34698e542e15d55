"""From source documents to chunk sets: chunk, look up known vectors, embed the rest.

Nothing here holds a lock or a transaction: the sources are committed before, the sets are
swapped in after. Work is batched across documents, and a text that the dataset has a
vector for is not embedded again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from triptych import deadlines
from triptych._internal.concurrency import map_ordered
from triptych.chunking import (
    ChunkerSet,
    ChunkSpec,
    byte_offsets,
    embedding_text,
    start_lines,
)
from triptych.contracts import ChunkRepo, Embedder
from triptych.errors import CancelledError, ModelMismatchError
from triptych.ingestion.embedding import CoverageGate, embed
from triptych.records import DerivedChunk, DerivedSig, DocumentInfo, SourceDocument, Vector
from triptych.records.metadata import text_of
from triptych.signatures import content_sha256, document_input_sig, embedding_input_sig

__all__ = ["Derivation", "DerivationPipeline"]

EMBED_BATCH = 64


@attrs.frozen(kw_only=True)
class Derivation:
    """A document's new chunk set, or why there is none; and how many texts were embedded."""

    document: SourceDocument
    sig: DerivedSig
    chunks: tuple[DerivedChunk, ...] = ()
    embedded: int = 0
    reused: int = 0
    error: Exception | None = None


class DerivationPipeline:
    """Makes chunk sets under one configuration."""

    def __init__(
        self,
        chunks: ChunkRepo,
        chunkers: ChunkerSet,
        embedder: Embedder | None,
        concurrency: int = 1,
    ) -> None:
        self._chunkers = chunkers
        self._concurrency = concurrency
        self.embedder = embedder
        self.coverage: CoverageGate = CoverageGate(embedder)
        self._chunks = chunks
        self.embed_sig: str = "" if embedder is None else embedder.signature
        self.chunker_sig: str = chunkers.signature

    def expected_signature(self, document: SourceDocument | DocumentInfo) -> DerivedSig:
        """The signature that a fresh chunk set of ``document`` carries."""
        if isinstance(document, DocumentInfo):
            input_sig = document.input_sig
        else:
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
        documents: Sequence[SourceDocument],
        embedded: Callable[[int], None] | None = None,
    ) -> list[Derivation]:
        """The chunk sets of ``documents``, in order; one's failure is its own.

        ``embedded`` is told, batch by batch, how many more texts have been embedded.

        Raises:
            CancelledError: the deadline passed between two batches.
        """
        drafts = [self._draft(document) for document in documents]
        texts: dict[str, str] = {}
        if self.embedder is not None:
            for draft in drafts:
                for input_sig, text in zip(draft.input_sigs, draft.texts, strict=True):
                    if input_sig not in texts and self.coverage.admits(text):
                        texts[input_sig] = text
        known = self._known(dataset_id, texts)
        fresh, errors = self._embed(texts, known, drafts, embedded)
        vectors = {**known, **fresh}
        unclaimed = set(fresh)
        return [self._finish(draft, vectors, unclaimed, errors) for draft in drafts]

    def _draft(self, document: SourceDocument) -> _Draft:
        """Chunk one document, and write down what each chunk's vector is made from."""
        content = document.content
        chunker = self._chunkers.for_document(
            document.name, document.metadata, document.system.outline
        )
        specs = chunker.chunk(content)
        # A title that is a heading is in the heading paths of its own section already: before
        # every chunk of the document it would make each of them depend on one heading's words.
        title = text_of(document.metadata, "title") or None
        texts = [
            embedding_text(title, spec.heading_path, content[spec.start : spec.end])
            for spec in specs
        ]
        return _Draft(
            document=document,
            sig=self.expected_signature(document),
            specs=specs,
            input_sigs=[embedding_input_sig(text) for text in texts],
            texts=texts,
        )

    def _known(self, dataset_id: str, texts: Mapping[str, str]) -> Mapping[str, Vector]:
        if not texts:
            return {}
        return self._chunks.known_vectors(dataset_id, self.embed_sig, list(texts))

    def _embed(
        self,
        texts: Mapping[str, str],
        known: Mapping[str, Vector],
        drafts: Sequence[_Draft],
        embedded: Callable[[int], None] | None,
    ) -> tuple[dict[str, Vector], dict[str, Exception]]:
        """New vectors by digest, and the errors of those digests that have none."""
        vectors: dict[str, Vector] = {}
        errors: dict[str, Exception] = {}
        missing = [sig for sig in texts if sig not in known]
        batches = [missing[at : at + EMBED_BATCH] for at in range(0, len(missing), EMBED_BATCH)]
        tried = map_ordered(lambda batch: self._try(batch, texts), batches, self._concurrency)
        for batch, (made, error) in zip(batches, tried, strict=True):
            vectors.update(made)
            if embedded is not None:
                embedded(len(made))
            if error is not None:
                self._salvage(_by_document(batch, drafts), texts, error, vectors, errors)
        self._check_width(known, vectors)
        return vectors, errors

    def _salvage(
        self,
        parts: Sequence[Sequence[str]],
        texts: Mapping[str, str],
        error: Exception,
        vectors: dict[str, Vector],
        errors: dict[str, Exception],
    ) -> None:
        """A batch failed. One document may be to blame, so each gets a try of its own; after
        two failures in a row it is the embedder that is out, and the rest is not tried."""
        failures = 2 if len(parts) == 1 else 0
        for part in parts:
            if failures < 2:
                made, own = self._try(part, texts)
                vectors.update(made)
                failures = 0 if own is None else failures + 1
                error = own or error
                if own is None:
                    continue
            errors.update(dict.fromkeys(part, error))

    def _try(
        self, sigs: Sequence[str], texts: Mapping[str, str]
    ) -> tuple[dict[str, Vector], Exception | None]:
        deadlines.check("embedding")
        assert self.embedder is not None  # there are no texts without one
        try:
            rows = embed(self.embedder, [texts[sig] for sig in sigs], kind="document")
        except CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - an embedder may fail in any way
            return {}, error
        return dict(zip(sigs, rows, strict=True)), None

    def _check_width(self, known: Mapping[str, Vector], fresh: Mapping[str, Vector]) -> None:
        widths = {len(vector) for vectors in (known, fresh) for vector in vectors.values()}
        if len(widths) > 1:
            raise ModelMismatchError(
                f"the store holds vectors of {self.embed_sig!r} of another width than the "
                f"embedder now returns ({sorted(widths)}): give the new model its own signature",
                stored=self.embed_sig,
                configured=self.embed_sig,
            )

    def _finish(
        self,
        draft: _Draft,
        vectors: Mapping[str, Vector],
        unclaimed: set[str],
        errors: Mapping[str, Exception],
    ) -> Derivation:
        """Put specs and vectors together; a text embedded now counts once, for whom it meets."""
        document, sig = draft.document, draft.sig
        for input_sig in draft.input_sigs:
            if input_sig in errors:
                return Derivation(document=document, sig=sig, error=errors[input_sig])
        content = document.content
        offsets, lines = byte_offsets(content, draft.specs), start_lines(content, draft.specs)
        chunks = []
        embedded = reused = 0
        met: Counter[str] = Counter()
        for at, (spec, input_sig) in enumerate(zip(draft.specs, draft.input_sigs, strict=True)):
            vector = vectors.get(input_sig)
            if input_sig in unclaimed:
                unclaimed.discard(input_sig)
                embedded += 1
            elif vector is not None:
                reused += 1
            chunks.append(
                DerivedChunk(
                    dataset_id=document.dataset_id,
                    doc_name=document.name,
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
                        embed_sig=sig.embed_sig,
                        input_sig=input_sig,
                    ),
                    heading_path=spec.heading_path,
                    window_start=spec.window_start,
                    window_end=spec.window_end,
                    locator=spec.locator,
                    occurrence=met[input_sig],
                )
            )
            met[input_sig] += 1
        return Derivation(
            document=document, sig=sig, chunks=tuple(chunks), embedded=embedded, reused=reused
        )


@attrs.frozen(kw_only=True)
class _Draft:
    document: SourceDocument
    sig: DerivedSig
    specs: Sequence[ChunkSpec]
    input_sigs: list[str]
    texts: list[str]


def _by_document(batch: Iterable[str], drafts: Iterable[_Draft]) -> list[list[str]]:
    """The digests of a batch, grouped by the first document that needs them."""
    left = dict.fromkeys(batch)
    groups = []
    for draft in drafts:
        mine = [sig for sig in dict.fromkeys(draft.input_sigs) if sig in left]
        for sig in mine:
            del left[sig]
        if mine:
            groups.append(mine)
    return groups
