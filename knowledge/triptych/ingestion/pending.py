"""Vectors that come after their chunks: asked for, and kept in small transactions."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

import attrs

from triptych import deadlines
from triptych._internal.close_on_exit import CloseOnExit
from triptych.chunking import embedding_text
from triptych.contracts import ChunkRepo, DocumentRepo
from triptych.errors import CancelledError, ModelMismatchError
from triptych.ingestion.batches import EmbeddingProgress
from triptych.ingestion.derivation import Derivation, DerivationPipeline
from triptych.ingestion.embedding_run import EmbeddingRun
from triptych.ingestion.failures import derivation_error
from triptych.records import (
    ChunkVector,
    CompleteSet,
    DerivedSig,
    Failure,
    Vector,
)
from triptych.records.metadata import text_of
from triptych.signatures import embedding_input_sig

__all__ = ["FillResult", "VectorFiller"]

_AT_ONCE = 256
_SECONDS = 0.1
"""A transaction takes so many vectors at most, and what came in so many seconds."""
_SETS_AT_ONCE = 256
_PATIENCE = 1.0
"""So many seconds a batch waits for its vectors; then it is stored without those it lacks."""

_WAIT = 60.0


@attrs.frozen(kw_only=True)
class FillResult:
    """What filling came to: names of whole sets and of those that still wait; counts of texts."""

    complete: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    embedded: int = 0
    reused: int = 0
    failed: tuple[Failure, ...] = ()


@attrs.define
class _Waiting:
    """A set that waits: the digests it still lacks, and how many chunks get no vector."""

    sig: DerivedSig
    left: set[str]
    without: int


class VectorFiller(CloseOnExit):
    """Gives the sets of one dataset their vectors: each text is asked for once.

    What the embedder answers is kept at once where the next answer has to be waited for, and else
    in transactions of bounded size and time. Close it, or use it as a context manager.
    """

    def __init__(
        self,
        documents: DocumentRepo,
        chunks: ChunkRepo,
        deriver: DerivationPipeline,
        dataset_id: str,
        meter: EmbeddingProgress | None = None,
    ) -> None:
        self.run: EmbeddingRun | None = deriver.run(dataset_id)
        self._documents = documents
        self._chunks = chunks
        self._deriver = deriver
        self._dataset_id = dataset_id
        self._meter = meter or EmbeddingProgress(None)
        self._names: deque[str] = deque()
        self._waiting: dict[str, _Waiting] = {}
        self._targets: dict[str, list[tuple[str, int]]] = {}
        self._arrived: dict[str, Vector] = {}
        self._handed_out: set[str] = set()
        self._since = time.monotonic()
        self._complete: dict[str, None] = {}
        self._pending: dict[str, None] = {}
        self._failed: dict[str, Exception] = {}
        self._embedded = 0
        self._reused = 0
        self._cancelled: CancelledError | None = None

    def close(self) -> None:
        """Cancel what runs; idempotent."""
        if self.run is not None:
            self.run.close()

    @property
    def pending(self) -> int:
        """How many sets wait for vectors, as far as this filler was told."""
        return len(self._pending)

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

    def fail(self, error: Exception) -> None:
        """Nothing more will be filled: each set that still waits failed with ``error``."""
        for name in self._pending:
            self._failed.setdefault(name, error)

    def adopt(self, derivation: Derivation) -> None:
        """Fill a set that was just stored; what it lacks was given to the run."""
        name = derivation.document.name
        self._pending[name] = None
        sig = attrs.evolve(derivation.sig, embed_sig=self._deriver.embed_sig)
        bare = [chunk for chunk in derivation.chunks if chunk.vector is None]
        lacking = [chunk for chunk in bare if chunk.sig.input_sig in derivation.missing]
        left = {chunk.sig.input_sig for chunk in lacking}
        self._waiting[name] = _Waiting(sig, left, len(bare) - len(lacking))
        for chunk in lacking:
            self._targets.setdefault(chunk.sig.input_sig, []).append((name, chunk.index))
        if self.run is not None:
            self.run.add(name, derivation.missing)

    def later(self, names: Iterable[str]) -> None:
        """Fill the sets of these documents, which are read when their turn comes."""
        for name in names:
            self._pending[name] = None
            self._names.append(name)

    def forget(self, name: str) -> None:
        """Leave a document to another writer."""
        self._pending.pop(name, None)
        self._waiting.pop(name, None)

    # Filling

    def poll(self) -> None:
        """Keep what was answered meanwhile, without waiting, and ask for nothing more."""
        if self.run is not None and self.run.running:
            self.run.collect()
            self._take()
            self._flush()

    def finish(self) -> None:
        """Fill everything.

        Raises:
            CancelledError: the deadline has passed; what was answered is kept.
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
                    # Nothing more is at hand: what there is is kept before the next is waited for.
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

    def _is_due(self) -> bool:
        return len(self._arrived) >= _AT_ONCE or time.monotonic() - self._since >= _SECONDS

    def _feed(self, run: EmbeddingRun) -> None:
        """Read sets while the next calls have room for their texts."""
        for _ in range(min(len(self._names), _SETS_AT_ONCE)):
            if not run.room or len(self._arrived) >= _AT_ONCE:
                return
            name = self._names.popleft()
            if run.error is not None:
                self._failed.setdefault(name, run.error)
            else:
                self._read(name, run)

    def _read(self, name: str, run: EmbeddingRun) -> None:
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
        self._waiting[name] = _Waiting(want, set(texts), without)
        self._meter.expect(len(lacking))
        for digest, index in lacking:
            self._targets.setdefault(digest, []).append((name, index))
        new = {digest: text for digest, text in texts.items() if not self._is_on_its_way(digest)}
        known = self._chunks.known_vectors(dataset_id, space, list(new)) if new else {}
        self._arrived.update(known)
        run.found.update(known)
        run.add(name, {digest: text for digest, text in new.items() if digest not in known})
        for digest in texts:
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
        vectors: list[ChunkVector] = []
        for digest, vector in arrived.items():
            places = self._targets.pop(digest, [])
            fresh = digest not in self.run.found
            self._embedded += fresh
            self._reused += len(places) - (fresh and bool(places))
            for name, index in places:
                vectors.append(
                    ChunkVector(doc_name=name, index=index, input_sig=digest, vector=vector)
                )
                waiting = self._waiting.get(name)
                if waiting is not None:
                    waiting.left.discard(digest)
        ends = [
            CompleteSet(doc_name=name, sig=each.sig, without=each.without)
            for name, each in self._waiting.items()
            if not each.left
        ]
        space = self._deriver.embed_sig
        try:
            done = self._chunks.add_vectors(self._dataset_id, space, vectors, ends)
        except ModelMismatchError as error:
            # Of another width than the vectors that are there: no answer of this model will do.
            for name in {each.doc_name for each in vectors}:
                self._failed.setdefault(name, error)
            self.run.error = error
            return
        self.run.release(arrived)
        for end in ends:
            del self._waiting[end.doc_name]
        for name in done:
            self._complete[name] = None
            self._pending.pop(name, None)
        refused = [end.doc_name for end in ends if end.doc_name not in set(done)]
        if refused or not ends:
            self._look_at(refused)
        self._meter.advance(len(vectors))

    def _look_at(self, refused: Sequence[str]) -> None:
        """Why these sets could not be ended: another writer has them, or another model."""
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

    def _failures(self) -> Iterable[Failure]:
        for name, error in self._failed.items():
            if name not in self._pending:
                continue
            document = self._documents.get(self._dataset_id, name)
            if document is not None:
                told = derivation_error(document, error, found=True)
                yield Failure(dataset_id=self._dataset_id, name=name, error=told)
