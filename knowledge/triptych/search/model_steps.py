"""What a language model does with hits: a filter, and a reranker."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from triptych import deadlines
from triptych.contracts import LLM, HitReader
from triptych.errors import ProviderError, ValidationError
from triptych.records import Hit, ResolvedQuery, check_whole
from triptych.records.reports import FailureWarning
from triptych.search.passage_scores import check_llm, score_passages
from triptych.search.passages import passages


@attrs.frozen
class ChunkFilter:
    """Hits without those that a language model finds irrelevant.

    One prompt holds the passages of as many hits as are asked for: the windows of their chunks, or
    their texts with title and headings. The model answers with a score from 0 to 1 for each, which
    is ``Hit.scores["filter"]``. Hits below ``threshold`` are left out, and so are all hits after
    those that the model saw. The order stays.

    It never leaves nothing: if the model cannot answer, answers with something else than so many
    scores, or finds everything irrelevant, the hits stay as they were, and the result has a
    warning. Source: the chunk filter of arXiv:2410.19572.

    Args:
        llm: the model that judges.
        threshold: the least score of a hit that stays, from 0 to 1.
        passage_limit: how many code points of each passage the model sees.
        max_tokens: how long its answer may be; None is enough for the scores alone. A model that
            thinks before it answers needs more.

    Raises:
        ValidationError: an argument is invalid.
    """

    llm: LLM
    threshold: float = 0.5
    passage_limit: int = 4000
    max_tokens: int | None = None

    def __attrs_post_init__(self) -> None:
        check_llm(self.llm)
        number = isinstance(self.threshold, int | float) and not isinstance(self.threshold, bool)
        if not number or not 0 <= self.threshold <= 1:
            raise ValidationError(f"threshold is a number from 0 to 1, not {self.threshold!r:.60}")
        check_whole(self.passage_limit, "passage_limit", least=1)
        if self.max_tokens is not None:
            check_whole(self.max_tokens, "max_tokens", least=1)

    def depth(self, query: ResolvedQuery) -> int:
        """Return how many hits it judges."""
        return query.top_k

    def __call__(
        self, query: ResolvedQuery, hits: Sequence[Hit], reader: HitReader
    ) -> Sequence[Hit]:
        """Return the hits that are left, in their order."""
        head = hits[: query.top_k]
        if not head:
            return hits
        texts = [text[: self.passage_limit] for text in passages(head, reader)]
        try:
            scores = score_passages(self.llm, query.text, texts, max_tokens=self.max_tokens)
        except ProviderError as error:
            reader.warn(FailureWarning("the hits are not filtered", error))
            return hits
        kept = [
            attrs.evolve(hit, scores={**hit.scores, "filter": score})
            for hit, score in zip(head, scores, strict=True)
            if score >= self.threshold
        ]
        if not kept:
            reader.warn(
                f"the hits are not filtered: the model {self.llm.signature} gave none of "
                f"{len(head)} a score of {self.threshold:g} or more"
            )
            return hits
        return kept


@attrs.frozen
class LLMReranker:
    """A `Reranker` that asks a language model for a score of each text, from 0 to 1.

    Each prompt holds up to ``batch`` texts, and the model answers with a JSON array of numbers.

    Args:
        llm: the model that judges.
        batch: how many texts are in one prompt.
        passage_limit: how many code points of each text the model sees.
        max_tokens: how long an answer may be; None is enough for the scores alone. A model that
            thinks before it answers needs more.

    Raises:
        ValidationError: an argument is invalid.
    """

    llm: LLM
    batch: int = 20
    passage_limit: int = 4000
    max_tokens: int | None = None

    def __attrs_post_init__(self) -> None:
        check_llm(self.llm)
        check_whole(self.batch, "batch", least=1)
        check_whole(self.passage_limit, "passage_limit", least=1)
        if self.max_tokens is not None:
            check_whole(self.max_tokens, "max_tokens", least=1)

    @property
    def signature(self) -> str:
        """That of the model, and what it is used for."""
        return f"listwise/{self.llm.signature}"

    def scores(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one score for each text, shape (len(texts),), from 0 to 1.

        Raises:
            UnusableAnswerError: an answer is not a JSON array of as many numbers from 0 to 1.
            ProviderError: the model could not answer.
            CancelledError: the deadline passed.
        """
        found: list[float] = []
        for start in range(0, len(texts), self.batch):
            deadlines.check("the rerank")
            some = [text[: self.passage_limit] for text in texts[start : start + self.batch]]
            found += score_passages(self.llm, query, some, max_tokens=self.max_tokens)
        return np.array(found, dtype=np.float32)
