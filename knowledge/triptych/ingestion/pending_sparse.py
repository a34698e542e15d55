"""Sparse vectors, which come after their chunks: asked for, and stored in small transactions."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from triptych.chunking import embedding_text
from triptych.contracts import ChunkRepo, DocumentRepo
from triptych.errors import ModelMismatchError
from triptych.ingestion.batches import EmbeddingProgress
from triptych.ingestion.derivation import DerivationPipeline
from triptych.ingestion.embedding_run import EmbeddingRun
from triptych.ingestion.filler import Filler, Given, Waiting
from triptych.ingestion.sparse_encoding import SparseLane
from triptych.records import SparseVector
from triptych.records.metadata import text_of
from triptych.signatures import embedding_input_sig

__all__ = ["SparseFiller"]


class SparseFiller(Filler[SparseVector]):
    """Gives the sets of one dataset the sparse vectors of their encoder.

    A vector goes by the digest of its text, so it suits a chunk whatever becomes of its document:
    the store itself knows which sets are whole.
    """

    def __init__(
        self,
        documents: DocumentRepo,
        chunks: ChunkRepo,
        deriver: DerivationPipeline,
        lane: SparseLane,
        dataset_id: str,
        meter: EmbeddingProgress | None = None,
    ) -> None:
        super().__init__(documents, chunks, deriver.sparse_run(dataset_id, lane), dataset_id, meter)
        self._lane = lane

    def lacking(self, doc_names: Collection[str] | None = None) -> None:
        """Fill those sets of these documents, or of all, that wait."""
        repo, space = self._lane.repo, self._lane.signature
        waiting = repo.sparse_pending(self._dataset_id, space, doc_names)
        self.later(name for name in waiting if name not in self._pending)

    def _read(self, name: str, run: EmbeddingRun[SparseVector]) -> None:
        dataset_id, lane = self._dataset_id, self._lane
        info = self._documents.get_info(dataset_id, name)
        if info is None or not lane.repo.sparse_pending(dataset_id, lane.signature, [name]):
            self.forget(name)  # it is gone, or another filler was here first
            return
        texts: dict[str, str] = {}
        places: list[tuple[str, int]] = []
        title = text_of(info.metadata, "title") or None
        for chunk in self._chunks.iter_chunks(dataset_id, name):
            text = embedding_text(title, chunk.heading_path, chunk.content)
            digest = chunk.sig.input_sig
            if digest != embedding_input_sig(text):
                return  # its text is stale: to be derived again, and pending till then
            texts[digest] = text
            places.append((digest, chunk.index))
        known = dict(lane.repo.known_sparse_vectors(dataset_id, lane.signature, list(texts)))
        lacking = [(digest, index) for digest, index in places if digest not in known]
        left = {digest: text for digest, text in texts.items() if digest not in known}
        new = self._ask(name, left, lacking, Waiting(set(left)))
        self._reused += len(places) - len(lacking)
        self._begin(name, new, {}, run)

    def _store(self, given: Sequence[Given[SparseVector]], ends: Sequence[str]) -> Sequence[str]:
        names = sorted({*(each.name for each in given), *ends})
        vectors = {each.digest: each.vector for each in given}
        done = set(
            self._lane.repo.add_sparse_vectors(
                self._dataset_id, self._lane.signature, names, vectors
            )
        )
        return [name for name in ends if name in done]

    def _look_at(self, refused: Sequence[str]) -> None:
        config = self._chunks.config(self._dataset_id)
        stored = "" if config is None else config.sparse_sig
        if config is not None and stored != self._lane.signature:
            raise ModelMismatchError(
                f"the dataset {self._dataset_id!r} was given another sparse encoder meanwhile, "
                f"{stored or 'none'!r}: what {self._lane.signature!r} encodes was not stored",
                stored=stored,
                configured=self._lane.signature,
            )
        there = self._chunks.get_doc_sigs(self._dataset_id, refused)
        for name in refused:
            if name not in there:
                self.forget(name)
            # Else the set was replaced: the next to fill sees it.
