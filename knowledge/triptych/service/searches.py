"""The methods of a Service that search, answer and verify citations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Unpack

import attrs

from triptych.contracts.rules import only_dataset
from triptych.records import Explanation, Layer, Mode, Query, Result, check_text, check_whole
from triptych.records.queries import SearchOptions, split_options
from triptych.records.values import to_layer
from triptych.search.query import check_queries, names_none, query_of
from triptych.service.base import ServiceBase, check_names, checked

if TYPE_CHECKING:
    from triptych.answers.answerer import AskRequest
    from triptych.answers.options import AskOptions, ContextOptions, PrefixOptions
    from triptych.answers.pack import ContextPack, ContextReceipt
    from triptych.answers.pieces import Citation, Verification
    from triptych.answers.prefix import ContextPrefix
    from triptych.answers.records import Answer, AnswerReceipt, AnswerStream
    from triptych.answers.replay import Replay
    from triptych.search.past.stores import Past
    from triptych.service.parts import Parts


class Searches(ServiceBase):
    """The methods of a Service for searches and answers."""

    @checked
    def search(self, query: Query | str, **options: Unpack[SearchOptions]) -> Result:
        asked = self._query(query, options)
        if asked.as_of is None:
            return self._first.search(asked)
        with self._at(asked) as past:
            return past.dated(past.parts.searches.search(past.query))

    @checked
    def search_documents(self, query: Query | str, **options: Unpack[SearchOptions]) -> Result:
        asked = self._query(query, options)
        if asked.as_of is None:
            return self._first.search_documents(asked)
        with self._at(attrs.evolve(asked, layer=Layer.DETAIL)) as past:
            return past.dated(past.parts.searches.search_documents(past.query))

    @checked
    def search_many(
        self, queries: Iterable[Query | str], **options: Unpack[SearchOptions]
    ) -> list[Result]:
        several = check_queries(queries)
        pipeline = self.options.pipeline
        if pipeline is not None:
            asked = [pipeline.query(query, options) for query in several]
        else:
            asked = self._named([query_of(query, options) for query in several])
        if all(query.as_of is None for query in asked):
            return self._first.search_many(asked)
        from triptych.search.past.stores import by_moment

        found: dict[int, Result] = {}
        for places in by_moment(asked):
            of = [asked[at] for at in places]
            if of[0].as_of is None:
                results = self._first.search_many(of)
            else:
                with self._at(of[0]) as past:
                    now = [attrs.evolve(each, as_of=None) for each in of]
                    results = list(map(past.dated, past.parts.searches.search_many(now)))
            found |= zip(places, results, strict=True)
        return [found[at] for at in range(len(asked))]

    @checked
    def explain(
        self, query: Query | str, doc_name: str, **options: Unpack[SearchOptions]
    ) -> Explanation:
        doc_name = check_text(doc_name, "a document name")
        asked = self._query(query, options)
        if asked.as_of is None:
            return self.searches.explain(asked, doc_name)
        with self._at(asked) as past:
            return past.parts.searches.explain(past.query, doc_name)

    @checked
    def similar(
        self,
        dataset_id: str,
        name: str,
        *,
        chunk: int | None = None,
        top_k: int = 10,
        where: Mapping[str, Any] | None = None,
    ) -> Result:
        check_names(dataset_id, name)
        if self._parts.living.get_info(dataset_id, name) is None:
            raise self._missing(dataset_id, name)
        if chunk is not None:
            check_whole(chunk, "chunk")
        others = {"$and": [{"$name": {"$ne": name}}, *([where] if where else [])]}
        query = self._query(
            name, {"dataset_id": dataset_id, "mode": Mode.VECTOR, "top_k": top_k, "where": others}
        )
        return self.searches.similar(query, name, chunk)

    # Contexts and answers

    @checked
    def context(
        self, query: Query | str, token_budget: int | None = None, **options: Unpack[ContextOptions]
    ) -> ContextPack:
        # Imported late, here and below: most programs only search, and commands start faster.
        from triptych.answers.options import BUDGET, CONTEXT_DEFAULTS, ContextSettings

        own, searched = split_options(options, CONTEXT_DEFAULTS)
        if token_budget is None:
            pipeline = self.options.pipeline
            token_budget = pipeline.token_budget if pipeline else BUDGET
        settings = ContextSettings(token_budget=token_budget, prefix_counter=own["counter"], **own)
        return self._parts.contexts.build(self._query_of_context(query, searched), settings)

    @checked
    def context_prefix(self, prefix_tokens: int, **options: Unpack[PrefixOptions]) -> ContextPrefix:
        from triptych.answers.options import FORM_DEFAULTS, ContextSettings

        own, searched = split_options(options, FORM_DEFAULTS)
        settings = ContextSettings(
            token_budget=0, prefix_tokens=prefix_tokens, prefix_counter=own["counter"], **own
        )
        # The text has no effect, but a query must have words.
        query = self._query("all", {**searched, "mode": Mode.BM25})
        return self._parts.contexts.prefix(query, settings)

    @checked
    def verify(self, citation: Citation) -> Verification:
        from triptych.answers.replay import verify

        return verify(citation, self._parts.living, self._parts.layers)

    @checked
    def ask(self, question: Query | str, **options: Unpack[AskOptions]) -> Answer:
        return self._parts.answerer.ask(self._ask_request(question, options))

    @checked
    def ask_stream(self, question: Query | str, **options: Unpack[AskOptions]) -> AnswerStream:
        return self._parts.answerer.stream(self._ask_request(question, options))

    @checked
    def replay(
        self, receipt: ContextReceipt | AnswerReceipt, *, answer: str | None = None
    ) -> Replay:
        from triptych.answers.replay import replay

        parts = self._parts.living, self.layer_repo, self.capabilities.versions
        return replay(receipt, *parts, answer)

    def _ask_request(self, question: Query | str, options: AskOptions) -> AskRequest:
        from triptych.answers.answerer import AskRequest
        from triptych.answers.options import ASK_DEFAULTS, AnswerPrompt

        pipeline = self.options.pipeline
        wired: dict[str, Any] = {
            "llm": self.options.llm,
            "answerability": self.options.answerability,
        }
        if pipeline is not None:
            said = pipeline.prompt
            wired["prompt"] = None if said is None else AnswerPrompt(instructions=said)
            wired["token_budget"] = pipeline.token_budget
        own, searched = split_options(options, ASK_DEFAULTS, wired)
        return AskRequest.of(self._query_of_context(question, searched), **own)

    def _at(self, query: Query) -> AbstractContextManager[Past[Parts]]:
        """What searches the moment that ``query.as_of`` names."""
        return self._parts.at(query, layers=to_layer(query.layer) is not Layer.DETAIL)

    def _query(self, query: Query | str, options: Mapping[str, Any]) -> Query:
        pipeline = self._parts.options.pipeline
        if pipeline is not None:
            return pipeline.query(query, options)
        asked = query_of(query, options)
        return self._named([asked])[0] if names_none(asked) else asked

    def _query_of_context(self, query: Query | str, options: Mapping[str, Any]) -> Query:
        """The query without the pipeline's own ``offset`` and ``per_document``, which a context
        has not."""
        asked, pipeline = self._query(query, options), self.options.pipeline
        if pipeline is None or not isinstance(query, str):
            return asked
        lists: dict[str, Any] = {"offset": 0, "per_document": None}
        own = set(pipeline.search) - set(options)
        return attrs.evolve(asked, **{key: lists[key] for key in lists if key in own})

    def _named(self, queries: list[Query]) -> list[Query]:
        """Return the queries; those that name no dataset are of the only one."""
        if not any(map(names_none, queries)):
            return queries
        advice = "name a dataset_id, or search everywhere with scope='all'"
        only = only_dataset(self.documents.list_datasets(), advice)
        return [
            attrs.evolve(each, dataset_id=only) if names_none(each) else each for each in queries
        ]
