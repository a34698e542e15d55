"""Getting vectors from a model: how many texts at a time, which of them fail, and how long."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextvars import copy_context
from functools import cached_property
from itertools import islice
from typing import Generic, TypeVar

import attrs

from triptych import deadlines
from triptych._internal.close_on_exit import CloseOnExit
from triptych.errors import (
    CancelledError,
    ProviderSetupError,
    ProviderTimeoutError,
    RateLimitedError,
)
from triptych.vectors.refused import RefusedTexts, refused_before
from triptych.vectors.workers import Workers

EMBED_BATCH = 64
_SMALLEST_BATCH = 8
_CALL_SECONDS = 2.0
"""A call should answer within this time, so that a kill loses little; slow embedders get fewer
texts at a time for it."""
_ALONE_SECONDS = 0.25
_FIRST_BATCH = 16
"""The first call runs alone, to tell how fast the embedder is. One that has not answered in this
time is slow: further calls begin, with so few texts."""
_SLOW_SECONDS = 0.05
_LOOK_EVERY = 0.1
"""Seconds between two looks at whether the deadline has passed."""
_JUST_NOW = 0.05
"""Seconds in which nobody else is likely to have embedded what was looked up."""
_FAILURES = 8
"""After so many failed calls in a row, a text that is known to be good says whether the embedder is
out."""
_PLAIN = "text"
"""The known good text of an embedder that has answered none yet."""
_NO_TEXTS_FAULT = (RateLimitedError, ProviderSetupError)

V = TypeVar("V")
Batch = Mapping[str, tuple[str, str]]
"""By digest, each text's group and the text."""
Encode = Callable[[Sequence[str]], Sequence[V]]
Lookup = Callable[[Sequence[str]], Mapping[str, V]]


@attrs.define(eq=False, slots=False)
class EmbeddingRun(CloseOnExit, Generic[V]):
    """Embeds texts by their digests, up to ``concurrency`` calls at a time; each text once.

    Nothing is asked between two calls of its methods but what runs. Close it, or use it as a
    context manager: what still runs then is cancelled, and waited for.

    Attributes:
        vectors: what was answered and not taken yet, by digest.
        errors: why a text has no vector, by digest.
        error: what the embedder failed with; from then on every text fails with it.
    """

    _encode: Encode[V]
    """Makes a vector of each text, in order: a call of the model."""
    _concurrency: int = 1
    _known: Lookup[V] | None = None
    """Looks up, just before a call, what others have embedded meanwhile."""
    _refused: RefusedTexts | None = None
    """The texts that the model refused earlier, which are not sent again."""
    _workers: Workers | None = None
    """Where calls run; None: in threads of its own, which end with it."""

    def __attrs_post_init__(self) -> None:
        self.vectors: dict[str, V] = {}
        self.found: set[str] = set()
        self.errors: dict[str, Exception] = {}
        self.error: Exception | None = None
        self._looked_up = -math.inf
        self._queue: dict[str, tuple[str, str]] = {}
        self._running: dict[Future[list[V]], dict[str, tuple[str, str]]] = {}
        self._size = EMBED_BATCH
        self._seconds_each = 0.0
        self._answered = False
        self._began: float | None = None
        self._good: str | None = None
        self._threads = self._workers or Workers()
        with deadlines.deadline(None) as scope:
            self._scope = scope
            self._context = copy_context()

    def close(self) -> None:
        """Cancel what runs, and wait for it."""
        self._queue = {}
        if self._running:
            self._scope.cancel()  # those that have not begun look before they do
            wait(self._running)
        if self._workers is None:
            self._threads.close()

    def add(self, group: str, texts: Mapping[str, str], *, looked_up: bool = False) -> None:
        """Ask for the vectors of ``texts``, by digest, of the document ``group``.

        ``looked_up`` says that the caller has just looked for known vectors of them: this is done
        again only before calls that begin later.
        """
        if not looked_up:
            self._looked_up = -math.inf
        elif not self._queue:
            self._looked_up = time.monotonic()
        for digest, text in texts.items():
            if self.has(digest):
                continue
            if digest in self._refused_words:
                self.errors[digest] = refused_before(self._refused_words[digest])
            else:
                self._queue[digest] = group, text

    @cached_property
    def _refused_words(self) -> Mapping[str, str]:
        return {} if self._refused is None else self._refused.words()

    def has(self, digest: str) -> bool:
        """Whether this text was asked for, and its vector was not taken yet."""
        return (
            digest in self._queue
            or digest in self.vectors
            or digest in self.errors
            or (bool(self._running) and any(digest in each for each in self._running.values()))
        )

    @property
    def waiting(self) -> int:
        """How many texts have no answer yet."""
        return len(self._queue) + sum(map(len, self._running.values()))

    @property
    def running(self) -> int:
        """How many calls run."""
        return len(self._running)

    @property
    def slow(self) -> bool:
        """Whether a call takes much longer than storing its answers; True before the first."""
        seconds = self._seconds_each * self._concurrency * self._size
        return not self._answered or seconds >= _SLOW_SECONDS

    @property
    def room(self) -> int:
        """How many more texts the next calls could take."""
        return max(self._concurrency * self._size - len(self._queue), 0)

    def take(self) -> dict[str, V]:
        """The vectors that were answered since the last time."""
        taken, self.vectors = self.vectors, {}
        return taken

    def submit(self) -> None:
        """Begin as many calls as may run.

        Raises:
            CancelledError: the deadline has passed.
        """
        while self._queue and len(self._running) < self._most():
            deadlines.check("embedding")
            if self.error is not None:
                self._fail(self._queue, self.error)
                self._queue = {}
                return
            batch = self._next_batch()
            if not batch:
                continue
            if self._began is None:
                self._began = time.monotonic()
            future = self._threads.submit(self._context.copy().run, self._timed, batch)
            self._running[future] = batch

    def _most(self) -> int:
        """How many calls may run now."""
        if not self._answered:
            if self._began is None or time.monotonic() - self._began < _ALONE_SECONDS:
                return 1
            self._size = min(self._size, _FIRST_BATCH)
        return self._concurrency

    def _next_batch(self) -> dict[str, tuple[str, str]]:
        batch: dict[str, tuple[str, str]] = {}
        while self._queue and len(batch) < self._size:
            digests = list(islice(self._queue, self._size - len(batch)))
            texts = {digest: self._queue.pop(digest) for digest in digests}
            if time.monotonic() - self._looked_up >= _JUST_NOW:
                self._look_up(texts)
            batch.update(texts)
        return batch

    def _look_up(self, texts: dict[str, tuple[str, str]]) -> None:
        """Take those out of ``texts`` that have a vector by now."""
        if self._known is None or not texts:
            return
        known = self._known(list(texts))
        self.vectors.update(known)
        self.found.update(known)
        for digest in known:
            del texts[digest]

    def _timed(self, batch: Batch) -> list[V]:
        began = time.monotonic()
        deadlines.check("embedding")
        rows = list(self._encode([text for _, text in batch.values()]))
        took = max(time.monotonic() - began, 1e-6)
        fitting = int(len(batch) * _CALL_SECONDS / took)
        self._size = min(max(fitting, _SMALLEST_BATCH), EMBED_BATCH)
        self._seconds_each = took / len(batch) / self._concurrency
        return rows

    def work(self, seconds: float, answered: Callable[[int], None] | None = None) -> bool:
        """Begin and collect calls until all texts have their answers, or will not have them in
        time; whether all have. ``answered`` is called with how many more vectors have come.

        Raises:
            CancelledError: the deadline has passed.
        """
        end = time.monotonic() + seconds
        while self.waiting:
            self.submit()
            left = end - time.monotonic()
            if self.waiting and left <= 0:
                return False
            before = len(self.vectors)
            self.collect(left)
            if answered is not None:
                answered(len(self.vectors) - before)
            if self.waiting * self._seconds_each > end - time.monotonic():
                return not self.waiting  # too many for the time that is left
        return True

    def collect(self, seconds: float = 0.0) -> None:
        """Take in the calls that have ended, after waiting so long for the first of them, or until
        more calls may begin.

        Raises:
            CancelledError: the deadline has passed.
        """
        end = time.monotonic() + seconds
        while self._running:
            left = end - time.monotonic()
            step = min(max(left, 0.0), _LOOK_EVERY)
            done, _ = wait(self._running, timeout=step, return_when=FIRST_COMPLETED)
            for future in done:
                self._take_in(future, self._running.pop(future))
            if done or left <= 0:
                return
            deadlines.check("embedding")
            if self._queue and len(self._running) < self._most():
                return

    def drain(self) -> None:
        """Ask for nothing more, cancel what runs where it can be, and take in what ends well."""
        self._queue = {}
        self._scope.cancel()
        running, self._running = self._running, {}
        wait(running)
        for future, batch in running.items():
            if future.exception() is None:
                self.vectors.update(zip(batch, future.result(), strict=True))

    def _take_in(self, future: Future[list[V]], batch: dict[str, tuple[str, str]]) -> None:
        self._answered = True
        try:
            rows = future.result()
        except CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - an embedder may fail in any way
            self._salvage(batch, error)
            return
        self._keep(batch, rows)

    def _keep(self, batch: Batch, rows: Sequence[V]) -> None:
        """Take in what the embedder answered."""
        self.vectors.update(zip(batch, rows, strict=True))
        known = () if self._good is None else (self._good,)
        self._good = min((*known, *(text for _, text in batch.values())), key=len)

    def _salvage(self, batch: Batch, error: Exception) -> None:
        """A batch failed. If the embedder answers a text that is known to be good, the texts that
        it refuses are found by halving; else it is out, and nothing more is tried."""
        if self.error is not None or not self._answers(error):
            self._fail(batch, self.error or error)
            return
        refused: dict[str, Exception] = {}
        try:
            self._isolate(batch, refused)
        finally:
            if self._refused is not None:
                self._refused.add(refused)

    def _isolate(self, batch: Batch, refused: dict[str, Exception]) -> None:
        """Get the vectors of ``batch`` but for the texts that fail alone while the embedder answers
        others. They are added to ``refused``, unless they only took too long."""
        todo, failures = _halves(batch), 0
        alone: dict[str, Exception] = {}  # what has failed alone since the last answer
        while todo:
            deadlines.check("embedding")
            part = todo.pop()
            try:
                rows = list(self._encode([text for _, text in part.values()]))
            except CancelledError:
                raise
            except Exception as error:  # noqa: BLE001 - an embedder may fail in any way
                failures += 1
                if len(part) == 1:
                    alone.update(dict.fromkeys(part, error))
                    self._fail(part, error)
                else:
                    todo += _halves(part)
                if isinstance(error, _NO_TEXTS_FAULT) or failures == _FAILURES or not todo:
                    if not self._answers(error):
                        for left in todo:
                            self._fail(left, error)
                        return
                    failures = 0
            else:
                failures = 0
                self._keep(part, rows)
            if not failures:
                refused.update(
                    (digest, error)
                    for digest, error in alone.items()
                    if not isinstance(error, ProviderTimeoutError)
                )
                alone.clear()

    def _answers(self, error: Exception) -> bool:
        """Whether the embedder, which failed with ``error``, answers a known good text. It is out
        if it does not."""
        if not isinstance(error, _NO_TEXTS_FAULT):
            deadlines.check("embedding")
            try:
                self._encode([self._good or _PLAIN])
            except CancelledError:
                raise
            except Exception:  # noqa: BLE001 - an embedder may fail in any way
                pass
            else:
                return True
        self.error = error
        return False

    def _fail(self, digests: Iterable[str], error: Exception) -> None:
        self.errors.update(dict.fromkeys(digests, error))


def _halves(batch: Batch) -> list[Batch]:
    """The two halves of a batch, the first one last; a text that is alone as it is."""
    items = list(batch.items())
    middle = len(items) // 2
    return [dict(half) for half in (items[middle:], items[:middle]) if half]
