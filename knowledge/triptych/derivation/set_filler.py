"""Everything that chunk sets get after they are stored: vectors of every kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import attrs

from triptych._internal.close_on_exit import CloseOnExit
from triptych.contracts import ChunkRepo, DocumentRepo
from triptych.derivation.deriver import Derivation, Deriver
from triptych.errors import ModelMismatchError
from triptych.records import Vector
from triptych.vectors.filler import Filler, FillResult
from triptych.vectors.progress import EmbeddingProgress


class SetFiller(CloseOnExit):
    """A `Filler` for the embedder, and one for each further model.

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
        deriver: Deriver,
        dataset_id: str,
        meter: EmbeddingProgress | None = None,
    ) -> None:
        self.deriver: Deriver = deriver
        self._known = deriver
        if deriver.next is not None:
            self.deriver = deriver.of_config(chunks.config(dataset_id))
        self._documents = documents
        self._chunks = chunks
        self._dataset_id = dataset_id
        self._meter = meter
        self._before: list[FillResult] = []
        self.vectors: Filler[Vector] = self._filler()
        self.touched: set[str] = set()
        self._further: list[Filler[Any]] = [
            deriver.filler(documents, chunks, model, dataset_id, meter) for model in deriver.further
        ]

    def _filler(self) -> Filler[Vector]:
        deriver = self.deriver
        return deriver.filler(
            self._documents, self._chunks, deriver.model, self._dataset_id, self._meter
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
        with ExitStack() as all_:
            for filler in (self.vectors, *self._further):
                all_.push(filler)

    @property
    def slow(self) -> bool:
        """See `Filler.slow`, of the embedder."""
        return self.vectors.slow

    def at_once(self, texts: Mapping[str, Mapping[str, str]]) -> Mapping[str, Vector]:
        """See `Filler.at_once`, of the embedder."""
        return self.vectors.at_once(texts)

    def check(self) -> None:
        """See `Filler.check`."""
        self.vectors.check()

    def adopt(self, derivation: Derivation) -> None:
        """See `Filler.adopt`."""
        self.vectors.adopt(derivation.document.name, derivation.chunks, derivation.missing)

    def later(self, names: Iterable[str]) -> None:
        """Fill in the embeddings of these documents, which are read when their turn comes."""
        self.vectors.later(names)

    def lacking(self, names: Sequence[str] | None = None, *, embeddings: bool = False) -> None:
        """Fill in what these documents, in this order, or all lack of further models; of the
        embedder too, with ``embeddings``."""
        for filler in (*([self.vectors] if embeddings else []), *self._further):
            filler.lacking(names)

    def fail(self, error: Exception) -> None:
        """Nothing more will be filled: each set that still waits failed with ``error``."""
        for filler in (self.vectors, *self._further):
            filler.fail(error)

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
    return FillResult(
        complete=tuple(name for name in complete if name not in pending),
        pending=tuple(pending),
        embedded=left.embedded + right.embedded,
        reused=left.reused + right.reused,
        encoded=left.encoded + right.encoded,
        failed=(*left.failed, *right.failed),
    )
