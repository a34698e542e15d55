"""How a Service searches and answers, and the proofs of its answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Unpack

from triptych.records import Explanation, Mode, Query, Result, check_text
from triptych.records.queries import SearchOptions, split_options
from triptych.search.query import check_queries, query_of
from triptych.service.base import ServiceBase
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
    """How a Service searches and answers."""

    @operation(Effect.READS)
    def search(self, query: Query | str, **options: Unpack[SearchOptions]) -> Result:
        """Find chunks (L2), abstracts (L0) or overviews (L1).

        ``query`` is a `Query`, or its text. ``options`` are the other fields of `Query`:
        ``dataset_id`` (or ``scope="all"``), ``mode``, ``layer``, ``top_k`` (10), ``threshold``,
        ``min_scores``, ``where``, ``fresh_only`` and ``keyword_boost``; see `SearchOptions`. All
        hits are read in one snapshot.

        Raises:
            ValidationError: a field of the query is invalid.
            NotFoundError: the dataset does not exist.
            NotAvailableError: the mode cannot be served (in hybrid mode a warning).
            ModelMismatchError: vector mode over vectors of another model.
        """
        return self._first.search(query_of(query, options))

    @operation(Effect.READS)
    def search_documents(self, query: Query | str, **options: Unpack[SearchOptions]) -> Result:
        """Find whole documents: scored over their full text, and by the nearest of their chunks.

        As `search`, but ``layer`` plays no role: hits have ``layer`` None, and their content
        is the document's opening.
        """
        return self._first.search_documents(query_of(query, options))

    @operation(Effect.READS, long=True)
    def search_many(
        self, queries: Iterable[Query | str], **options: Unpack[SearchOptions]
    ) -> list[Result]:
        """`search` for each query, in order; their texts are embedded in one batch.

        If the batch fails, each text is embedded separately. A query whose text still fails ends as
        in `search`: with a warning in hybrid mode, otherwise with the error.
        """
        several = check_queries(queries)
        return self._first.search_many([query_of(query, options) for query in several])

    @operation(Effect.READS)
    def explain(
        self, query: Query | str, doc_name: str, **options: Unpack[SearchOptions]
    ) -> Explanation:
        """Explain why `search` shows a document for a query, or does not.

        The document's place in each lane and in the ranking, the words of the query that it lacks,
        and what keeps it out: that it has expired or is not indexed, the filter, a phrase, the
        threshold, a step, or better passages. ``query`` and ``options`` are those of `search`. It
        takes a few times as long as the search.

        Raises:
            NotFoundError: no dataset that is searched has the document.
            ValidationError: several have it, or the query has no words.
            TriptychError: as `search`.
        """
        doc_name = check_text(doc_name, "a document name")
        return self.searches.explain(query_of(query, options), doc_name)

    # Contexts and answers

    @operation(Effect.READS)
    def context(
        self, query: Query | str, token_budget: int, **options: Unpack[ContextOptions]
    ) -> ContextPack:
        """The best mixture of passages and layers for a prompt, under a budget of tokens.

        ``query`` is that of `search`. `ContextOptions` describes the ``options``: those of
        `search`, ``format``, ``layers``, ``max_pieces``, ``counter``, ``fence`` and
        ``prefix_tokens``. A budget too small for anything gives an empty pack with a warning.

        Raises:
            ValidationError: budget, format, layers or counter is invalid, or the counter
                answers no number.
            TriptychError: as `search`.
        """
        # Here, as below: most programs search only, and a command starts sooner.
        from triptych.answers.options import CONTEXT_DEFAULTS, ContextSettings

        own, searched = split_options(options, CONTEXT_DEFAULTS)
        settings = ContextSettings(token_budget=token_budget, prefix_counter=own["counter"], **own)
        contexts = self._parts.contexts(self.searches)
        return contexts.build(query_of(query, searched), settings)

    @operation(Effect.READS)
    def context_prefix(self, prefix_tokens: int, **options: Unpack[PrefixOptions]) -> ContextPrefix:
        """The prefix that `context` gives with the same options, without a question.

        It consists of abstracts (L0) and overviews (L1). Its bytes are the same for every question
        until one of its layers changes; then ``digest`` changes.
        `PrefixOptions` describes the ``options``.

        Raises:
            TriptychError: as `context`.
        """
        from triptych.answers.options import FORM_DEFAULTS, ContextSettings

        own, searched = split_options(options, FORM_DEFAULTS)
        settings = ContextSettings(
            token_budget=0, prefix_tokens=prefix_tokens, prefix_counter=own["counter"], **own
        )
        # The text plays no role, but a query has words.
        query = query_of("all", {**searched, "mode": Mode.BM25})
        return self._parts.contexts(self.searches).prefix(query, settings)

    @operation(Effect.READS)
    def verify(self, citation: Citation) -> Verification:
        """Check a citation: fresh, changed or gone, with the difference.

        A passage that only moved is fresh, and the result has its new place.

        Raises:
            ValidationError: ``citation`` is none.
        """
        from triptych.answers.replay import verify

        return verify(citation, self._parts.living, self._parts.layers)

    @operation(Effect.READS, long=True)
    def ask(self, question: Query | str, **options: Unpack[AskOptions]) -> Answer:
        """Answer a question from the documents, with citations that are checked.

        The model sees the `context` of ``question`` under ``token_budget``, each text between
        delimiters that no document can guess. Each ``[n]`` of the answer names a piece of it. A
        number without a piece is removed, with a warning, and ``Answer.uncited`` lists the
        sentences without a citation. If nothing was found the answer abstains, and the model is
        not called. It also abstains if the model says that its sources do not answer.

        `AskOptions` describes the ``options``: those of `search`, ``token_budget``, ``max_tokens``,
        ``llm``, ``prompt``, ``prices``, ``answerability``, ``abstain_if_weak``, ``layers``,
        ``max_pieces`` and ``counter``.

        Raises:
            NotAvailableError: no language model is configured.
            ProviderError: the model failed, or answered with an empty text.
            CancelledError: the deadline passed.
            TriptychError: as `context`.
        """
        return self._parts.answerer(self.searches).ask(self._ask_request(question, options))

    @operation(Effect.READS)
    def ask_stream(self, question: Query | str, **options: Unpack[AskOptions]) -> AnswerStream:
        """`ask` in pieces, as the model writes them; ``stream.answer`` is the whole at the end.

        The search is done, and its errors are raised, before this returns. A possible citation is
        held back until it has been checked: the pieces joined are ``answer.text``. If the model
        breaks off, reading raises `ProviderError`, and the text so far is no answer.

        Raises:
            TriptychError: as `ask`.
        """
        return self._parts.answerer(self.searches).stream(self._ask_request(question, options))

    @operation(Effect.READS, long=True)
    def replay(self, receipt: ContextReceipt | AnswerReceipt) -> Replay:
        """Make the context of a receipt again, from the versions of documents that are kept.

        If all are kept, the text and the model's messages are the same, byte for byte. ``missing``
        lists the pieces that are gone, and why. Nothing is searched, and no model is called.

        Raises:
            ValidationError: ``receipt`` is none.
        """
        from triptych.answers.replay import replay

        return replay(receipt, self._parts.living, self.layer_repo, self.capabilities.versions)

    def _ask_request(self, question: Query | str, options: AskOptions) -> AskRequest:
        from triptych.answers.answerer import AskRequest
        from triptych.answers.options import ASK_DEFAULTS

        wired = {"llm": self.options.llm, "answerability": self.options.answerability}
        own, searched = split_options(options, ASK_DEFAULTS, wired)
        return AskRequest.of(query_of(question, searched), **own)
