"""What an evaluation found: values of every query, means with intervals, and under what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import attrs
import numpy as np

from triptych.evaluation.significance import Estimate


class Granularity(StrEnum):
    """What is ranked: whole documents, or chunks; or documents, each where its best chunk is."""

    DOCUMENT = "document"
    CHUNK = "chunk"
    BEST_CHUNK = "best chunk"


@attrs.frozen(kw_only=True, slots=True)
class Latency:
    """Percentiles of the time that one search took, in milliseconds."""

    p50: float
    p95: float
    p99: float

    @classmethod
    def of(cls, milliseconds: Sequence[float]) -> Latency:
        """The percentiles of at least one time."""
        p50, p95, p99 = np.percentile(milliseconds, [50, 95, 99]).tolist()
        return cls(p50=p50, p95=p95, p99=p99)


@attrs.frozen(kw_only=True, slots=True)
class ModeResult:
    """One mode's part of an evaluation.

    Attributes:
        values: by metric, one value a query, in the order of `Evaluation.query_ids`.
        estimates: by metric, the mean over queries with its 95% interval.
        latencies: milliseconds a search, in the same order; 0 where it could not be served.
        recall_at_depth: the mean recall at depth 1, 2, … down to the depth searched.
        warnings: what went wrong on the way.
        checks: expected keywords and abstention, where the questions have some: `check_answers`.
        rankings: by query, the names that were ranked with their scores; not kept in JSON.
    """

    values: Mapping[str, Sequence[float]]
    estimates: Mapping[str, Estimate]
    latencies: Sequence[float]
    recall_at_depth: Sequence[float]
    warnings: tuple[str, ...] = ()
    checks: Mapping[str, Estimate] = attrs.field(factory=dict)
    rankings: Mapping[str, Sequence[tuple[str, float]]] = attrs.field(
        factory=dict, eq=False, repr=False
    )

    @property
    def latency(self) -> Latency:
        """The percentiles of `latencies`, without those of queries that were not served."""
        return Latency.of([each for each in self.latencies if each > 0] or [0.0])


@attrs.frozen(kw_only=True, slots=True)
class Evaluation:
    """How well a knowledge base found what a collection's questions ask for.

    Attributes:
        collection: the collection's name.
        granularity: what was ranked.
        query_ids: the judged queries, in order.
        modes: the result of each mode, "bm25", "vector" or "hybrid".
        configuration: what it ran under: versions, embedder, chunker, language, ranker,
            postprocessors, depth.
        warnings: what concerns every mode.
        questions: the text of each query, by its id; empty where a file does not have them.
    """

    collection: str
    granularity: Granularity
    query_ids: tuple[str, ...]
    modes: Mapping[str, ModeResult]
    configuration: Mapping[str, Any]
    warnings: tuple[str, ...] = ()
    questions: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def metrics(self) -> list[str]:
        """The names of the metrics, in order."""
        return list(next(iter(self.modes.values())).values)
