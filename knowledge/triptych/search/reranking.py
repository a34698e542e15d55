"""Reranking: ordering hits by a model that reads query and text together."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from triptych import telemetry
from triptych._internal.wording import FailureWarning
from triptych.chunking.specs import embedded_title, embedding_text
from triptych.contracts import HitReader, Reranker
from triptych.contracts.models import check_call
from triptych.errors import ProviderError, ValidationError
from triptych.records import Hit, ResolvedQuery
from triptych.search.fusion import min_max
from triptych.search.postprocessing import in_order
from triptych.search.query import MAX_TOP_K


def passages(hits: Sequence[Hit], reader: HitReader) -> list[str]:
    """Return the text of each hit that a model reads.

    This is the window where the chunk has one, else the text with the document's title and the
    headings before it, as the embedder reads it.
    """
    return [
        _with_headings(hit) if window is None else window
        for hit, window in zip(hits, reader.windows(hits), strict=True)
    ]


def _with_headings(hit: Hit) -> str:
    title = embedded_title(hit.doc_name, hit.metadata, [hit.heading_path])
    return embedding_text(title, hit.heading_path, hit.content)


_OVERSAMPLED = 2  # times as many hits as are asked for
_MOST_CANDIDATES = 1000
_DIGITS = 9  # as fused scores are rounded


@attrs.frozen
class Rerank:
    """Hits in the order of a `Reranker`, a model that reads query and text together.

    The model scores the first ``candidates`` hits: their windows where their chunks have one, else
    their texts with the title and the headings before them. These hits come first, best first.
    Those after them keep their order, with scores that are not above the others. ``Hit.scores``
    has the model's score as ``"rerank"`` and the score from before as ``"fused"``.

    Args:
        reranker: the model.
        candidates: how many hits it scores; None is twice as many as are asked for. Give a number
            if you page through results: the pages of one query should choose from the same hits.
        blend: how much the order from before counts. None: not at all, ``Hit.score`` is the
            model's. A share from 0 to 1: the weighted mean of both scores, each scaled to 0 to 1
            over the candidates; the share is that of the score from before. "position": the mean of
            ``1 / rank`` before and the model's scaled score, where the former counts 0.75 for ranks
            1 to 3, 0.6 for ranks 4 to 10, and 0.4 after.
        optional: what happens when the model cannot answer. False: the search fails. True: the
            hits stay as they were, and the result has a warning.

    Raises:
        ValidationError: an argument is invalid.
    """

    reranker: Reranker
    candidates: int | None = None
    blend: float | str | None = None
    optional: bool = False

    def __attrs_post_init__(self) -> None:
        check_call(self.reranker, "scores", "query", "texts")
        if self.candidates is not None and not 1 <= self.candidates <= _MOST_CANDIDATES:
            raise ValidationError(
                f"a rerank takes 1 to {_MOST_CANDIDATES} candidates, not {self.candidates}: each "
                "costs a call or a part of one"
            )
        number = isinstance(self.blend, int | float) and not isinstance(self.blend, bool)
        share = number and 0 <= float(self.blend or 0) <= 1
        if self.blend is not None and self.blend != "position" and not share:
            raise ValidationError(
                f"blend is None, 'position' or a number from 0 to 1, not {self.blend!r:.60}"
            )

    def depth(self, query: ResolvedQuery) -> int:
        """Return how many hits it chooses from."""
        return max(query.top_k, self._count(query))

    def __call__(
        self, query: ResolvedQuery, hits: Sequence[Hit], reader: HitReader
    ) -> Sequence[Hit]:
        """Return the hits, reranked.

        Raises:
            ProviderError: the model could not answer, and is not ``optional``.
            ValidationError: the model answered with something else than a finite score for each
                text.
        """
        count = self._count(query)
        head, tail = hits[:count], hits[count:]
        if not head:
            return hits
        try:
            with telemetry.operation("rerank", model=self.reranker.signature, texts=len(head)):
                scores = np.asarray(self.reranker.scores(query.text, passages(head, reader)))
        except ProviderError as error:
            if not self.optional:
                raise
            reader.warn(FailureWarning("the hits are not reranked", error))
            return hits
        plain = scores.dtype.kind in "fiub" and scores.shape == (len(head),)
        if not plain or not np.isfinite(scores).all():
            raise ValidationError(
                f"the reranker {self.reranker.signature!r} must return {len(head)} finite scores, "
                f"and returned an array of shape {scores.shape} and type {scores.dtype}"
            )
        ranked = [
            attrs.evolve(
                hit,
                score=round(score, _DIGITS),
                scores={**hit.scores, "fused": hit.score, "rerank": float(own)},
            )
            for hit, own, score in zip(head, scores, self._blended(head, scores), strict=True)
        ]
        ranked.sort(key=in_order)
        return [*ranked, *_below(tail, ranked[-1].score)]

    def _count(self, query: ResolvedQuery) -> int:
        """How many hits the model scores."""
        if self.candidates is not None:
            return self.candidates
        return min(_OVERSAMPLED * query.top_k, MAX_TOP_K)

    def _blended(self, head: Sequence[Hit], scores: NDArray[np.floating]) -> list[float]:
        if self.blend is None:
            return [float(score) for score in scores]
        own = min_max([float(score) for score in scores], 1.0)
        if isinstance(self.blend, str):
            before = [1 / rank for rank in range(1, len(head) + 1)]
            shares = [_share_at(rank) for rank in range(1, len(head) + 1)]
        else:
            before = list(min_max([hit.score for hit in head], 1.0))
            shares = [float(self.blend)] * len(head)
        return [
            share * fused + (1 - share) * score
            for share, fused, score in zip(shares, before, own, strict=True)
        ]


def _share_at(rank: int) -> float:
    """The share of the order from before: a model seldom knows better than a good fusion who is at
    the very top."""
    if rank <= 3:
        return 0.75
    return 0.6 if rank <= 10 else 0.4


def _below(hits: Sequence[Hit], limit: float) -> list[Hit]:
    """The hits with scores of at most ``limit``; the distances between them stay."""
    excess = max((hit.score for hit in hits), default=limit) - limit
    if excess <= 0:
        return list(hits)
    return [
        attrs.evolve(
            hit,
            score=round(hit.score - excess, _DIGITS),
            scores={"fused": hit.score, **hit.scores},
        )
        for hit in hits
    ]
