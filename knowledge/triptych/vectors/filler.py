"""Making the vectors of stored texts in small transactions."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeVar

import attrs

from triptych import deadlines
from triptych._internal.close_on_exit import CloseOnExit
from triptych._internal.progress import EmbeddingProgress
from triptych.chunking import embedding_text
from triptych.chunking.specs import embedded_title
from triptych.contracts import ChunkRepo, DocumentRepo
from triptych.errors import (
    CancelledError,
    DerivationError,
    ModelMismatchError,
    TriptychError,
)
from triptych.records import (
    DatasetConfig,
    DerivedChunk,
    Failure,
    SourceDocument,
    VectorSpace,
)
from triptych.records.metadata import text_of
from triptych.signatures import embedding_input_sig
from triptych.vectors.lanes import Lane
from triptych.vectors.run import EmbeddingRun

V = TypeVar("V")

_AT_ONCE = 256
_SECONDS = 0.1
"""A transaction takes so many vectors at most, and what came in so many seconds."""
_REST = 4.0
"""So many times as long as it took, storing rests where the model is fast. Each transaction looks
at all chunks of its document: for a long one it takes longer than making the vectors."""
_SETS_AT_ONCE = 256
_WAIT = 60.0
_PATIENCE = 1.0
"""So many seconds a batch waits for its vectors; then it is stored without those it lacks."""


@attrs.frozen(kw_only=True)
class FillResult:
    """What filling came to: names that are whole and that still wait; counts of texts.

    ``encoded`` texts were sent to other models than the embedder.
    """

    complete: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    embedded: int = 0
    reused: int = 0
    encoded: int = 0
    failed: tuple[Failure, ...] = ()


@attrs.define
class _Waiting:
    """A name that waits: the digests it still lacks, and those that get no vector."""

    left: set[str]
    bare: Iterable[str] = ()


@attrs.define(eq=False, slots=False)
class Filler(CloseOnExit, Generic[V]):
    """Gives the texts of one dataset their vectors in one space: each text is asked for once.

    What the model answers is stored at once where the next answer has to be waited for, and else
    in transactions of bounded size and time. A filler before it, a killed one, or one beside it,
    spares it the texts that it has embedded. Of a slow model, each document's first text comes
    before the rest of any: a search by vector finds the document by it. Close it, or use it as a
    context manager.

    A lane without a model, which has no ``run``, fills nothing.
    """

    _documents: DocumentRepo
    _chunks: ChunkRepo
    _lane: Lane[V]
    _dataset_id: str
    _meter: EmbeddingProgress
    run: EmbeddingRun[V] | None

    def __attrs_post_init__(self) -> None:
        self.space: VectorSpace[V] = self._lane.space
        self._names: deque[str] = deque()
        self._begun: dict[str, tuple[str, int]] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._targets: dict[str, Counter[str]] = {}
        self._arrived: dict[str, V] = {}
        self._since = time.monotonic()
        self._rests_until = 0.0
        self._cancelled: CancelledError | None = None
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
        """Nothing more will be filled: each name that still waits failed with ``error``."""
        for name in self._pending:
            self._failed.setdefault(name, error)

    # What is to be filled

    def later(self, names: Iterable[str]) -> None:
        """Fill what is under these names, which are read when their turn comes."""
        for name in names:
            self._pending[name] = None
            self._names.append(name)

    def lacking(self, names: Sequence[str] | None = None) -> None:
        """Fill what waits of these names, in their order, or of all."""
        found = self._chunks.waiting(self._dataset_id, self.space, names)
        waits = set(found).difference(self._pending)
        self.later(name for name in dict.fromkeys(names or found) if name in waits)

    @property
    def slow(self) -> bool:
        """Whether the model has texts that it did not answer at once: it is not waited for."""
        return bool(self._names or self._waiting) or (self.run is not None and self.run.waiting > 0)

    def at_once(self, texts: Mapping[str, Mapping[str, str]]) -> Mapping[str, V]:
        """The vectors of texts, by document and digest, that the model has soon enough.

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
        return run.take()

    def check(self) -> None:
        """The sets are stored with what `at_once` gave: raise what it has met."""
        if self._cancelled is not None:
            raise self._cancelled

    def adopt(self, name: str, chunks: Sequence[DerivedChunk], missing: Mapping[str, str]) -> None:
        """Fill a set that was just stored; ``missing`` of its texts, by digest, were given to the
        run."""
        self._pending[name] = None
        bare = [chunk.sig.input_sig for chunk in chunks if chunk.vector is None]
        places = Counter(digest for digest in bare if digest in missing)
        self._waiting[name] = _Waiting(set(places), set(bare).difference(places))
        for digest, count in places.items():
            self._targets.setdefault(digest, Counter())[name] += count
        if self.run is not None:
            self.run.add(name, missing)

    # Filling

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
                if came and (run.slow or self._is_due()) and not self._rest(run):
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
                    rest = self._rest(run)
                    if not rest:
                        self._flush()
                    if not came and (run.running or not self._names):
                        run.collect(rest or _WAIT)
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

    def _read(self, name: str) -> None:
        """Ask for what a name lacks, or leave it to another writer."""
        dataset_id, space = self._dataset_id, self.space
        info = self._documents.get_info(dataset_id, name)
        if info is None or not self._chunks.waiting(dataset_id, space, [name]):
            self._forget(name)  # it is gone, or another filler was here first
            self._count_given(name, Counter())
            return
        # Which of the two, the digests tell before all chunks are read.
        titles = [embedded_title(name, info.metadata, ()), text_of(info.metadata, "title")]
        texts: dict[str, str] = {}
        places: Counter[str] = Counter()
        held = space.kind == "dense"
        for chunk in self._chunks.iter_chunks(dataset_id, name, vectors=held):
            if held and chunk.vector is not None and chunk.sig.embed_sig == space.sig:
                continue
            digest = chunk.sig.input_sig
            for title in titles:
                text = embedding_text(title, chunk.heading_path, chunk.content)
                if digest == embedding_input_sig(text):
                    texts[digest] = text
                    break
            else:
                return  # its text is stale: to be derived again, and pending till then
            places[digest] += 1
        if name in self._begun:
            self._count_given(name, places)
        elif held and self._names and len(texts) > 1 and self.run is not None and self.run.slow:
            first = next(iter(texts))
            self._begun[name] = first, places.total() - places[first]
            self._names.append(name)
            texts = {first: texts[first]}
        self._ask(name, texts, places)

    def _count_given(self, name: str, lacking: Counter[str]) -> None:
        """Count the vectors that the store gave a name when it took that of the first text."""
        first, left = self._begun.pop(name, ("", 0))
        given = max(left - lacking.total() + lacking[first], 0)
        self._reused += given
        self._meter.expect(given)
        self._meter.advance(given)

    def _ask(self, name: str, texts: Mapping[str, str], places: Counter[str]) -> None:
        """Wait for the vectors of ``texts``, by digest; ask the model for those that nobody has."""
        run, admits = self.run, self._lane.gate.admits
        assert run is not None
        bare = {digest for digest, text in texts.items() if not admits(text)}
        wanted = {digest: text for digest, text in texts.items() if digest not in bare}
        self._waiting[name] = _Waiting(set(wanted), bare)
        for digest in wanted:
            targets = self._targets.setdefault(digest, Counter())
            self._meter.expect(places[digest] - targets[name])  # its first text may be under way
            targets[name] = places[digest]
        new = {
            digest: text
            for digest, text in wanted.items()
            if digest not in self._arrived and not run.has(digest)
        }
        known = self._chunks.known_vectors(self._dataset_id, self.space, list(new)) if new else {}
        self._arrived.update(known)
        run.found.update(known)
        run.add(name, {digest: text for digest, text in new.items() if digest not in known})

    def _forget(self, name: str) -> None:
        """Leave a name to another writer."""
        self._pending.pop(name, None)
        self._waiting.pop(name, None)

    def _is_due(self) -> bool:
        return len(self._arrived) >= _AT_ONCE or time.monotonic() - self._since >= _SECONDS

    def _rest(self, run: EmbeddingRun[V]) -> float:
        """The seconds for which nothing is stored: none where the model is slow, whose answers a
        kill must not take."""
        return 0.0 if run.slow else max(self._rests_until - time.monotonic(), 0.0)

    def _feed(self, run: EmbeddingRun[V]) -> None:
        """Read sets while the next calls have room for their texts."""
        for _ in range(min(len(self._names), _SETS_AT_ONCE)):
            if not run.room or len(self._arrived) >= _AT_ONCE:
                return
            name = self._names.popleft()
            if run.error is not None:
                self._failed.setdefault(name, run.error)
                continue
            self._read(name)
            waiting = self._waiting.get(name)
            for digest in waiting.left if waiting is not None else ():
                if digest in run.errors:
                    self._fail(digest, run.errors[digest])

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
        for name in self._targets.pop(digest, ()):
            self._failed.setdefault(name, error)

    def _flush(self) -> None:
        """Store the vectors that have come, and end the waiting of the names that have them all."""
        if not self._arrived and all(each.left for each in self._waiting.values()):
            return
        run = self.run
        assert run is not None
        arrived, self._arrived = self._arrived, {}
        vectors: dict[str, V | None] = {}
        names: set[str] = set()
        given = 0
        for digest, vector in arrived.items():
            places = self._targets.pop(digest, Counter())
            fresh = digest not in run.found
            self._embedded += fresh
            self._reused += places.total() - (fresh and bool(places))
            given += places.total()
            names.update(places)
            if places:
                vectors[digest] = vector
            for name in places:
                if name in self._waiting:
                    self._waiting[name].left.discard(digest)
        ends = [name for name, each in self._waiting.items() if not each.left]
        for name in ends:
            vectors.update(dict.fromkeys(self._waiting[name].bare))
        began = time.monotonic()
        try:
            every = sorted(names.union(ends))
            put = self._chunks.put_vectors
            done = set(put(self._dataset_id, self.space, every, vectors))
        except ModelMismatchError as error:
            # Of another width than the vectors that are there: no answer of this model will do.
            for name in names:
                self._failed.setdefault(name, error)
            run.error = error
            return
        now = time.monotonic()
        self._rests_until = now + _REST * (now - began)
        for name in ends:
            del self._waiting[name]
            if name in done:
                self._complete[name] = None
                self._pending.pop(name, None)
        refused = [name for name in ends if name not in done]
        if refused or not ends:
            self._look_at(refused)
        self._meter.advance(given)

    def _look_at(self, refused: Sequence[str]) -> None:
        """Why these names still wait: another writer has them, or the space serves no longer."""
        config = self._chunks.config(self._dataset_id)
        if config is not None and not self.space.serves(config):
            raise self._superseded(config)
        there = self._chunks.get_doc_sigs(self._dataset_id, refused)
        for name in refused:
            if config is None or name not in there:
                self._forget(name)
            # Else it was replaced: the next to fill sees it.

    def _superseded(self, config: DatasetConfig) -> TriptychError:
        lane, sig = self._lane, self.space.sig
        stored = config.sigs[lane.kind]
        return ModelMismatchError(
            f"the dataset {self._dataset_id!r} was given another {lane.maker} meanwhile, "
            f"{stored or 'none'!r}: the {lane.vectors} of {sig!r} were not stored",
            stored=stored,
            configured=sig,
        )

    def _failures(self) -> Iterable[Failure]:
        for name, error in self._failed.items():
            if name not in self._pending:
                continue
            document = self._documents.get(self._dataset_id, name)
            if document is None:
                continue
            error = derivation_error(document, error, found=True)
            yield Failure(dataset_id=self._dataset_id, name=name, error=error)


def derivation_error(
    document: SourceDocument, error: Exception, *, found: bool = False
) -> DerivationError:
    """The error of a stored document; ``found`` where its chunks are stored and only wait for
    vectors."""
    what, rest = (
        ("embedded", "what lacks a vector is found by keyword, and is pending: embed it")
        if found
        else ("derived", "what was derived before keeps serving: put it again or rebuild")
    )
    wrapped = DerivationError(
        f"{document.name!r} is stored as version {document.version} of {document.dataset_id!r}, "
        f"but its chunks could not be {what} ({type(error).__name__}: {error}); {rest} once the "
        "cause is fixed",
        document=document,
    )
    wrapped.__cause__ = error
    return wrapped


def derivation_failures(
    documents: Iterable[SourceDocument], error: Exception
) -> tuple[Failure, ...]:
    """The same error of each of these stored documents, whose chunks it kept from being made."""
    return tuple(
        Failure(dataset_id=each.dataset_id, name=each.name, error=derivation_error(each, error))
        for each in documents
    )
