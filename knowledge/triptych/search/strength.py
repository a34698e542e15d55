"""Rating the evidence for a result without a calibration.

docs/explanation/answerability.md has what its constants were chosen on, and how often it is wrong.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence, Set
from functools import cached_property
from typing import Any

import attrs

from triptych.contracts import Capabilities
from triptych.derivation.deriver import Deriver
from triptych.records import Candidates, Hit, Strength
from triptych.search.request import Found, SearchRequest
from triptych.text import CorpusStats, get_analyzer

LIMITS: Mapping[Strength, float] = {"none": 1.0, "weak": 1.4, "fair": 2.0}  # where each ends

_WEAK_HIT = 0.4  # the evidence below which hits at the end of a result are weak
_SHARE = 2.5  # of the question's idf: what a keyword search has in place of a cosine
_KEYWORDS = 0.8  # what keywords are taken to say where only vectors were searched
_KEYWORDS_NONE = 0.8  # the limit of "none" where only keywords were searched
_KNOWN, _FUNCTION = 0.25, 0.15  # one of these shares of a question's words makes it legible


@attrs.frozen(slots=True)
class Evidence:
    """What scores of lanes are worth for one question.

    Attributes:
        lanes: those that ran.
        cosines: the embedder's ``cosine_range``, None where it tells none.
        text: the question, which the analyzer cuts into ``terms``.
        stats: of the terms, in what was searched.
    """

    lanes: Set[str]
    cosines: tuple[float, float] | None
    text: str
    terms: Sequence[str]
    stats: CorpusStats

    @cached_property
    def _rare(self) -> float:
        """Lucene's idf of a term that one text holds."""
        return math.log1p((max(self.stats.document_count, 1) - 0.5) / 1.5)

    @cached_property
    def _total(self) -> float:
        return math.fsum(map(self.stats.idf, self.terms))

    def of(self, scores: Mapping[str, float]) -> float:
        """The evidence of scores by lane. A lane that has none adds 0."""
        score = scores.get("bm25", 0.0)
        matched = score / self._rare
        if self.cosines is None or "vector" not in self.lanes:
            return matched + (_SHARE * score / self._total if self._total else 0.0)
        low, high = self.cosines
        nearness = (scores.get("vector", low) - low) / (high - low)
        return nearness + (matched if "bm25" in self.lanes else _KEYWORDS)

    @cached_property
    def doubts(self) -> Sequence[str]:
        """Why the evidence cannot be read in full."""
        known = {"bm25", "vector"} if self.cosines else {"bm25"}
        doubts = [] if known >= self.lanes else ["what the other scores mean is not known"]
        there = sum(self.stats.document_frequencies.get(term, 0) > 0 for term in self.terms)
        words = len(re.findall(r"\w+", self.text))
        # The texts may be in another language, which the embedder reads or not.
        if there < _KNOWN * len(self.terms) and words - len(self.terms) <= _FUNCTION * words:
            doubts.append("hardly a word of the question occurs here")
        return doubts

    def word(self, best: Mapping[str, float]) -> tuple[Strength, str]:
        """The word for each lane's best score, and why. It is not "none" where there are doubts."""
        value, said = self.of(best), []
        word: Strength = next((each for each, limit in LIMITS.items() if value < limit), "strong")
        if "vector" in self.lanes and self.cosines:
            low, high = self.cosines
            said.append(
                f"the nearest text has a cosine of {best.get('vector', 0.0):.2f} ({low:.2f} is "
                f"usual for other subjects, {high:.2f} for answers)"
            )
        if "bm25" in self.lanes:
            worth = best.get("bm25", 0.0) / self._rare
            said.append(f"the best keyword match is worth {worth:.1f} rare words")
        enough = "vector" not in self.lanes and value >= _KEYWORDS_NONE
        if word == "none" and (self.doubts or enough):
            word = "weak"
        return word, ", and ".join([*said, *self.doubts])


def strength_of(
    capabilities: Capabilities, derivation: Deriver, request: SearchRequest, found: Found
) -> Mapping[str, Any]:
    """The fields of a `Result` that say it; none but for a search of chunks."""
    statistics = capabilities.document_search
    if request.target != "chunk" or found.lists is None or statistics is None:
        return {}
    if not found.hits:
        return {"strength": "none", "strength_reason": "nothing was found"}
    best: dict[str, float] = {}
    dataset_id = request.query.dataset_ids[0]
    for _, ranked in found.lists:
        rows = Candidates.of(ranked.candidates).rows
        if not rows and ranked.lane != "bm25":
            continue  # vectors may still be to come
        score = -rows[0][0] if rows else 0.0
        if ranked.lane == "bm25" and score > best.get("bm25", 0.0):
            dataset_id = rows[0][3]
        best[ranked.lane] = max(score, best.get(ranked.lane, score))
    terms = request.terms_in(dataset_id)
    variants = get_analyzer(request.language_of(dataset_id)).variants(request.query.text)
    every = list(set().union(*variants.values()))
    stats = statistics.corpus_stats(request.query.dataset_ids, every).pooled(variants)
    embedder = derivation.of_space(request.query.embed_sig).embedder
    cosines = getattr(embedder, "cosine_range", None)
    evidence = Evidence(best.keys(), cosines, request.query.text, terms, stats)
    hits: Sequence[Hit] = found.hits[request.query.offset :]
    kept = len(hits)
    while kept and evidence.of(hits[kept - 1].scores) < _WEAK_HIT and not evidence.doubts:
        kept -= 1
    word, reason = evidence.word(best)
    weak_from = kept if kept < len(hits) else None
    return {"strength": word, "strength_reason": reason, "weak_from": weak_from}
