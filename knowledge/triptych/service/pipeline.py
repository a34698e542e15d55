"""A view by one pipeline: the Service's methods with its choices filled in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import attrs

from triptych.answers.options import (
    ASK_DEFAULTS,
    CONTEXT_DEFAULTS,
    AnswerPrompt,
    AskOptions,
    ContextOptions,
)
from triptych.records import Query, Result
from triptych.records.queries import SearchOptions, split_options
from triptych.search.pipeline_record import Pipeline
from triptych.search.query import check_queries

if TYPE_CHECKING:
    from triptych.answers.answerer import AnswerStream, AskRequest
    from triptych.answers.pack import ContextPack
    from triptych.answers.records import Answer
    from triptych.search.pipeline import SearchPipeline
    from triptych.search.semantic_cache import CachedSearches
    from triptych.service import Service


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
        self, query: Query | str, token_budget: int | None = None, **options: Unpack[ContextOptions]
    ) -> ContextPack:
        """`Service.context`, by the pipeline; ``token_budget`` None is the pipeline's."""
        from triptych.answers.context import ContextSettings

        own, searched = split_options(options, CONTEXT_DEFAULTS)
        budget = self.pipeline.token_budget if token_budget is None else token_budget
        settings = ContextSettings.of(budget, **own)
        contexts = self.service._parts.contexts(self.searches)
        return contexts.build(self._for_context(query, searched), settings)

    def ask(self, question: Query | str, **options: Unpack[AskOptions]) -> Answer:
        """`Service.ask`, by the pipeline: its budget, model and prompt, where none is given."""
        request = self._ask_request(question, options)
        return self.service._parts.answerer(self.searches).ask(request)

    def ask_stream(self, question: Query | str, **options: Unpack[AskOptions]) -> AnswerStream:
        """`Service.ask_stream`, by the pipeline, as `ask`."""
        return self.service._parts.answerer(self.searches).stream(
            self._ask_request(question, options)
        )

    def _for_context(self, query: Query | str, options: Mapping[str, Any]) -> Query:
        """The query, without what the pipeline says of lists of hits: a context has none."""
        asked = self.pipeline.query(query, options)
        lists: dict[str, Any] = {"offset": 0, "per_document": None}
        own = set(self.pipeline.search) - set(options) if isinstance(query, str) else set()
        return attrs.evolve(asked, **{key: lists[key] for key in lists if key in own})

    def _ask_request(self, question: Query | str, options: AskOptions) -> AskRequest:
        from triptych.answers.answerer import AskRequest

        pipeline, service = self.pipeline, self.service.options
        said = pipeline.prompt
        wired = {
            "token_budget": pipeline.token_budget,
            "llm": pipeline.llm or service.llm,
            "prompt": None if said is None else AnswerPrompt(instructions=said),
            "answerability": service.answerability,
        }
        own, searched = split_options(options, ASK_DEFAULTS, wired)
        return AskRequest.of(self._for_context(question, searched), **own)
