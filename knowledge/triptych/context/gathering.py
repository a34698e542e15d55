"""What a context can be made of: passages and layers, found from the top of the layers down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

import attrs

from triptych.context.recipe import Recipe
from triptych.layering import is_folder
from triptych.records import Hit, Layer, Query, Scope
from triptych.search.desk import SearchDesk

__all__ = ["Find", "Gathered", "Place", "gather"]

Place = tuple[str, str]
"""Dataset and document."""


@attrs.frozen(kw_only=True, slots=True)
class Find:
    """A hit and how well it answers, by its own rank and by its document's."""

    hit: Hit
    score: float

    @property
    def place(self) -> Place:
        """Its dataset and document."""
        return self.hit.dataset_id, self.hit.doc_name

    @property
    def order(self) -> tuple[float, str, str, int]:
        """What finds are sorted by: the best first, ties by place."""
        return -self.score, *self.place, self.hit.chunk_index


@attrs.frozen(kw_only=True, slots=True)
class Gathered:
    """Everything that was found, each list best first."""

    passages: Sequence[Find] = ()
    abstracts: Sequence[Find] = ()
    overviews: Sequence[Find] = ()
    warnings: tuple[str, ...] = ()


def gather(searches: SearchDesk, query: Query, layers: Set[Layer], recipe: Recipe) -> Gathered:
    """Search the layers and the chunks, and let the layers say which documents lead.

    Abstracts, overviews and the best chunks each rank the documents; a document's score is the
    sum of its reciprocal ranks, and a passage's is its own reciprocal rank and a share of its
    document's. The layer of a folder speaks for the documents below it. Where a layer leads to
    a document none of whose chunks was found, those are searched by themselves.

    Raises:
        TriptychError: as `SearchDesk.search`.
    """
    depths = {
        Layer.ABSTRACT: recipe.layer_depth,
        Layer.OVERVIEW: recipe.layer_depth,
        Layer.DETAIL: recipe.depth,
    }
    asked = [layer for layer in depths if layer in layers]
    results = searches.search_many(
        [attrs.evolve(query, layer=layer, top_k=depths[layer]) for layer in asked]
    )
    hits: dict[Layer, Sequence[Hit]] = {
        layer: result.hits for layer, result in zip(asked, results, strict=True)
    }
    warnings = [warning for result in results for warning in result.warnings]
    chunks = list(hits.get(Layer.DETAIL, ()))
    abstracts, overviews = hits.get(Layer.ABSTRACT, ()), hits.get(Layer.OVERVIEW, ())
    if Layer.DETAIL in layers:
        for dataset_id, names in _missed((*abstracts, *overviews), chunks).items():
            deeper = searches.search(
                attrs.evolve(
                    query,
                    dataset_id=dataset_id,
                    scope=Scope.SINGLE,
                    layer=Layer.DETAIL,
                    top_k=recipe.layer_depth,
                    where={**query.where, "doc_name": names},
                )
            )
            warnings += deeper.warnings
            chunks += deeper.hits
    leading = _leading((abstracts, overviews, chunks), recipe.k)
    return Gathered(
        passages=_finds(chunks, leading, recipe),
        abstracts=_finds(abstracts, leading, recipe),
        overviews=_finds(overviews, leading, recipe),
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _missed(layers: Sequence[Hit], chunks: Sequence[Hit]) -> dict[str, list[str]]:
    """The documents that a layer leads to and no chunk was found of, by dataset."""
    found = {(hit.dataset_id, hit.doc_name) for hit in chunks}
    missed: dict[str, list[str]] = {}
    for hit in layers:
        place = hit.dataset_id, hit.doc_name
        if place not in found and not is_folder(hit.doc_name):
            found.add(place)
            missed.setdefault(hit.dataset_id, []).append(hit.doc_name)
    return missed


def _leading(lanes: Sequence[Sequence[Hit]], k: float) -> dict[Place, float]:
    """The sum over the lanes of ``1 / (k + rank)`` for each document, folder and dataset.

    Source: Cormack, Clarke and Büttcher (2009), Reciprocal rank fusion, SIGIR.
    """
    scores: dict[Place, float] = {}
    for lane in lanes:
        places = dict.fromkeys((hit.dataset_id, hit.doc_name) for hit in lane)
        for rank, place in enumerate(places, start=1):
            scores[place] = scores.get(place, 0.0) + 1 / (k + rank)
    return scores


def _score_of(place: Place, leading: Mapping[Place, float]) -> float:
    """A document's score with what the layers of the folders above it add."""
    dataset_id, name = place
    above = [name[: at + 1] for at, character in enumerate(name[:-1]) if character == "/"]
    return leading.get(place, 0.0) + sum(
        leading.get((dataset_id, folder), 0.0) for folder in ("", *above) if folder != name
    )


def _finds(hits: Sequence[Hit], leading: Mapping[Place, float], recipe: Recipe) -> tuple[Find, ...]:
    finds = [
        Find(
            hit=hit,
            score=1 / (recipe.k + rank)
            + recipe.document_weight * _score_of((hit.dataset_id, hit.doc_name), leading),
        )
        for rank, hit in enumerate(hits, start=1)
    ]
    return tuple(sorted(finds, key=lambda find: find.order))
