"""Named pipelines: where to look, and how, under a name that a program or a person calls."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import attrs

from triptych.answering.prompt import AnswerPrompt
from triptych.contracts import LLM, AnswerabilityJudge, Postprocessor, QueryRewriter, Ranker
from triptych.errors import NotFoundError, ValidationError
from triptych.records import Layer, Prices, Query, Result, check_identifier, check_text, check_whole
from triptych.records.search_options import SearchOptions, check_option_names
from triptych.search.query import check_queries, validate
from triptych.text.tokens import TokenCounter

if TYPE_CHECKING:
    from triptych.answering.answerer import Answerer, AskRequest
    from triptych.answering.records import Answer
    from triptych.answering.streaming import AnswerStream
    from triptych.context.pack import ContextPack
    from triptych.search.pipeline import SearchPipeline
    from triptych.search.semantic_cache import CachedSearches
    from triptych.service import Service

__all__ = ["Pipeline", "PipelineView", "find_pipeline"]

T = TypeVar("T")

_PLACES = ("dataset_id", "dataset_ids", "scope")


def _names(given: Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise ValidationError(f"give a list of names, not the text {given!r:.60}")
    return tuple(given)


def _steps(given: Sequence[Postprocessor]) -> tuple[Postprocessor, ...]:
    return tuple(given)


@attrs.frozen(kw_only=True)
class Pipeline:
    """How one kind of question is answered: a name for all of a search's choices.

    `Service.pipeline` searches and answers by it. ``triptych.toml`` describes pipelines too
    (docs/how-to/pipelines.md).

    Attributes:
        name: what it is called by.
        description: what it is for, in words.
        datasets: where it looks; none for everywhere. They need not be there yet.
        search: its defaults of a search, by the names of `SearchOptions`, such as
            ``{"top_k": 5, "where": {"lang": "en"}}``. A caller may choose others, but its
            ``where`` always holds: a caller's is added to it.
        rewriter: words each query in other ways; several in a list rewrite one after another. None
            for none, also where the Service has one.
        lanes: the lanes that hybrid search runs; none for all.
        ranker: fuses the lanes, with its weights; None for the Service's.
        postprocessors: steps on the hits, in their order.
        token_budget: the most tokens of a context.
        llm: what writes answers; None for the Service's.
        prompt: what the model is told to do, in place of the prompt that ships.
    """

    name: str
    description: str = ""
    datasets: Sequence[str] = attrs.field(default=(), converter=_names)
    search: Mapping[str, Any] = attrs.field(factory=dict)
    rewriter: QueryRewriter | Sequence[QueryRewriter] | None = None
    lanes: Sequence[str] = attrs.field(default=(), converter=_names)
    ranker: Ranker | None = None
    postprocessors: Sequence[Postprocessor] = attrs.field(default=(), converter=_steps)
    token_budget: int = 2000
    llm: LLM | None = None
    prompt: str | None = None

    def __attrs_post_init__(self) -> None:
        check_identifier(self.name, "a pipeline's name")
        check_text(self.description, "a pipeline's description")
        if not check_whole(self.token_budget, "token_budget"):
            raise ValidationError(f"the pipeline {self.name!r} has token_budget 0: give at least 1")
        for dataset_id in self.datasets:
            check_identifier(dataset_id, f"a dataset of the pipeline {self.name!r}")
        for key in _PLACES:
            if key in self.search:
                raise ValidationError(
                    f"the pipeline {self.name!r} has {key} among its search options: name its "
                    "datasets under datasets"
                )
        check_option_names(self.search)

    def check(self, lanes: Sequence[str]) -> None:
        """Refuse what a Service with these ``lanes`` cannot do.

        Raises:
            ValidationError: the message names the pipeline and what is wrong with it.
        """
        for lane in self.lanes:
            if lane not in lanes:
                raise ValidationError(
                    f"the pipeline {self.name!r} names the lane {lane!r}; the lanes are "
                    f"{', '.join(lanes)}"
                )
        try:
            validate(Query(text="any", dataset_id="any", **self.search), self.lanes or lanes)
        except ValidationError as error:
            raise ValidationError(f"the pipeline {self.name!r}: {error}") from None

    def query(self, query: Query | str, options: Mapping[str, Any]) -> Query:
        """Return the query that the pipeline makes of a caller's.

        ``options`` are the caller's. A `Query` says everything itself but where to look, and the
        pipeline's ``where`` is added.

        Raises:
            ValidationError: an option is unknown, or names a dataset that is not the pipeline's.
        """
        check_option_names(options)
        given = {key: value for key, value in options.items() if key != "where" or value}
        where = self.search.get("where") or {}
        if isinstance(query, Query):
            own: Mapping[str, Any] = {}
            asked = attrs.evolve(query, **given)
        else:
            own = {key: value for key, value in self.search.items() if key != "where"}
            asked = Query(text=query, **{**own, **given})
        if where:
            both = {"$and": [where, asked.where]} if asked.where else where
            asked = attrs.evolve(asked, where=both)
        return self._placed(asked)

    def _placed(self, query: Query) -> Query:
        named = (*query.dataset_ids, *([query.dataset_id] if query.dataset_id else ()))
        if not self.datasets:
            return query if named else attrs.evolve(query, scope="all")
        for dataset_id in named:
            if dataset_id not in self.datasets:
                raise ValidationError(
                    f"the pipeline {self.name!r} looks into {', '.join(self.datasets)}, and the "
                    f"query names {dataset_id!r}"
                )
        return query if named else attrs.evolve(query, scope="single", dataset_ids=self.datasets)


@attrs.frozen(repr=False)
class PipelineView:
    """A Service that works by one `Pipeline`. Its methods are the Service's."""

    service: Service
    pipeline: Pipeline
    searches: SearchPipeline
    cached: CachedSearches | None = None

    def __repr__(self) -> str:
        return f"<PipelineView {self.pipeline.name!r} of {self.service!r}>"

    def search(self, query: Query | str, **options: Unpack[SearchOptions]) -> Result:
        """`Service.search`, by the pipeline: ``options`` take the place of its own."""
        return (self.cached or self.searches).search(self.pipeline.query(query, options))

    def search_documents(self, query: Query | str, **options: Unpack[SearchOptions]) -> Result:
        """`Service.search_documents`, by the pipeline, but without its postprocessors."""
        return (self.cached or self.searches).search_documents(self.pipeline.query(query, options))

    def search_many(
        self, queries: Iterable[Query | str], **options: Unpack[SearchOptions]
    ) -> Sequence[Result]:
        """`Service.search_many`, by the pipeline."""
        several = check_queries(queries)
        searches = self.cached or self.searches
        return searches.search_many([self.pipeline.query(query, options) for query in several])

    def context(
        self,
        query: Query | str,
        token_budget: int | None = None,
        *,
        format: str = "text",
        layers: Iterable[Layer | str] = ("L0", "L1", "L2"),
        max_pieces: int | None = None,
        counter: TokenCounter | Callable[[str], int] | None = None,
        fence: bool = False,
        **options: Unpack[SearchOptions],
    ) -> ContextPack:
        """`Service.context`, by the pipeline; ``token_budget`` None is the pipeline's."""
        from triptych.context.builder import ContextBuilder, ContextSettings

        contexts = ContextBuilder(self.searches, self.service.documents, self.service.chunks)
        settings = ContextSettings.of(
            self.pipeline.token_budget if token_budget is None else token_budget,
            format=format,
            layers=layers,
            max_pieces=max_pieces,
            counter=counter,
            fence=fence,
        )
        return contexts.build(self._for_context(query, options), settings)

    def ask(
        self,
        question: Query | str,
        *,
        token_budget: int | None = None,
        max_tokens: int = 1024,
        llm: LLM | None = None,
        prompt: AnswerPrompt | None = None,
        prices: Prices | None = None,
        answerability: AnswerabilityJudge | None = None,
        abstain_if_weak: bool = False,
        layers: Iterable[Layer | str] = ("L0", "L1", "L2"),
        max_pieces: int | None = None,
        counter: TokenCounter | Callable[[str], int] | None = None,
        **options: Unpack[SearchOptions],
    ) -> Answer:
        """`Service.ask`, by the pipeline: its budget, model and prompt, where none is given."""
        return self._answerer().ask(
            self._ask_request(
                question,
                options,
                token_budget=token_budget,
                max_tokens=max_tokens,
                llm=llm,
                prompt=prompt,
                prices=prices,
                answerability=answerability,
                abstain_if_weak=abstain_if_weak,
                layers=layers,
                max_pieces=max_pieces,
                counter=counter,
            )
        )

    def ask_stream(
        self,
        question: Query | str,
        *,
        token_budget: int | None = None,
        max_tokens: int = 1024,
        llm: LLM | None = None,
        prompt: AnswerPrompt | None = None,
        prices: Prices | None = None,
        answerability: AnswerabilityJudge | None = None,
        abstain_if_weak: bool = False,
        layers: Iterable[Layer | str] = ("L0", "L1", "L2"),
        max_pieces: int | None = None,
        counter: TokenCounter | Callable[[str], int] | None = None,
        **options: Unpack[SearchOptions],
    ) -> AnswerStream:
        """`Service.ask_stream`, by the pipeline, as `ask`."""
        return self._answerer().stream(
            self._ask_request(
                question,
                options,
                token_budget=token_budget,
                max_tokens=max_tokens,
                llm=llm,
                prompt=prompt,
                prices=prices,
                answerability=answerability,
                abstain_if_weak=abstain_if_weak,
                layers=layers,
                max_pieces=max_pieces,
                counter=counter,
            )
        )

    def _for_context(self, query: Query | str, options: SearchOptions) -> Query:
        """The query, without what the pipeline says of lists of hits: a context has none."""
        asked = self.pipeline.query(query, options)
        lists: dict[str, Any] = {"offset": 0, "per_document": None}
        own = set(self.pipeline.search) - set(options) if isinstance(query, str) else set()
        return attrs.evolve(asked, **{key: lists[key] for key in lists if key in own})

    def _answerer(self) -> Answerer:
        from triptych.answering.answerer import Answerer
        from triptych.context.builder import ContextBuilder

        return Answerer(ContextBuilder(self.searches, self.service.documents, self.service.chunks))

    def _ask_request(
        self,
        question: Query | str,
        options: SearchOptions,
        *,
        token_budget: int | None,
        llm: LLM | None,
        prompt: AnswerPrompt | None,
        answerability: AnswerabilityJudge | None,
        **given: Any,
    ) -> AskRequest:
        from triptych.answering.answerer import AskRequest

        pipeline, wired = self.pipeline, self.service.options
        if prompt is None and pipeline.prompt is not None:
            prompt = AnswerPrompt(instructions=pipeline.prompt)
        return AskRequest.of(
            self._for_context(question, options),
            token_budget=pipeline.token_budget if token_budget is None else token_budget,
            llm=llm or pipeline.llm or wired.llm,
            prompt=prompt,
            answerability=answerability or wired.answerability,
            **given,
        )


def find_pipeline(pipelines: Mapping[str, T], name: str) -> T:
    """Return the pipeline of this name.

    Raises:
        NotFoundError: there is none; the message names those that there are.
    """
    check_text(name, "a pipeline's name")
    if name in pipelines:
        return pipelines[name]
    nearest = difflib.get_close_matches(name, pipelines, n=1, cutoff=0.5)
    known = f"there are {', '.join(pipelines)}" if pipelines else "there is none"
    meant = f"did you mean {nearest[0]!r}?" if nearest else known
    raise NotFoundError(f"no pipeline is called {name!r}: {meant}")
