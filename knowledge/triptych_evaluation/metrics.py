"""Retrieval metrics: pure functions of one query's ranking and judgements, as in trec_eval.

A ranking is a sequence of ids, best first. Judgements map an id to its grade: relevant from
``least_grade`` (1) up; grades of 0 or less and missing grades are not relevant and have no gain. A
query without a relevant id scores 0 in every metric, and counts as such in means, as in trec_eval.

A repeated id in a ranking, and the empty id, occupy a rank without gain.

Reference implementation: trec_eval 9 (NIST), with which these agree within 1e-9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import isnan, log2
from typing import Literal

import numpy as np

from triptych.errors import ValidationError
from triptych.records import check_whole

Gain = Literal["linear", "exponential"]
Metric = Callable[[Sequence[str], Mapping[str, int]], float]

DEFAULT_CUTOFFS = (1, 5, 10, 100)
"""The default depths of metrics."""
DEFAULT_BUDGETS = (500, 1_000, 2_000, 4_000)
"""Tokens of returned text."""


def in_trec_order(scores: Mapping[str, float]) -> list[str]:
    """Sort ids as trec_eval does: by score descending, then by id descending.

    Scores are compared in single precision, as in trec_eval; ids by code point.

    Raises:
        ValidationError: a score is not a number.
    """
    for name, score in scores.items():
        if isnan(score):
            raise ValidationError(f"the score of {name!r} is not a number")
    with np.errstate(over="ignore"):
        single = np.array(list(scores.values()), np.float64).astype(np.float32).tolist()
    return [name for _, name in sorted(zip(single, scores, strict=True), reverse=True)]


def recall_at(
    k: int, ranking: Sequence[str], grades: Mapping[str, int], *, least_grade: int = 1
) -> float:
    """Return recall@k: relevant ids among the first ``k``, over all relevant ids.

    Source: Manning, Raghavan and Schütze (2008), Introduction to Information Retrieval, §8.3.
    """
    relevant = _relevant(grades, least_grade)
    return len(relevant.intersection(ranking[:k])) / len(relevant) if relevant else 0.0


def precision_at(
    k: int, ranking: Sequence[str], grades: Mapping[str, int], *, least_grade: int = 1
) -> float:
    """Return precision@k: relevant ids among the first ``k``, over ``k``, even if fewer were found.

    Source: Manning, Raghavan and Schütze (2008), §8.4.
    """
    return len(_relevant(grades, least_grade).intersection(ranking[:k])) / k


def success_at(
    k: int, ranking: Sequence[str], grades: Mapping[str, int], *, least_grade: int = 1
) -> float:
    """Return success@k: 1 if a relevant id is among the first ``k``, else 0.

    Source: Craswell and Hawking (2004), Overview of the TREC 2004 Web track.
    """
    return float(not _relevant(grades, least_grade).isdisjoint(ranking[:k]))


def reciprocal_rank(
    ranking: Sequence[str], grades: Mapping[str, int], *, least_grade: int = 1
) -> float:
    """Return 1 over the rank of the first relevant id, 0 without one; the mean is MRR.

    Source: Voorhees (1999), The TREC-8 Question Answering Track Report.
    """
    relevant = _relevant(grades, least_grade)
    for rank, name in enumerate(ranking, start=1):
        if name in relevant:
            return 1 / rank
    return 0.0


def average_precision(
    ranking: Sequence[str], grades: Mapping[str, int], *, least_grade: int = 1
) -> float:
    """Return ``Σ precision@rank(d) / |relevant|`` over the relevant ids found; the mean is MAP.

    Relevant ids that were not found have precision 0.

    Source: Manning, Raghavan and Schütze (2008), §8.4.
    """
    relevant = _relevant(grades, least_grade)
    seen: set[str] = set()
    total = 0.0
    for rank, name in enumerate(ranking, start=1):
        if name in relevant and name not in seen:
            seen.add(name)
            total += len(seen) / rank
    return total / len(relevant) if relevant else 0.0


def ndcg_at(
    k: int, ranking: Sequence[str], grades: Mapping[str, int], *, gain: Gain = "linear"
) -> float:
    """Return nDCG@k: ``Σ gain(grade) / log2(rank + 1)`` to rank ``k``, over the ideal order's.

    Linear gain is the grade itself (Järvelin and Kekäläinen 2002, ACM TOIS 20(4), as
    trec_eval's ndcg_cut computes it); exponential gain is ``2**grade - 1`` (Burges et al.
    2005, ICML). With grades 0 and 1 they are the same.

    Raises:
        ValidationError: the gain is unknown, ``k`` is not a whole number from 1 up, or a grade is
            above 1,000.
    """
    worth = _GAINS.get(gain)
    if worth is None:
        raise ValidationError(f"the gain is 'linear' or 'exponential', not {gain!r:.60}")
    check_whole(k, "k", least=1)
    if any(grade > 1000 for grade in grades.values()):
        raise ValidationError("a grade is beyond 1,000: grades are small, such as 0 to 3")
    seen: set[str] = set()
    total = 0.0
    for rank, name in enumerate(ranking[:k], start=1):
        grade = grades.get(name, 0)
        if grade > 0 and name and name not in seen:
            seen.add(name)
            total += worth(grade) / log2(rank + 1)
    ideal = sorted((grade for name, grade in grades.items() if grade > 0 and name), reverse=True)
    best = sum(worth(grade) / log2(rank + 1) for rank, grade in enumerate(ideal[:k], start=1))
    return total / best if best else 0.0


def metric_names(cutoffs: Iterable[int] = DEFAULT_CUTOFFS) -> list[str]:
    """Return the names of the values of `score_ranking`, in order.

    ``ndcg@k``, ``ndcg_exp@k`` (exponential gain), ``recall@k``, ``precision@k`` and
    ``success@k`` for every cutoff, then ``mrr`` and ``map`` over the whole ranking.
    """
    return list(_metrics(tuple(cutoffs), 1))


def score_ranking(
    ranking: Sequence[str],
    grades: Mapping[str, int],
    *,
    cutoffs: Iterable[int] = DEFAULT_CUTOFFS,
    least_grade: int = 1,
) -> dict[str, float]:
    """Compute every metric of one query, by the names of `metric_names`.

    Raises:
        ValidationError: a cutoff is not a whole number from 1 up.
    """
    metrics = _metrics(tuple(cutoffs), least_grade)
    return {name: metric(ranking, grades) for name, metric in metrics.items()}


def score_run(
    rankings: Mapping[str, Sequence[str]],
    judgements: Mapping[str, Mapping[str, int]],
    *,
    cutoffs: Iterable[int] = DEFAULT_CUTOFFS,
    least_grade: int = 1,
) -> dict[str, dict[str, float]]:
    """Compute every metric of every judged query, by query id, in the judgements' order.

    A judged query that the run lacks scores 0, and queries without judgements are omitted, so that
    means equal those of ``trec_eval -c``.
    """
    cutoffs = tuple(cutoffs)
    return {
        query: score_ranking(
            rankings.get(query, ()), grades, cutoffs=cutoffs, least_grade=least_grade
        )
        for query, grades in judgements.items()
    }


_GAINS: Mapping[Gain, Callable[[int], float]] = {
    "linear": float,
    "exponential": lambda grade: 2.0**grade - 1,
}


def _metrics(cutoffs: tuple[int, ...], least_grade: int) -> dict[str, Metric]:
    check_whole(least_grade, "least_grade", least=1)
    for k in cutoffs:
        check_whole(k, "a cutoff", least=1)
    metrics: dict[str, Metric] = {}
    metrics |= {f"ndcg@{k}": partial(ndcg_at, k) for k in cutoffs}
    metrics |= {f"ndcg_exp@{k}": partial(ndcg_at, k, gain="exponential") for k in cutoffs}
    metrics |= {f"recall@{k}": partial(recall_at, k, least_grade=least_grade) for k in cutoffs}
    metrics |= {
        f"precision@{k}": partial(precision_at, k, least_grade=least_grade) for k in cutoffs
    }
    metrics |= {f"success@{k}": partial(success_at, k, least_grade=least_grade) for k in cutoffs}
    metrics["mrr"] = partial(reciprocal_rank, least_grade=least_grade)
    metrics["map"] = partial(average_precision, least_grade=least_grade)
    return metrics


def _relevant(grades: Mapping[str, int], least_grade: int) -> set[str]:
    return {name for name, grade in grades.items() if grade >= least_grade and name}


def evidence_within(
    budget: int,
    found: Iterable[tuple[str, int]],
    grades: Mapping[str, int],
    *,
    least_grade: int = 1,
) -> float:
    """Return the share of relevant units whose text ends within the first ``budget`` tokens.

    ``found`` has, best first, the unit in each returned text ("" for none) and its number of
    tokens. The first text that exceeds the budget ends the count. Without a relevant unit the share
    is 0.
    """
    relevant = {unit for unit, grade in grades.items() if grade >= least_grade}
    held: set[str] = set()
    spent = 0
    for unit, tokens in found:
        spent += tokens
        if spent > budget:
            break
        held.add(unit)
    return len(held & relevant) / len(relevant) if relevant else 0.0
