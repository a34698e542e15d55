"""Building a context pack for a query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

import attrs

from triptych import telemetry
from triptych._internal.digests import digest
from triptych.answers.options import ContextSettings
from triptych.answers.pack import ContextPack, ContextReceipt, considered, receipt_query
from triptych.answers.packer import Packer
from triptych.answers.pieces import WIDEST, Piece, fit, new_mark, render, said
from triptych.answers.prefix import ContextPrefix, PrefixBuilder
from triptych.answers.proof import Passage
from triptych.answers.retrieval import ContextParameters, Retrieved, Sources, retrieve
from triptych.contracts import ChunkRepo, DocumentReader, LayerRepo
from triptych.records import Layer, Mode, Query
from triptych.search.hydration import asks_for_headings
from triptych.search.pipeline import SearchPipeline
from triptych.search.query import has_words, validate
from triptych.text import ANALYZER_VERSION

if TYPE_CHECKING:
    from triptych.search.past.stores import Past


_LONGEST: Final = 300
_LOOKED_AT: Final = 5
"""Characters of a claim that are searched for, and hits that it is looked up in."""


@attrs.frozen(eq=False)
class ContextBuilder:
    """What `Service.context` does."""

    _searches: SearchPipeline
    _documents: DocumentReader
    _chunks: ChunkRepo
    _layers: LayerRepo
    _at: Callable[..., AbstractContextManager[Past[Any]]]
    _recipe: ContextParameters = attrs.field(factory=ContextParameters)

    def build(self, query: Query, settings: ContextSettings) -> ContextPack:
        """The best mixture under the budget."""
        return self.find_and_pack(query, settings)[1]

    def prefix(self, query: Query, settings: ContextSettings) -> ContextPrefix:
        """The prefix of every context of these datasets, of this ``where``; the text of ``query``
        plays no role."""
        with telemetry.operation("context_prefix"):
            if query.as_of is None:
                made = self._prefix(query, settings)
            else:
                with self._at(query, layers=True) as past:
                    made = past.dated(past.parts.contexts._prefix(past.query, settings))
            telemetry.note(pieces=len(made.pieces), tokens=made.tokens)
            return made

    def _prefix(self, query: Query, settings: ContextSettings) -> ContextPrefix:
        searches = self._searches
        checked, filter_ = validate(query, searches.resolver.lanes)
        return PrefixBuilder(self._documents, self._layers).build(
            searches.resolver.existing_datasets(checked),
            filter_.tree,
            settings,
            fresh_only=checked.fresh_only,
        )

    def find_and_pack(
        self, query: Query, settings: ContextSettings
    ) -> tuple[Retrieved, ContextPack]:
        """Everything that a context of ``query`` can be made of, and the best mixture of it."""
        with telemetry.operation("context"):
            found, pack = self._find_and_pack(query, settings)
            telemetry.note(pieces=len(pack.pieces), tokens=pack.tokens)
            return found, pack

    def look_up(self, query: Query, words: str) -> list[Passage]:
        """Passages of the query's datasets that have ``words``, by keyword alone: no model runs."""
        searches = self._searches
        if Mode.BM25 not in searches.resolver.lanes or not has_words(words):
            return []
        asked = Query(
            text=words[:_LONGEST],
            dataset_id=query.dataset_id,
            dataset_ids=query.dataset_ids,
            scope=query.scope,
            where=query.where,
            fresh_only=query.fresh_only,
            as_of=query.as_of,
            mode=Mode.BM25,
            top_k=_LOOKED_AT,
        )
        if query.as_of is None:
            hits = _unasked(searches).search(asked).hits
        else:
            with self._at(asked, layers=False) as past:
                hits = _unasked(past.parts.searches).search(past.query).hits
        return [Passage.of_hit(hit) for hit in hits]

    def _find_and_pack(
        self, query: Query, settings: ContextSettings
    ) -> tuple[Retrieved, ContextPack]:
        if query.as_of is None:
            found = retrieve(self._searches, query, settings.layers, self._recipe)
            with telemetry.stage("pack"):
                return found, self._pack(query, settings, found)
        wants_layers = settings.layers != {Layer.DETAIL}
        with self._at(query, layers=wants_layers) as past:
            found = retrieve(past.parts.searches, past.query, settings.layers, self._recipe)
            with telemetry.stage("pack"):
                then = attrs.evolve(query, as_of=past.as_of)
                return found, past.dated(past.parts.contexts._pack(then, settings, found))

    def _pack(self, query: Query, settings: ContextSettings, found: Retrieved) -> ContextPack:
        budget, format, counting = settings.token_budget, settings.format, settings.counter
        sources = Sources(self._documents, self._chunks)
        widest = WIDEST if settings.fence else ""
        recipe = self._recipe
        if asks_for_headings(query):
            # What lies between two passages may be what the query excludes.
            recipe = attrs.evolve(recipe, bridge=0)
        prefix = None if settings.prefix_tokens is None else self._prefix(query, settings)
        before = () if prefix is None else prefix.pieces
        packer = Packer(sources, counting, format, budget, recipe, widest, before)
        ranked = packer.pack(found)[: settings.max_pieces]
        warnings = [*found.warnings, *([counting.warning] if counting.warning else [])]
        pieces = fit(ranked, format, budget, counting.count, widest)
        mark = new_mark(said(pieces)) if settings.fence else ""
        if mark:
            # A vocabulary may count this name higher than the one that the room was kept for.
            pieces = fit(pieces, format, budget, counting.count, mark)
        something = bool(found.passages or found.abstracts or found.overviews)
        repeated = any(offer.fate == "repeated" for offer in packer.offers)
        if something and not pieces and before and repeated:
            warnings.append("the prefix contains all hits: there is no tail")
        elif something and not pieces:
            warnings.append(
                f"the budget of {budget} tokens is too small for any passage with its "
                "citation: give more"
            )
        if prefix is not None:
            warnings += prefix.warnings
        evidence = None if found.result is None else found.result.evidence
        if pieces and evidence is not None and evidence.level in ("weak", "none"):
            doubt = "no" if evidence.level == "none" else evidence.level
            warnings.insert(0, f"{doubt} evidence: {evidence.reason}")  # where few are shown, this
        return ContextPack(
            query=query.text,
            pieces=pieces,
            budget=budget,
            tokens=counting.count(render(pieces, format, budget, counting.count, mark)),
            format=format,
            counter=counting.name,
            exact=counting.exact,
            warnings=tuple(warnings),
            evidence=evidence,
            count=counting.count,
            mark=mark,
            prefix=prefix,
            trace=self._trace(query, settings, found, packer, pieces),
        )

    def _trace(
        self,
        query: Query,
        settings: ContextSettings,
        found: Retrieved,
        packer: Packer,
        pieces: Sequence[Piece],
    ) -> Callable[[ContextReceipt], ContextReceipt]:
        """What completes a receipt, when somebody reads it."""
        offers, recipe, configuration = packer.offers, self._recipe, self._searches.configuration

        def complete(receipt: ContextReceipt) -> ContextReceipt:
            return attrs.evolve(
                receipt,
                query=receipt_query(query),
                layers=tuple(sorted(settings.layers)),
                configuration={
                    **configuration,
                    "analyzer": str(ANALYZER_VERSION),
                    "context": digest("context", repr(recipe)),
                },
                considered=considered(found, offers, pieces, settings.max_pieces),
            )

        return complete


def _unasked(searches: SearchPipeline) -> SearchPipeline:
    """``searches`` without the steps of a question, and without the log of questions."""
    return attrs.evolve(searches.derived(), observer=None)
