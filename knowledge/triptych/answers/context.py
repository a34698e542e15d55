"""From a query to a pack."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import attrs

from triptych import telemetry
from triptych._internal.digests import digest
from triptych.answers.pack import ContextPack, ContextReceipt, considered, receipt_query
from triptych.answers.packer import Packer
from triptych.answers.pieces import WIDEST, Piece, check_format, fit, new_mark, render
from triptych.answers.retrieval import ContextParameters, Retrieved, Sources, retrieve
from triptych.contracts import ChunkRepo, DocumentRepo
from triptych.errors import ValidationError
from triptych.records import Layer, Query, check_whole, to_layer
from triptych.search.hydration import asks_for_headings
from triptych.search.pipeline import SearchPipeline
from triptych.text import ANALYZER_VERSION
from triptych.text.tokens import TokenCounter, as_counter


def _layers(layers: Any) -> frozenset[Layer]:
    if isinstance(layers, str) or not isinstance(layers, Iterable):
        raise ValidationError(f"layers is a list such as ['L0', 'L2'], not {layers!r:.60}")
    kinds = frozenset(map(to_layer, layers))
    if not kinds:
        raise ValidationError("layers names none: give at least one of 'L0', 'L1' and 'L2'")
    return kinds


def _budget(tokens: int) -> int:
    return check_whole(tokens, "token_budget")


def _max_pieces(most: int | None) -> int | None:
    return None if most is None else check_whole(most, "max_pieces", least=1)


@attrs.frozen(kw_only=True, slots=True)
class ContextSettings:
    """How a context is written: the arguments of `Service.context` beside the query.

    Raises:
        ValidationError: one of them is invalid.
    """

    token_budget: int = attrs.field(converter=_budget)
    format: str = attrs.field(converter=check_format)
    layers: frozenset[Layer] = attrs.field(converter=_layers)
    max_pieces: int | None = attrs.field(converter=_max_pieces)
    counter: TokenCounter = attrs.field(converter=as_counter)
    fence: bool

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.fence, bool):
            raise ValidationError(f"fence is True or False, not {self.fence!r:.60}")
        if self.fence and self.format == "json":
            raise ValidationError(
                "JSON escapes its texts and takes no fence: leave fence out, or choose a format "
                "for prompts"
            )


class ContextBuilder:
    """What `Service.context` does."""

    def __init__(
        self,
        searches: SearchPipeline,
        documents: DocumentRepo,
        chunks: ChunkRepo,
        recipe: ContextParameters | None = None,
    ) -> None:
        self._searches = searches
        self._documents = documents
        self._chunks = chunks
        self._recipe = recipe or ContextParameters()

    def build(self, query: Query, settings: ContextSettings) -> ContextPack:
        """The best mixture under the budget."""
        return self.find_and_pack(query, settings)[1]

    def find_and_pack(
        self, query: Query, settings: ContextSettings
    ) -> tuple[Retrieved, ContextPack]:
        """Everything that a context of ``query`` can be made of, and the best mixture of it."""
        with telemetry.operation("context"):
            found, pack = self._find_and_pack(query, settings)
            telemetry.note(pieces=len(pack.pieces), tokens=pack.tokens)
            return found, pack

    def _find_and_pack(
        self, query: Query, settings: ContextSettings
    ) -> tuple[Retrieved, ContextPack]:
        if query.as_of is None:
            found = retrieve(self._searches, query, settings.layers, self._recipe)
            with telemetry.stage("pack"):
                return found, self._pack(query, settings, found)
        wants_layers = settings.layers != {Layer.DETAIL}
        with self._searches.past(query, layers=wants_layers) as past:
            store = past.store
            builder = ContextBuilder(past.searches, store.documents, store.chunks, self._recipe)
            found = retrieve(past.searches, past.query, settings.layers, self._recipe)
            with telemetry.stage("pack"):
                pack = builder._pack(attrs.evolve(query, as_of=past.as_of), settings, found)
            warnings = (*past.warnings, *pack.warnings)
            return found, attrs.evolve(pack, as_of=past.as_of, warnings=warnings)

    def _pack(self, query: Query, settings: ContextSettings, found: Retrieved) -> ContextPack:
        budget, format, counting = settings.token_budget, settings.format, settings.counter
        sources = Sources(self._documents, self._chunks)
        widest = WIDEST if settings.fence else ""
        recipe = self._recipe
        if asks_for_headings(query):
            # What lies between two passages may be what the query excludes.
            recipe = attrs.evolve(recipe, bridge=0)
        packer = Packer(sources, counting, format, budget, recipe, widest)
        ranked = packer.pack(found)[: settings.max_pieces]
        warnings = [*found.warnings, *([counting.warning] if counting.warning else [])]
        pieces = fit(ranked, format, budget, counting.count, widest)
        mark = new_mark(_said(pieces)) if settings.fence else ""
        if mark:
            # A vocabulary may count this name higher than the one that the room was kept for.
            pieces = fit(pieces, format, budget, counting.count, mark)
        something = bool(found.passages or found.abstracts or found.overviews)
        if something and not pieces:
            warnings.append(
                f"the budget of {budget} tokens is too small for any passage with its "
                "citation: give more"
            )
        return ContextPack(
            query=query.text,
            pieces=pieces,
            budget=budget,
            tokens=counting.count(render(pieces, format, budget, counting.count, mark)),
            format=format,
            counter=counting.name,
            exact=counting.exact,
            warnings=tuple(warnings),
            strength=None if found.result is None else found.result.strength,
            strength_reason="" if found.result is None else found.result.strength_reason,
            count=counting.count,
            mark=mark,
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


def _said(pieces: Sequence[Piece]) -> Iterator[str]:
    """All that documents say in a rendering."""
    for piece in pieces:
        yield from (piece.text, piece.citation.doc_name, *piece.citation.heading_path)
