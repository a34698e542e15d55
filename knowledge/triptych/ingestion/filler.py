"""Vectors that come after their chunks: asked for, and stored in small transactions."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

import attrs

from triptych import deadlines
from triptych._internal.close_on_exit import CloseOnExit
from triptych.contracts import ChunkRepo, DocumentRepo
from triptych.errors import CancelledError, ModelMismatchError
from triptych.ingestion.batches import EmbeddingProgress
from triptych.ingestion.embedding_run import EmbeddingRun
from triptych.ingestion.failures import derivation_error
from triptych.records import DerivedSig, Failure

__all__ = ["FillResult", "Filler", "Waiting"]

V = TypeVar("V")

_AT_ONCE = 256
_SECONDS = 0.1
"""A transaction takes so many vectors at most, and what came in so many seconds."""
_SETS_AT_ONCE = 256
_WAIT = 60.0


@attrs.frozen(kw_only=True)
class FillResult:
    """What filling came to: names of whole sets and of those that still wait; counts of texts.

    ``encoded`` texts were sent to the sparse encoder.
    """

    complete: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    embedded: int = 0
    reused: int = 0
    encoded: int = 0
    failed: tuple[Failure, ...] = ()


@attrs.define
class Waiting:
    """A set that waits: the digests it still lacks; the signature it gets, and how many chunks get
    no vector."""

    left: set[str]
    sig: DerivedSig = attrs.field(factory=DerivedSig)
    without: int = 0


@attrs.frozen
class Given(Generic[V]):
    """A vector on its way to the chunk at ``index`` of a document, whose text has ``digest``."""

    name: str
    index: int
    digest: str
    vector: V


class Filler(CloseOnExit, ABC, Generic[V]):
    """Gives the sets of one dataset vectors of one kind: each text is asked for once.

    What the model answers is stored at once where the next answer has to be waited for, and else
    in transactions of bounded size and time. Close it, or use it as a context manager.
    """

    def __init__(
        self,
        documents: DocumentRepo,
        chunks: ChunkRepo,
        run: EmbeddingRun[V] | None,
        dataset_id: str,
        meter: EmbeddingProgress | None = None,
    ) -> None:
        self.run: EmbeddingRun[V] | None = run
        self._documents = documents
        self._chunks = chunks
        self._dataset_id = dataset_id
        self._meter = meter or EmbeddingProgress(None)
        self._names: deque[str] = deque()
        self._waiting: dict[str, Waiting] = {}
        self._targets: dict[str, list[tuple[str, int]]] = {}
        self._arrived: dict[str, V] = {}
        self._since = time.monotonic()
        self._complete: dict[str, None] = {}
        self._pending: dict[str, None] = {}
        self._failed: dict[str, Exception] = {}
        self._embedded = 0
        self._reused = 0

    def close(self) -> None:
        """Cancel what runs; idempotent."""
        if self.run is not None:
            self.run.close()

    def fail(self, error: Exception) -> None:
        """Nothing more will be filled: each set that still waits failed with ``error``."""
        for name in self._pending:
            self._failed.setdefault(name, error)

    def later(self, names: Iterable[str]) -> None:
        """Fill the sets of these documents, which are read when their turn comes."""
        for name in names:
            self._pending[name] = None
            self._names.append(name)

    def forget(self, name: str) -> None:
        """Leave a document to another writer."""
        self._pending.pop(name, None)
        self._waiting.pop(name, None)

    def poll(self) -> None:
        """Store what was answered meanwhile, without waiting, and ask for nothing more."""
        if self.run is not None and self.run.running:
            self.run.collect()
            self._take()
            self._flush()

    def finish(self) -> None:
        """Fill everything.

        Raises:
            CancelledError: the deadline has passed; what was answered is stored.
            ModelMismatchError: the dataset has another model by now.
        """
        run = self.run
        if run is None:
            return
        try:
            while True:
                deadlines.check("embedding")
                run.collect()
                came = self._take()
                if came and (run.slow or self._is_due()):
                    self._flush()  # before more is asked: a kill loses only what is in flight
                self._feed(run)
                run.submit()
                if not run.waiting:
                    self._take()  # what was looked up just before a call that was not needed
                    self._flush()
                    if not self._names:
                        return
                elif not came or self._is_due():
                    # Nothing more is at hand: what there is is stored before the next is awaited.
                    self._flush()
                    if not came and (run.running or not self._names):
                        run.collect(_WAIT)
        except (CancelledError, KeyboardInterrupt):
            run.drain()
            self._take()
            self._flush()
            raise

    def result(self) -> FillResult:
        """What became of all that was given."""
        return FillResult(
            complete=tuple(self._complete),
            pending=tuple(self._pending),
            embedded=self._embedded,
            reused=self._reused,
            failed=tuple(self._failures()),
        )

    @abstractmethod
    def _read(self, name: str, run: EmbeddingRun[V]) -> None:
        """Ask for what a set lacks, or `forget` it."""

    @abstractmethod
    def _store(self, given: Sequence[Given[V]], ends: Sequence[str]) -> Sequence[str]:
        """Store vectors, and end the waiting of these sets; the names of those that did end."""

    @abstractmethod
    def _look_at(self, refused: Sequence[str]) -> None:
        """Why these sets could not be ended: another writer has them, or another model."""

    def _ask(
        self, name: str, texts: dict[str, str], lacking: Sequence[tuple[str, int]], waiting: Waiting
    ) -> dict[str, str]:
        """Wait for ``texts``, by digest, on behalf of the chunks of a set, given by digest and
        index; those that nobody has asked for yet."""
        self._waiting[name] = waiting
        self._meter.expect(len(lacking))
        for digest, index in lacking:
            self._targets.setdefault(digest, []).append((name, index))
        return {digest: text for digest, text in texts.items() if not self._is_on_its_way(digest)}

    def _begin(
        self, name: str, texts: dict[str, str], known: dict[str, V], run: EmbeddingRun[V]
    ) -> None:
        """Ask the model for those of ``texts`` that are not ``known``."""
        self._arrived.update(known)
        run.found.update(known)
        run.add(name, {digest: text for digest, text in texts.items() if digest not in known})

    def _is_due(self) -> bool:
        return len(self._arrived) >= _AT_ONCE or time.monotonic() - self._since >= _SECONDS

    def _feed(self, run: EmbeddingRun[V]) -> None:
        """Read sets while the next calls have room for their texts."""
        for _ in range(min(len(self._names), _SETS_AT_ONCE)):
            if not run.room or len(self._arrived) >= _AT_ONCE:
                return
            name = self._names.popleft()
            if run.error is not None:
                self._failed.setdefault(name, run.error)
                continue
            self._read(name, run)
            waiting = self._waiting.get(name)
            for digest in waiting.left if waiting is not None else ():
                if digest in run.errors:
                    self._fail(digest, run.errors[digest])

    def _is_on_its_way(self, digest: str) -> bool:
        return digest in self._arrived or (self.run is not None and self.run.has(digest))

    def _take(self) -> bool:
        """Take over what was answered; whether anything was."""
        assert self.run is not None
        if not self._arrived:
            self._since = time.monotonic()
        taken = self.run.take()
        self._arrived.update(taken)
        failed = [digest for digest in self.run.errors if digest in self._targets]
        for digest in failed:
            self._fail(digest, self.run.errors[digest])
        return bool(taken or failed)

    def _fail(self, digest: str, error: Exception) -> None:
        for name, _ in self._targets.pop(digest, ()):
            self._failed.setdefault(name, error)

    def _flush(self) -> None:
        """Store the vectors that have come, and end the waiting of the sets that have them all."""
        whole = [name for name, each in self._waiting.items() if not each.left]
        if not self._arrived and not whole:
            return
        assert self.run is not None
        arrived, self._arrived = self._arrived, {}
        given: list[Given[V]] = []
        for digest, vector in arrived.items():
            places = self._targets.pop(digest, [])
            fresh = digest not in self.run.found
            self._embedded += fresh
            self._reused += len(places) - (fresh and bool(places))
            for name, index in places:
                given.append(Given(name, index, digest, vector))
                waiting = self._waiting.get(name)
                if waiting is not None:
                    waiting.left.discard(digest)
        ends = [name for name, each in self._waiting.items() if not each.left]
        try:
            done = self._store(given, ends)
        except ModelMismatchError as error:
            # Of another width than the vectors that are there: no answer of this model will do.
            for name in {each.name for each in given}:
                self._failed.setdefault(name, error)
            self.run.error = error
            return
        self.run.release(arrived)
        for name in ends:
            del self._waiting[name]
        for name in done:
            self._complete[name] = None
            self._pending.pop(name, None)
        refused = [name for name in ends if name not in set(done)]
        if refused or not ends:
            self._look_at(refused)
        self._meter.advance(len(given))

    def _failures(self) -> Iterable[Failure]:
        for name, error in self._failed.items():
            if name not in self._pending:
                continue
            document = self._documents.get(self._dataset_id, name)
            if document is not None:
                told = derivation_error(document, error, found=True)
                yield Failure(dataset_id=self._dataset_id, name=name, error=told)
