"""What ``triptych search --explain`` says: how a query was read, why a hit has its rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from triptych_adapters.cli.hits import HitView

if TYPE_CHECKING:
    from triptych.contracts import Ranker
    from triptych.records import Hit, Query
    from triptych.service import Service


def explained(
    service: Service,
    query: Query,
    views: Sequence[HitView],
    *,
    documents: bool,
    ranker: Ranker | None = None,
) -> tuple[list[HitView], Mapping[str, Any]]:
    """The hits with lines that explain their ranks, and what is true of the search as a whole.

    Each lane is asked once more by itself, for the ranks in it. ``ranker`` None is the Service's.
    """
    from triptych.records import Mode
    from triptych.search.fusion import depth_of
    from triptych.search.query import over_fetch, resolve_mode
    from triptych.search.syntax import ParsedQuery, parse_query

    ranker = ranker or service.ranker
    parsed = parse_query(query) if query.syntax else ParsedQuery(text=query.text)
    mode = resolve_mode(
        query.mode, has_embedder=service.options.embedder is not None, lanes=service.lanes
    )
    search = service.search_documents if documents else service.search
    lanes = sorted({lane for view in views for lane in view.hit.scores})
    depth = query.top_k
    if mode == Mode.HYBRID:
        # Where texts are read to check phrases, lanes stay at the usual depth.
        depth = over_fetch(depth) if parsed.conditions else depth_of(ranker, depth)
    ranks: dict[str, dict[tuple[str, str, int], int]] = {}
    for lane in lanes:
        if lane in service.lanes:
            asked = attrs.evolve(query, mode=lane, top_k=depth, threshold=None)
            ranks[lane] = {_place(hit): at for at, hit in enumerate(search(asked).hits, start=1)}
    fused = type(ranker).__name__ if mode == Mode.HYBRID else None
    about = {
        "words": parsed.text,
        "phrases": parsed.conditions.phrases,
        "prefixes": parsed.conditions.prefixes,
        "excluded": (
            *parsed.conditions.excluded,
            *(f"{prefix}*" for prefix in parsed.conditions.excluded_prefixes),
        ),
        "where": {**query.where, **parsed.where},
        "datasets": _datasets(service, query),
        "mode": str(mode),
        "depth": depth,
        "ranker": fused,
        "ranks": [
            {lane: at for lane, found in ranks.items() if (at := found.get(_place(view.hit)))}
            for view in views
        ],
    }
    return [attrs.evolve(view, explanation=_lines(view, ranks, fused)) for view in views], about


def explanation_lines(about: Mapping[str, Any]) -> Iterator[str]:
    """What ``about`` says of the whole search, for a person."""
    yield f"words: {about['words']}"
    for name in ("phrases", "prefixes", "excluded"):
        if about[name]:
            yield f"{name}: {', '.join(map(repr, about[name]))}"
    for key, value in about["where"].items():
        values = value if isinstance(value, str) else " or ".join(map(str, value))
        yield f"only where {key} is {values}"
    yield f"datasets: {', '.join(about['datasets'])}"
    fused = f", fused by {about['ranker']}" if about["ranker"] else ""
    yield f"mode: {about['mode']}{fused}; each lane brings its best {about['depth']}"


def _lines(
    view: HitView, ranks: Mapping[str, Mapping[tuple[str, str, int], int]], fused: str | None
) -> list[str]:
    hit = view.hit
    parts = []
    for lane, score in sorted(hit.scores.items()):
        rank = ranks.get(lane, {}).get(_place(hit))
        parts.append(f"{lane} {score:.4f}" + ("" if rank is None else f" (rank {rank})"))
    lines = ["; ".join(parts)]
    if fused or list(hit.scores.values()) != [hit.score]:
        lines[0] += f"; score {hit.score:.4f}"
    return [f"[{lines[0]}; version {hit.sig.source_version}]"]


def _place(hit: Hit) -> tuple[str, str, int]:
    return hit.dataset_id, hit.doc_name, hit.chunk_index


def _datasets(service: Service, query: Query) -> list[str]:
    """The datasets that the query searches."""
    named = list(query.dataset_ids) or ([query.dataset_id] if query.dataset_id else [])
    return named or list(service.list_datasets())
