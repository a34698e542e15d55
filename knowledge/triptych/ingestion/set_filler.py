"""Everything that chunk sets get after they are stored: embeddings, and sparse vectors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack

import attrs

from triptych._internal.close_on_exit import CloseOnExit
from triptych.contracts import ChunkRepo, DocumentRepo
from triptych.errors import ModelMismatchError
from triptych.ingestion.batches import EmbeddingProgress
from triptych.ingestion.derivation import Derivation, DerivationPipeline
from triptych.ingestion.filler import FillResult
from triptych.ingestion.pending import VectorFiller
from triptych.ingestion.pending_sparse import SparseFiller
from triptych.records import Vector

__all__ = ["SetFiller"]


class SetFiller(CloseOnExit):
    """A `VectorFiller`, and a `SparseFiller` where there is a sparse encoder.

    Where the dataset is swapped to another embedder that ``deriver`` knows, it goes on with that
    one. Close it, or use it as a context manager.

    Attributes:
        deriver: the pipeline of the dataset's embedder.
        vectors: what fills in the embeddings.
        touched: the names whose sets were derived, or lacked embeddings.
    """

    def __init__(
        self,
        documents: DocumentRepo,
        chunks: ChunkRepo,
        deriver: DerivationPipeline,
        dataset_id: str,
        meter: EmbeddingProgress | None = None,
    ) -> None:
        self.deriver: DerivationPipeline = deriver
        self._known = deriver
        if deriver.next is not None:
            self.deriver = deriver.of_config(chunks.config(dataset_id))
        self._documents = documents
        self._chunks = chunks
        self._dataset_id = dataset_id
        self._meter = meter
        self._before: list[FillResult] = []
        self.vectors: VectorFiller = self._filler()
        self.touched: set[str] = set()
        self._sparse: SparseFiller | None = None
        if deriver.sparse is not None:
            self._sparse = SparseFiller(
                documents, chunks, deriver, deriver.sparse, dataset_id, meter
            )

    def _filler(self) -> VectorFiller:
        return VectorFiller(
            self._documents, self._chunks, self.deriver, self._dataset_id, self._meter
        )

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
        self.vectors = self._filler()
        self.vectors.later(made.pending)
        return True

    def close(self) -> None:
        """Cancel what runs; idempotent."""
        with ExitStack() as both:
            both.push(self.vectors)
            if self._sparse is not None:
                both.push(self._sparse)

    @property
    def slow(self) -> bool:
        """See `VectorFiller.slow`."""
        return self.vectors.slow

    def at_once(self, texts: Mapping[str, Mapping[str, str]]) -> Mapping[str, Vector]:
        """See `VectorFiller.at_once`."""
        return self.vectors.at_once(texts)

    def check(self) -> None:
        """See `VectorFiller.check`."""
        self.vectors.check()

    def adopt(self, derivation: Derivation) -> None:
        """See `VectorFiller.adopt`."""
        self.vectors.adopt(derivation)

    def later(self, names: Iterable[str]) -> None:
        """Fill in the embeddings of these documents, which are read when their turn comes."""
        self.vectors.later(names)

    def lacking_sparse(self, names: Collection[str] | None = None) -> None:
        """Fill in the sparse vectors of those of these documents, or of all, that lack them."""
        if self._sparse is not None:
            self._sparse.lacking(names)

    def later_sparse(self, names: Iterable[str]) -> None:
        """Fill in the sparse vectors of these documents, in this order."""
        if self._sparse is not None:
            self._sparse.later(names)

    def fail(self, error: Exception) -> None:
        """Nothing more will be filled: each set that still waits failed with ``error``."""
        self.vectors.fail(error)
        if self._sparse is not None:
            self._sparse.fail(error)

    def poll(self) -> None:
        """Store what was answered meanwhile, without waiting, and ask for nothing more."""
        self.vectors.poll()

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
        if self._sparse is not None:
            self._sparse.finish()

    def result(self) -> FillResult:
        """What became of all that was given; a set that lacks vectors of any kind is pending."""
        found = self.vectors.result()
        for earlier in self._before:
            complete = dict.fromkeys([*earlier.complete, *found.complete])
            found = attrs.evolve(
                found,
                complete=tuple(name for name in complete if name not in found.pending),
                embedded=earlier.embedded + found.embedded,
                reused=earlier.reused + found.reused,
            )
        if self._sparse is None:
            return found
        sparse = self._sparse.result()
        pending = dict.fromkeys([*found.pending, *sparse.pending])
        complete = dict.fromkeys([*found.complete, *sparse.complete])
        known = {failure.name for failure in found.failed}
        more = [failure for failure in sparse.failed if failure.name not in known]
        return FillResult(
            complete=tuple(name for name in complete if name not in pending),
            pending=tuple(pending),
            embedded=found.embedded,
            reused=found.reused,
            encoded=sparse.embedded,
            failed=(*found.failed, *more),
        )
