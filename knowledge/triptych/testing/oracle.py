"""What a search must answer, worked out the slow and plain way.

Nothing here is shared with a backend but the analyzer, which is part of the contract.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

import attrs

from triptych.records import Candidate, Vector
from triptych.text import get_analyzer


@attrs.frozen(kw_only=True)
class Entry:
    """One text that can be found; in answers, with its score."""

    dataset_id: str
    name: str
    index: int
    text: str = attrs.field(default="", eq=False)
    vector: Vector | None = attrs.field(default=None, eq=False)
    score: float = 0.0


def bm25(
    corpus: Sequence[Entry],
    query: str,
    *,
    top_k: int,
    language: str = "english",
    passes: Callable[[Entry], bool] = lambda entry: True,
    k1: float = 1.2,
    b: float = 0.75,
) -> list[Entry]:
    """The ``top_k`` best entries that hold a term of ``query`` and pass.

    Lucene's BM25Similarity since version 8, with exact lengths: the sum over the query's terms
    of ln(1 + (N - n + 0.5) / (n + 0.5)) * tf / (tf + k1 * (1 - b + b * length / average)). The
    statistics are those of the whole corpus, whatever passes.
    """
    analyzer = get_analyzer(language)
    counts = [Counter(analyzer.analyze(entry.text)) for entry in corpus]
    holding = Counter(term for terms in counts for term in terms)
    average = sum(terms.total() for terms in counts) / max(len(corpus), 1)
    scored = []
    for entry, terms in zip(corpus, counts, strict=True):
        score = 0.0
        for term in analyzer.analyze_query(query):
            if frequency := terms[term]:
                idf = math.log(1 + (len(corpus) - holding[term] + 0.5) / (holding[term] + 0.5))
                norm = k1 * (1 - b + b * terms.total() / average)
                score += idf * frequency / (frequency + norm)
        if score > 0 and passes(entry):
            scored.append(attrs.evolve(entry, score=score))
    return _ranked(scored)[:top_k]


def dot_products(
    corpus: Sequence[Entry],
    vector: Vector,
    *,
    top_k: int,
    passes: Callable[[Entry], bool] = lambda entry: True,
) -> list[Entry]:
    """The ``top_k`` entries that have a vector and pass, by the dot product with ``vector``."""
    scored = [
        attrs.evolve(
            entry,
            score=math.fsum(
                float(left) * float(right) for left, right in zip(entry.vector, vector, strict=True)
            ),
        )
        for entry in corpus
        if entry.vector is not None and passes(entry)
    ]
    return _ranked(scored)[:top_k]


def best_documents(chunks: Sequence[Entry], *, top_k: int) -> list[Entry]:
    """Of ranked chunks, each document's best, as documents."""
    best: dict[tuple[str, str], Entry] = {}
    for entry in chunks:
        best.setdefault((entry.dataset_id, entry.name), attrs.evolve(entry, index=-1))
    return _ranked(list(best.values()))[:top_k]


def entries(candidates: Sequence[Candidate]) -> list[Entry]:
    """A backend's answer in the oracle's words."""
    return [
        Entry(
            dataset_id=candidate.dataset_id,
            name=candidate.doc_name,
            index=candidate.index,
            score=candidate.score,
        )
        for candidate in candidates
    ]


def _ranked(scored: Sequence[Entry]) -> list[Entry]:
    """By score, rounded to 1e-6; ties by document name, chunk index, dataset."""
    rounded = [attrs.evolve(entry, score=round(entry.score, 6)) for entry in scored]
    return sorted(
        rounded, key=lambda entry: (-entry.score, entry.name, entry.index, entry.dataset_id)
    )
