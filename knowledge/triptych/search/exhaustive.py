"""Exhaustive search: every unit is looked at. For backends without an index of their own.

`search_chunks`, `search_layers` and `fetch` answer for `ChunkRepo` and `LayerRepo` exactly, to
the score, in time that grows with the store: some ten thousand chunks are their limit in
practice. What a dataset holds is handed over as `Kept`. `rank` is the part that scores and
orders, for those who gather their units themselves.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

import attrs

from triptych.kept import Kept
from triptych.records import (
    NO_CHUNK,
    Candidate,
    ChunkQuery,
    DatasetConfig,
    DerivedChunk,
    DerivedLayer,
    DerivedSig,
    DocumentInfo,
    Filter,
    Layer,
    LayerQuery,
    Mode,
    StoredUnit,
    Vector,
)
from triptych.rules import read_chunk
from triptych.text import get_analyzer

__all__ = [
    "Unit",
    "fetch",
    "passes",
    "rank",
    "search_chunks",
    "search_layers",
]

K1, B = 1.2, 0.75


def search_chunks(query: ChunkQuery, datasets: Mapping[str, Kept]) -> list[Candidate]:
    """`ChunkRepo.search` over ``datasets``, by id; `fetch` knows the keys.

    A chunk passes a heading filter by its own heading path alone.
    """
    units = []
    for dataset_id, kept in _asked(query, datasets):
        for name, its in kept.sets.items():
            info = kept.info(name)
            units += [
                _unit(
                    kept,
                    (dataset_id, name, its.state, chunk.index),
                    chunk,
                    its.sig,
                    passes(query.filter, name, its.sig, info, headings=chunk.heading_path),
                )
                for chunk in its.chunks
            ]
    return rank(query, units)


def search_layers(query: LayerQuery, datasets: Mapping[str, Kept]) -> list[Candidate]:
    """`LayerRepo.search` over ``datasets``, by id; `fetch` knows the keys.

    A layer passes a heading filter by any heading of its document's chunks.
    """
    units = []
    for dataset_id, kept in _asked(query, datasets):
        for name, kinds in kept.layers.items():
            its = kinds.get(query.layer)
            if its is None:
                continue
            chunks = kept.sets[name].chunks if name in kept.sets else ()
            headings = [heading for chunk in chunks for heading in chunk.heading_path]
            sig, info = its.layer.sig, kept.info(name)
            passing = passes(query.filter, name, sig, info, headings=headings, layer=True)
            key = (dataset_id, name, its.state, query.layer)
            units.append(_unit(kept, key, its.layer, sig, passing))
    return rank(query, units)


def fetch(keys: Iterable[Hashable], datasets: Mapping[str, Kept]) -> dict[Hashable, StoredUnit]:
    """`ChunkRepo.fetch` and `LayerRepo.fetch`: what is kept in ``datasets`` under these keys."""
    found: dict[Hashable, StoredUnit] = {}
    for key in keys:
        match key:
            case (str(dataset_id), str(name), str(state), Layer() as kind):
                kept = datasets.get(dataset_id, Kept())
                layer = kept.layers.get(name, {}).get(kind)
                if layer is not None and layer.state == state:
                    bare = attrs.evolve(layer.layer, vector=None)
                    found[key] = StoredUnit(
                        key=key, sig=bare.sig, document=kept.info(name), layer=bare
                    )
            case (str(dataset_id), str(name), str(state), int(index)):
                kept = datasets.get(dataset_id, Kept())
                chunks = kept.sets.get(name)
                if chunks is not None and chunks.state == state:
                    chunk = read_chunk(chunks.chunks[index], chunks.sig)
                    info = kept.info(name)
                    found[key] = StoredUnit(key=key, sig=chunks.sig, document=info, chunk=chunk)
    return found


def _asked(query: ChunkQuery, datasets: Mapping[str, Kept]) -> list[tuple[str, Kept]]:
    """Those of the query's datasets that there are, each once."""
    return [(name, datasets[name]) for name in dict.fromkeys(query.dataset_ids) if name in datasets]


def _unit(
    kept: Kept,
    key: tuple[str, str, str, int | Layer],
    of: DerivedChunk | DerivedLayer,
    sig: DerivedSig,
    passing: bool,
) -> Unit:
    """``of``, its vector left out unless it is in the space the dataset is configured for."""
    config = kept.config or DatasetConfig(chunker_sig="")
    return Unit(
        dataset_id=key[0],
        doc_name=key[1],
        index=of.index if isinstance(of, DerivedChunk) else NO_CHUNK,
        key=key,
        text=of.content,
        vector=of.vector if sig.embed_sig == config.embed_sig else None,
        embed_sig=config.embed_sig,
        language=config.language,
        passing=passing,
    )


@attrs.frozen(kw_only=True, slots=True)
class Unit:
    """A chunk or a layer as a search sees it.

    ``passing`` says whether it may be found (`passes`); what may not still counts in the
    statistics. ``index`` is the chunk's, or `NO_CHUNK`. ``vector`` is None where the unit has
    none in the embedding space that its dataset is configured for, ``embed_sig``.
    """

    dataset_id: str
    doc_name: str
    index: int
    key: Hashable
    text: str
    vector: Vector | None = attrs.field(default=None, eq=False)
    embed_sig: str = ""
    language: str = "english"
    passing: bool = True


def passes(
    where: Filter,
    name: str,
    sig: DerivedSig,
    info: DocumentInfo | None,
    *,
    headings: Sequence[str] = (),
    layer: bool = False,
) -> bool:
    """Whether a unit of the document ``name`` passes the filter of a query.

    Args:
        sig: of the chunk set that a chunk is in, or the layer's own.
        info: the document, None for layers of folders and datasets.
        headings: the chunk's heading path; for a layer, every heading of its document.
        layer: the unit is a layer.
    """
    if not where.admits(name, info.metadata if info else {}):
        return False
    if where.headings is not None:
        wanted = {heading.casefold() for heading in where.headings}
        if not any(heading.casefold() in wanted for heading in headings):
            return False
    if where.fresh is None:
        return True
    want = where.fresh
    if info is not None:
        fed = info.content_sha256 if layer else info.input_sig
        want = attrs.evolve(want, source_version=info.version, input_sig=fed)
    if layer:
        want = attrs.evolve(want, prompt_sig=want.prompt_sig or sig.prompt_sig)
    return not sig.is_stale(want)


def rank(query: ChunkQuery, units: Iterable[Unit]) -> list[Candidate]:
    """The best ``query.top_k`` of ``units``, all of which are in ``query.dataset_ids``.

    Keyword scores are Lucene's BM25 (`BM25Similarity`, version 8 and later, exact lengths):
    the sum over the query's terms of ``idf * tf / (tf + k1 * (1 - b + b * length / average))``
    with ``idf = ln(1 + (N - n + 0.5) / (n + 0.5))``, k1 1.2 and b 0.75; N, n and the average
    are those of ``units``. Vector scores are dot products.
    """
    asked = set(query.dataset_ids)
    mine = [unit for unit in units if unit.dataset_id in asked]
    scores = _bm25(query.text, mine) if query.mode is Mode.BM25 else _nearness(query, mine)
    lane = str(query.mode)
    found = [
        Candidate(
            dataset_id=unit.dataset_id,
            doc_name=unit.doc_name,
            index=unit.index,
            key=unit.key,
            score=score,
            source=lane,
            scores={lane: score},
        )
        for unit, score in scores
        if unit.passing
    ]
    found.sort(key=lambda each: (-each.score, each.doc_name, each.index, each.dataset_id))
    return found[: max(query.top_k, 0)]


def _bm25(text: str, units: Sequence[Unit]) -> list[tuple[Unit, float]]:
    counted = [_terms(unit.language, unit.text) for unit in units]
    holding = Counter(term for terms in counted for term in terms)
    average = sum(terms.total() for terms in counted) / max(len(units), 1)
    asked = {
        language: Counter(get_analyzer(language).analyze_query(text))
        for language in {unit.language for unit in units}
    }
    idf = {term: math.log(1 + (len(units) - n + 0.5) / (n + 0.5)) for term, n in holding.items()}
    scored = []
    for unit, terms in zip(units, counted, strict=True):
        repeats: Mapping[str, int] = asked[unit.language]
        score = sum(
            repeats[term]
            * idf[term]
            * terms[term]
            / (terms[term] + K1 * (1 - B + B * terms.total() / average))
            for term in repeats
            if terms[term]
        )
        if score > 0:
            scored.append((unit, round(score, 6)))
    return scored


def _nearness(query: ChunkQuery, units: Sequence[Unit]) -> list[tuple[Unit, float]]:
    if query.vector is None:
        raise ValueError("a vector lane needs its query's vector")
    wanted = query.vector.astype(float)
    return [
        (unit, round(float(unit.vector.astype(float) @ wanted), 6))
        for unit in units
        if unit.vector is not None and unit.embed_sig == query.embed_sig
    ]


@functools.lru_cache(2**14)
def _terms(language: str, text: str) -> Counter[str]:
    return Counter(get_analyzer(language).analyze(text))
