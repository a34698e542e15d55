"""From a query to a pack."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs

from triptych.context.pack import ContextPack
from triptych.context.packer import Packer
from triptych.context.parameters import ContextParameters
from triptych.context.rendering import check_format, fit, render
from triptych.context.retrieval import retrieve
from triptych.context.sources import Sources
from triptych.contracts import ChunkRepo, DocumentRepo
from triptych.errors import ValidationError
from triptych.records import Layer, Query, check_whole, to_layer
from triptych.search.pipeline import SearchPipeline
from triptych.text.tokens import TokenCounter, as_counter

__all__ = ["ContextBuilder"]


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

    def pack(
        self,
        query: Query,
        token_budget: int,
        *,
        format: str,
        layers: Iterable[Layer | str],
        counter: TokenCounter | Callable[[str], int] | None,
    ) -> ContextPack:
        """The best mixture under the budget."""
        check_whole(token_budget, "token_budget")
        check_format(format)
        kinds = _layers(layers)
        counting = as_counter(counter)
        if query.as_of is not None:
            layers_too = kinds != {Layer.DETAIL}
            with self._searches.past(query, layers=layers_too) as past:
                store = past.store
                builder = ContextBuilder(past.searches, store.documents, store.chunks, self._recipe)
                pack = builder.pack(
                    past.query, token_budget, format=format, layers=kinds, counter=counter
                )
                warnings = (*past.warnings, *pack.warnings)
                return attrs.evolve(pack, as_of=past.as_of, warnings=warnings)
        gathered = retrieve(self._searches, query, kinds, self._recipe)
        sources = Sources(self._documents, self._chunks)
        packer = Packer(sources, counting, format, token_budget, self._recipe)
        ranked = packer.pack(gathered)
        notes = [*gathered.warnings, *([counting.warning] if counting.warning else [])]
        pieces = fit(ranked, format, token_budget, counting.count)
        something = bool(gathered.passages or gathered.abstracts or gathered.overviews)
        if something and not pieces:
            notes.append(
                f"the budget of {token_budget} tokens is too small for any passage with its "
                "citation: give more"
            )
        return ContextPack(
            query=query.text,
            pieces=pieces,
            budget=token_budget,
            tokens=counting.count(render(pieces, format, token_budget, counting.count)),
            format=format,
            counter=counting.name,
            exact=counting.exact,
            warnings=tuple(notes),
            count=counting.count,
        )


def _layers(layers: Any) -> frozenset[Layer]:
    if isinstance(layers, str) or not isinstance(layers, Iterable):
        raise ValidationError(f"layers is a list such as ['L0', 'L2'], not {layers!r:.60}")
    kinds = frozenset(map(to_layer, layers))
    if not kinds:
        raise ValidationError("layers names none: give at least one of 'L0', 'L1' and 'L2'")
    return kinds
