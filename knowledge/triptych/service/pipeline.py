"""A view by one pipeline: the Service's methods with its choices filled in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import attrs

from triptych.answering.prompt import AnswerPrompt
from triptych.contracts import LLM, AnswerabilityJudge
from triptych.records import Layer, Prices, Query, Result
from triptych.records.search_options import SearchOptions
from triptych.search.pipeline_record import Pipeline
from triptych.search.query import check_queries
from triptych.text.tokens import TokenCounter

if TYPE_CHECKING:
    from triptych.answering.answerer import Answerer, AskRequest
    from triptych.answering.records import Answer
    from triptych.answering.streaming import AnswerStream
    from triptych.context.builder import ContextBuilder
    from triptych.context.pack import ContextPack
    from triptych.search.pipeline import SearchPipeline
    from triptych.search.semantic_cache import CachedSearches
    from triptych.service import Service

__all__ = ["PipelineView"]


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
        from triptych.context.builder import ContextSettings

        contexts = self._contexts()
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

        return Answerer(self._contexts())

    def _contexts(self) -> ContextBuilder:
        from triptych.context.builder import ContextBuilder

        kb = self.service
        return ContextBuilder(self.searches, kb.documents, kb.chunks, kb.options.context)

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
