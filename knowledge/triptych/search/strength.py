"""Rating the evidence that the hits of a search are about its query, without a calibration.

docs/explanation/answerability.md has what its constants were chosen on, and how often it is wrong.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence, Set
from typing import Final

import attrs

from triptych.contracts import Capabilities, DocLevelSearcher
from triptych.records import Answerability, Candidates, Evidence, Hit, Strength
from triptych.search.request import Found, SearchRequest, query_stats
from triptych.text import CorpusStats, matches
from triptych.vectors.lanes import ModelSet

LIMITS: Final[Mapping[Strength, float]] = {"none": 0.0, "weak": 0.3, "fair": 0.8}
"""Where each level ends, by how much the evidence is above what foreign questions reach."""

MEANS: Final[Mapping[Strength, str]] = {
    "strong": "These are very probably about it.",
    "fair": "These are probably about it.",
    "weak": "These may not be about it.",
    "none": "These are probably not about it.",
}
_ORDER: Final[Sequence[Strength]] = ("none", "weak", "fair", "strong")
_JUDGED: Final[Mapping[Answerability, tuple[Strength, str]]] = {
    "enough": ("strong", "These probably answer it."),
    "weak": ("weak", "These may not answer it."),
    "nothing": ("none", "These probably do not answer it."),
}

_WEAK_HIT, _BELOW = -0.1, 0.5  # hits at the end are weak below this, and so far below the best
_WORDS = 0.66  # the weight of the words beside the vectors
_GROWTH, _SMALL = 0.16, 33  # of what foreign questions reach, and the chunks where that is 0
_VECTOR_GROWTH, _VECTOR_SMALL = 0.067, 66  # the same by vectors alone
_LARGE = 2000  # chunks: of more it was not measured
_SHARE, _KEYWORDS, _KEYWORD_SCALE = 2.5, 0.8, 0.6  # of a search by keywords alone
_KNOWN, _FUNCTION = 0.25, 0.15  # one of these shares of a question's words makes it legible
_WORD = re.compile(r"\w+")
_FEW = 2  # words that name a subject rather than ask


class Scale:
    """What scores of lanes are worth for one question."""

    def __init__(
        self,
        lanes: Set[str],
        cosines: tuple[float, float] | None,
        text: str,
        terms: Sequence[str],
        stats: CorpusStats,
    ) -> None:
        """Set what it is of.

        Args:
            lanes: those that ran.
            cosines: the embedder's ``cosine_range``, None where it tells none.
            text: the question, which the analyzer cuts into ``terms``.
            stats: of the terms, in what was searched.
        """
        self._lanes, self._cosines = lanes, cosines
        self.terms: Sequence[str] = terms
        self.stats: CorpusStats = stats
        known = stats.document_frequencies
        self.unknown: Sequence[str] = tuple([term for term in terms if term not in known])
        self._words = len(_WORD.findall(text))
        self._chunks = max(stats.document_count, 1)
        self._rare = math.log1p((self._chunks - 0.5) / 1.5)  # Lucene's idf of what one text holds
        each = set(terms)
        self._each = len(each)
        self._total = math.fsum(stats.idfs(each))
        self._distinct = 1.0  # the share of the idf of all terms that they have once
        if len(each) < len(terms) and (every := math.fsum(stats.idfs(terms))):
            self._distinct = self._total / every
        # One word or two that all occur are no question, but what it is about: the cosine of so
        # short a text says little.
        asks = "bm25" not in lanes or not terms or self._words > _FEW
        self.names_a_subject: bool = not asks and not self.unknown

    def of(self, scores: Mapping[str, float]) -> float:
        """By how much scores by lane are above what questions about another subject reach.

        The best of many texts is nearer by chance than the best of few, and shares more words: what
        is usual grows with the logarithm of the number of chunks. A lane that has no score adds 0.
        """
        # A word that is repeated counts once.
        score = scores.get("bm25", 0.0) * self._distinct
        share = score / self._total if self._total else 0.0
        if self._cosines is None or "vector" not in self._lanes:
            return (score / self._rare + _SHARE * share - _KEYWORDS) * _KEYWORD_SCALE
        low, high = self._cosines
        nearness = (scores.get("vector", low) - low) / (high - low)
        chunks = min(self._chunks, _LARGE)
        if "bm25" not in self._lanes:
            return nearness - _VECTOR_GROWTH * math.log(chunks / _VECTOR_SMALL)
        # A long question holds more words that no text has: its share is smaller.
        words = share * math.sqrt(self._each)
        return nearness + _WORDS * words - _GROWTH * math.log(chunks / _SMALL)

    def doubts(self, best: Mapping[str, float]) -> Sequence[str]:
        """Why the evidence cannot be read in full."""
        known = {"bm25", "vector"} if self._cosines else {"bm25"}
        doubts = [] if known >= self._lanes else ["what the other scores mean is not known"]
        there = len(self.terms) - len(self.unknown)
        near = self._cosines is None or best.get("vector", 0.0) >= self._cosines[0]
        # The texts may be in another language, which the embedder reads or not.
        functions = self._words - len(self.terms)
        if near and there < _KNOWN * len(self.terms) and functions <= _FUNCTION * self._words:
            doubts.append("hardly a word of the question occurs here")
        return doubts

    def level(self, best: Mapping[str, float]) -> tuple[Strength, str]:
        """The level for each lane's best score, and its numbers. It is not "none" with doubts."""
        value, said = self.of(best), []
        level: Strength = "strong"
        for lower, limit in LIMITS.items():
            if value < limit:
                level = lower
                break
        if "vector" in self._lanes and self._cosines:
            low, high = self._cosines
            said.append(
                f"the nearest text has a cosine of {best.get('vector', 0.0):.2f} ({low:.2f} is "
                f"usual for other subjects, {high:.2f} for answers)"
            )
        if "bm25" in self._lanes:
            worth = best.get("bm25", 0.0) * self._distinct / self._rare
            said.append(f"the best keyword match is worth {worth:.1f} rare words")
        doubts = self.doubts(best)
        if level == "none" and doubts:
            level = "weak"
        return level, ", and ".join([*said, *doubts])


def evidence_of(
    capabilities: Capabilities,
    models: ModelSet,
    request: SearchRequest,
    found: Found,
    judged: Answerability | None = None,
) -> tuple[Evidence | None, Sequence[str]]:
    """The evidence for what was found, None but for a search of chunks; and the question's terms
    that no chunk holds.

    ``judged`` is what the dataset's calibration says, None without one.
    """
    statistics = capabilities.document_search
    if request.target != "chunk" or found.lists is None:
        return None, ()
    evidence: Evidence | None = None
    if not found.hits:
        evidence = Evidence(level="none", reason="Nothing was found.")
    unknown: Sequence[str] = ()
    if statistics is not None and request.query.dataset_ids:
        scale, best = _scale(statistics, models, request, found)
        unknown = scale.unknown
        conditions = request.conditions
        if found.hits and conditions and (conditions.phrases or conditions.prefixes):
            evidence = Evidence(level="fair", reason="They hold what must be in them.")
        elif found.hits:
            evidence = _rated(scale, best, found.hits[request.query.offset :])
    if judged is not None:
        level, reason = _JUDGED[judged]
        made = evidence or Evidence(level=level, reason=reason)
        evidence = attrs.evolve(made, level=level, reason=reason, calibrated=True)
    return evidence, unknown


def _scale(
    statistics: DocLevelSearcher, models: ModelSet, request: SearchRequest, found: Found
) -> tuple[Scale, Mapping[str, float]]:
    """The scale of a search, and the best score of each lane."""
    best: dict[str, float] = {}
    dataset_id = request.query.dataset_ids[0]
    for _, ranked in found.lists or ():
        rows = Candidates.of(ranked.candidates).rows
        if not rows and ranked.lane != "bm25":
            continue  # vectors may still be to come
        score = -rows[0][0] if rows else 0.0
        if ranked.lane == "bm25" and score > best.get("bm25", 0.0):
            dataset_id = rows[0][3]
        best[ranked.lane] = max(score, best.get(ranked.lane, score))
    query, terms = request.query, request.terms_in(dataset_id)
    language = request.language_of(dataset_id)
    bounds = query.dataset_ids, query.filter.within
    own = [
        ranked
        for variant, ranked in found.lists or ()
        if (variant.dataset_ids, variant.filter.within) == bounds
    ]
    stats = query_stats(statistics, language, query, terms, own)
    cosines = getattr(models.embedder, "cosine_range", None)
    return Scale(best.keys(), cosines, query.text, terms, stats), best


def _rated(scale: Scale, best: Mapping[str, float], hits: Sequence[Hit]) -> Evidence:
    level, numbers = scale.level(best)
    reason, kept = MEANS[level], len(hits)
    # A later page, and a step that reorders, may show none of the texts that hold the words.
    holding = [at for at, hit in enumerate(hits) if "bm25" in hit.scores]
    if scale.names_a_subject and holding:
        terms = len(set(scale.terms))
        # One word may stand there in a form that only its language's stemmer knows.
        every = [at for at in holding if terms == 1 or _held(hits[at]) == terms]
        where, reason = _where(scale, [hits[at] for at in every])
        level = max(level, where, key=_ORDER.index)
        # Where some hold both words, those that hold one are no better than others without it.
        kept = (every or holding)[-1] + 1
    elif level == "none":
        kept = 0
    elif not scale.doubts(best):
        limit = min(_WEAK_HIT, scale.of(best) - _BELOW)
        while kept and scale.of(hits[kept - 1].scores) < limit:
            kept -= 1
    weak_from = kept if kept < len(hits) else None
    return Evidence(level=level, reason=reason, numbers=numbers, weak_from=weak_from)


def _where(scale: Scale, hits: Sequence[Hit]) -> tuple[Strength, str]:
    """What it says that one word or two are in all of these hits, and in what of them."""
    terms = len(set(scale.terms))
    word = "word is" if terms == 1 else "words are"
    if not hits:
        return "weak", "No passage that was found holds both words."
    if any(_held(hit, named=True) == terms for hit in hits):
        return "strong", f"The {word} in a heading or a name."
    number = min(scale.stats.document_frequencies[term] for term in scale.terms)
    passages = "1 passage" if number == 1 else f"{number} passages"
    return "fair", f"The {word} in {'at most ' * (terms > 1)}{passages}."


def _held(hit: Hit, *, named: bool = False) -> int:
    """How many terms a hit's headings and name hold, and its text unless ``named``."""
    said = "\n".join((*hit.heading_path, hit.doc_name, *([] if named else [hit.content])))
    return len({number for _, _, number in matches(said, hit.terms)})
