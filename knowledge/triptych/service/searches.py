"""The methods of a Service that search, answer and verify citations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

import attrs

from triptych.contracts.rules import only_dataset
from triptych.records import Explanation, Mode, Query, Result, check_text, check_whole
from triptych.records.queries import SearchOptions, split_options
from triptych.search.query import check_queries, names_none, query_of
from triptych.service.base import ServiceBase, check_names
from triptych.service.operations import Effect, operation

if TYPE_CHECKING:
    from triptych.answers.answerer import AskRequest
    from triptych.answers.options import AskOptions, ContextOptions, PrefixOptions
    from triptych.answers.pack import ContextPack, ContextReceipt
    from triptych.answers.pieces import Citation, Verification
    from triptych.answers.prefix import ContextPrefix
    from triptych.answers.records import Answer, AnswerReceipt, AnswerStream
    from triptych.answers.replay import Replay


class Searches(ServiceBase):
    """The methods of a Service for searches and answers."""

    @operation(Effect.READS)
    def search(self, query: Query | str, **options: Unpack[SearchOptions]) -> Result:
        """Search for chunks (L2), abstracts (L0) or overviews (L1).

        ``query`` is a `Query` or its text. ``options`` are the other fields of `Query`:
        ``dataset_id`` (default: the only one) or ``scope="all"``, ``mode``, ``layer``, ``top_k``
        (10), ``threshold``, ``min_scores``, ``where``, ``fresh_only``, ``keyword_boost`` and more;
        see `SearchOptions`. All hits are read in one snapshot.

        Raises:
            ValidationError: a field of the query is invalid, or it names none of several datasets.
            NotFoundError: the dataset does not exist.
            NotAvailableError: the mode is not available (hybrid mode adds a warning instead).
            ModelMismatchError: in vector mode, the dataset holds vectors of another model.
        """
        return self._first.search(self._query(query, options))

    @operation(Effect.READS)
    def search_documents(self, query: Query | str, **options: Unpack[SearchOptions]) -> Result:
        """Search for whole documents, scored by their full text and by their nearest chunk.

        As `search`, but ``layer`` is ignored: hits have ``layer`` None, and their content is the
        beginning of the document.
        """
        return self._first.search_documents(self._query(query, options))

    @operation(Effect.READS, long=True)
    def search_many(
        self, queries: Iterable[Query | str], **options: Unpack[SearchOptions]
    ) -> list[Result]:
        """Run `search` for each query, in order; the texts are embedded in one batch.

        If the batch fails, each text is embedded separately. If that fails too, hybrid mode adds a
        warning and vector mode raises the error, as in `search`.
        """
        several = check_queries(queries)
        pipeline = self.options.pipeline
        if pipeline is not None:
            return self._first.search_many([pipeline.query(query, options) for query in several])
        return self._first.search_many(self._named([query_of(query, options) for query in several]))

    @operation(Effect.READS)
    def explain(
        self, query: Query | str, doc_name: str, **options: Unpack[SearchOptions]
    ) -> Explanation:
        """Explain why `search` finds a document for a query, or does not find it.

        The result has the document's rank in each lane and after fusion, the query's words that it
        lacks, and what excludes it: it has expired or is not indexed, the filter, a phrase, the
        threshold, a step, or better passages. Takes the arguments of `search`, and a few times as
        long.

        Raises:
            NotFoundError: no searched dataset has the document.
            ValidationError: several searched datasets have it, or the query has no words.
            TriptychError: as `search`.
        """
        doc_name = check_text(doc_name, "a document name")
        return self.searches.explain(self._query(query, options), doc_name)

    @operation(Effect.READS)
    def similar(
        self,
        dataset_id: str,
        name: str,
        *,
        chunk: int | None = None,
        top_k: int = 10,
        where: Mapping[str, Any] | None = None,
    ) -> Result:
        """Find the chunks of other documents that are most like a document, or like its ``chunk``.

        They are nearest to the mean of the stored vectors of its chunks, or to the vector of the
        chunk of this index (`Hit.chunk_index`). No model is called, and no step of a search runs.

        Raises:
            NotFoundError: the document does not exist.
            NotAvailableError: it has no vectors, or there is no embedder.
            ModelMismatchError: its vectors are of another model.
        """
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

    @operation(Effect.READS)
    def context(
        self, query: Query | str, token_budget: int | None = None, **options: Unpack[ContextOptions]
    ) -> ContextPack:
        """Select passages and layers for a prompt within a budget of tokens.

        ``token_budget`` None is the pipeline's, and 2,800 without one.
        ``query`` is as in `search`. The ``options`` are those of `search`, ``format``, ``layers``,
        ``max_pieces``, ``counter``, ``fence`` and ``prefix_tokens``; see `ContextOptions`. If
        nothing fits the budget, the pack is empty and has a warning.

        Raises:
            ValidationError: ``token_budget`` or an option is invalid, or the counter does not
                return a number.
            TriptychError: as `search`.
        """
        # Imported late, here and below: most programs only search, and commands start faster.
        from triptych.answers.options import BUDGET, CONTEXT_DEFAULTS, ContextSettings

        own, searched = split_options(options, CONTEXT_DEFAULTS)
        if token_budget is None:
            pipeline = self.options.pipeline
            token_budget = pipeline.token_budget if pipeline else BUDGET
        settings = ContextSettings(token_budget=token_budget, prefix_counter=own["counter"], **own)
        return self._parts.contexts.build(self._query_of_context(query, searched), settings)

    @operation(Effect.READS)
    def context_prefix(self, prefix_tokens: int, **options: Unpack[PrefixOptions]) -> ContextPrefix:
        """Return the prefix that `context` has with the same options, without a question.

        It consists of abstracts (L0) and overviews (L1). Its bytes are the same for every question
        until one of its layers changes; then ``digest`` changes too. See `PrefixOptions`.

        Raises:
            TriptychError: as `context`.
        """
        from triptych.answers.options import FORM_DEFAULTS, ContextSettings

        own, searched = split_options(options, FORM_DEFAULTS)
        settings = ContextSettings(
            token_budget=0, prefix_tokens=prefix_tokens, prefix_counter=own["counter"], **own
        )
        # The text has no effect, but a query must have words.
        query = self._query("all", {**searched, "mode": Mode.BM25})
        return self._parts.contexts.prefix(query, settings)

    @operation(Effect.READS)
    def verify(self, citation: Citation) -> Verification:
        """Check whether the cited passage is fresh, changed or gone; the result has a diff.

        A passage that only moved is fresh; the result has its new position.

        Raises:
            ValidationError: ``citation`` is not a `Citation`.
        """
        from triptych.answers.replay import verify

        return verify(citation, self._parts.living, self._parts.layers)

    @operation(Effect.READS, long=True)
    def ask(self, question: Query | str, **options: Unpack[AskOptions]) -> Answer:
        """Answer a question from the documents, with checked citations.

        The model gets the `context` of ``question`` within ``token_budget``, each text between
        delimiters that no document can guess. Each ``[n]`` in the answer cites a piece of that
        context. A number without a piece is removed with a warning, and ``Answer.uncited`` lists
        the sentences without a citation. If nothing is found, the answer abstains without a call of
        the model. It also abstains if the model says that its sources do not answer.

        The ``options`` are those of `search`, ``token_budget``, ``max_tokens``, ``llm``,
        ``prompt``, ``prices``, ``answerability``, ``abstain_if_weak``, ``layers``, ``max_pieces``
        and ``counter``; see `AskOptions`.

        Raises:
            NotAvailableError: no language model is configured.
            ProviderError: the model failed or returned an empty text.
            CancelledError: the deadline passed.
            TriptychError: as `context`.
        """
        return self._parts.answerer.ask(self._ask_request(question, options))

    @operation(Effect.READS)
    def ask_stream(self, question: Query | str, **options: Unpack[AskOptions]) -> AnswerStream:
        """Stream the text of `ask` as the model writes it; ``stream.answer`` is the complete
        answer.

        The search runs, and raises its errors, before this returns. Citations are checked before
        they are streamed: the joined pieces equal ``answer.text``. If the model stops early,
        reading raises `ProviderError`, and the partial text is not an answer.

        Raises:
            TriptychError: as `ask`.
        """
        return self._parts.answerer.stream(self._ask_request(question, options))

    @operation(Effect.READS, long=True)
    def replay(self, receipt: ContextReceipt | AnswerReceipt) -> Replay:
        """Rebuild the context of a receipt from the kept versions of its documents.

        If all versions are kept, the text and the model's messages are identical byte for byte;
        ``missing`` lists the pieces that are gone and why. No search runs and no model is called.

        Raises:
            ValidationError: ``receipt`` is not a receipt.
        """
        from triptych.answers.replay import replay

        return replay(receipt, self._parts.living, self.layer_repo, self.capabilities.versions)

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

    def _query(self, query: Query | str, options: Mapping[str, Any]) -> Query:
        if self.options.pipeline is not None:
            return self.options.pipeline.query(query, options)
        return self._named([query_of(query, options)])[0]

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
