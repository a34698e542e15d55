"""Embeddings that come after their chunks: asked for, and stored in small transactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from triptych.chunking import embedding_text
from triptych.contracts import ChunkRepo, DocumentRepo
from triptych.errors import CancelledError, ModelMismatchError
from triptych.ingestion.batches import EmbeddingProgress
from triptych.ingestion.derivation import Derivation, DerivationPipeline
from triptych.ingestion.embedding_run import EmbeddingRun
from triptych.ingestion.filler import Filler, Given, Waiting
from triptych.records import ChunkVector, CompleteSet, Vector
from triptych.records.metadata import text_of
from triptych.signatures import embedding_input_sig

__all__ = ["VectorFiller"]

_PATIENCE = 1.0
"""So many seconds a batch waits for its vectors; then it is stored without those it lacks."""


class VectorFiller(Filler[Vector]):
    """Gives the sets of one dataset the vectors of their embedder."""

    def __init__(
        self,
        documents: DocumentRepo,
        chunks: ChunkRepo,
        deriver: DerivationPipeline,
        dataset_id: str,
        meter: EmbeddingProgress | None = None,
    ) -> None:
        super().__init__(documents, chunks, deriver.run(dataset_id), dataset_id, meter)
        self._deriver = deriver
        self._handed_out: set[str] = set()
        self._cancelled: CancelledError | None = None

    @property
    def slow(self) -> bool:
        """Whether the embedder has texts that it did not answer at once: it is not waited for."""
        return bool(self._names or self._waiting) or (self.run is not None and self.run.waiting > 0)

    # What is to be filled

    def at_once(self, texts: Mapping[str, Mapping[str, str]]) -> Mapping[str, Vector]:
        """The vectors of texts, by document and digest, that the embedder has soon enough.

        The others it goes on with: `adopt` their sets. Where the deadline passes, `check` says so,
        once the sets are stored.
        """
        run = self.run
        if run is None:
            return {}
        for name, some in texts.items():
            run.add(name, some, looked_up=True)
        self._meter.expect(run.waiting)
        try:
            run.work(_PATIENCE, self._meter.advance)
        except CancelledError as error:
            self._cancelled = error
            run.drain()
        taken = run.take()
        self._handed_out.update(taken)
        return taken

    def check(self) -> None:
        """The sets are stored with what `at_once` gave: raise what it has met."""
        if self.run is not None:
            self.run.release(self._handed_out)
        self._handed_out.clear()
        if self._cancelled is not None:
            raise self._cancelled

    def adopt(self, derivation: Derivation) -> None:
        """Fill a set that was just stored; what it lacks was given to the run."""
        name = derivation.document.name
        self._pending[name] = None
        sig = attrs.evolve(derivation.sig, embed_sig=self._deriver.embed_sig)
        bare = [chunk for chunk in derivation.chunks if chunk.vector is None]
        lacking = [chunk for chunk in bare if chunk.sig.input_sig in derivation.missing]
        left = {chunk.sig.input_sig for chunk in lacking}
        self._waiting[name] = Waiting(left, sig, len(bare) - len(lacking))
        for chunk in lacking:
            self._targets.setdefault(chunk.sig.input_sig, []).append((name, chunk.index))
        if self.run is not None:
            self.run.add(name, derivation.missing)

    # Filling

    def _read(self, name: str, run: EmbeddingRun[Vector]) -> None:
        dataset_id, space = self._dataset_id, self._deriver.embed_sig
        info = self._documents.get_info(dataset_id, name)
        sig = self._chunks.get_doc_sig(dataset_id, name)
        if info is None or sig is None:
            self.forget(name)
            return
        want = self._deriver.expected_signature(info)
        if sig == want:
            self.forget(name)  # another filler was here first
            return
        if not sig.has_text_of(want):
            return  # its text is stale: to be derived again, and pending till then
        if sig.source_version != info.version:
            moved = attrs.evolve(want, embed_sig=sig.embed_sig)
            self._chunks.update_source_version(dataset_id, name, moved)
        texts: dict[str, str] = {}
        lacking: list[tuple[str, int]] = []
        without = 0
        title = text_of(info.metadata, "title") or None
        for chunk in self._chunks.iter_chunks(dataset_id, name, vectors=True):
            if chunk.vector is not None and chunk.sig.embed_sig == space:
                continue
            text = embedding_text(title, chunk.heading_path, chunk.content)
            digest = chunk.sig.input_sig
            if digest != embedding_input_sig(text):
                return  # another writer is at it
            if self._deriver.coverage.admits(text):
                texts[digest] = text
                lacking.append((digest, chunk.index))
            else:
                without += 1
        new = self._ask(name, texts, lacking, Waiting(set(texts), want, without))
        known = self._chunks.known_vectors(dataset_id, space, list(new)) if new else {}
        self._begin(name, new, dict(known), run)

    def _store(self, given: Sequence[Given[Vector]], ends: Sequence[str]) -> Sequence[str]:
        vectors = [
            ChunkVector(
                doc_name=each.name, index=each.index, input_sig=each.digest, vector=each.vector
            )
            for each in given
        ]
        complete = [
            CompleteSet(
                doc_name=name, sig=self._waiting[name].sig, without=self._waiting[name].without
            )
            for name in ends
        ]
        space = self._deriver.embed_sig
        return self._chunks.add_vectors(self._dataset_id, space, vectors, complete)

    def _look_at(self, refused: Sequence[str]) -> None:
        config = self._chunks.config(self._dataset_id)
        if config is not None and config.embed_sig != self._deriver.embed_sig:
            raise ModelMismatchError(
                f"the dataset {self._dataset_id!r} was given another model meanwhile, "
                f"{config.embed_sig or 'none'!r}: what is embedded with "
                f"{self._deriver.embed_sig!r} was not stored",
                stored=config.embed_sig,
                configured=self._deriver.embed_sig,
            )
        sigs = self._chunks.get_doc_sigs(self._dataset_id, refused)
        for name in refused:
            info = self._documents.get_info(self._dataset_id, name)
            sig = sigs.get(name)
            if info is None or sig is None or sig.embed_sig == self._deriver.embed_sig:
                self.forget(name)
            # Else the set was moved to a newer version, or replaced: the next to fill sees it.
