"""Fitting a calibration, which predicts whether a result answers its question.

Each golden question is searched once. A result answers if it has a relevant document; the result of
a question without an answer never does. The lanes' signals (`triptych.search.answerability`) are
fitted by logistic regression with equal weight for both classes and no negative weight.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np
from numpy.typing import NDArray

from triptych import ProgressCallback
from triptych.errors import NotAvailableError, ValidationError
from triptych.question_log import unlogged
from triptych.records import Mode, Query, check_whole
from triptych.search import SIGNALS, Calibration, HeldOut, LaneModel, lanes_key
from triptych.service import KnowledgeBase, Service, service_of
from triptych.text import get_analyzer
from triptych_evaluation.collections import Collection, one_by_one
from triptych_evaluation.significance import few_queries_warning
from triptych_evaluation.targets import find_targets

if TYPE_CHECKING:
    from triptych.search import SearchPipeline

FOLDS = 5
LEAST = 10
"""The minimum number of questions of each kind."""
REFUSED = 0.05
"""The maximum share of answering results that the fit may judge "nothing"."""
PRECISION = 0.9
"""The target share of answering results among those judged "enough"."""

_PENALTY = 1.0  # of the squared weights, over signals of deviation 1
_ROUNDS = 50
_LEAST_RECALL = 0.1


@attrs.frozen(kw_only=True, slots=True)
class JudgedSignals:
    """One question's signals, and whether its result answers it."""

    question: str
    signals: Mapping[str, float]
    answered: bool


@attrs.frozen(kw_only=True, slots=True)
class CalibrationReport:
    """A calibration, the number of questions whose answer was not found, and warnings."""

    calibration: Calibration
    missed: int
    warnings: tuple[str, ...] = ()


def calibrate(
    service: KnowledgeBase,
    collection: Collection,
    *,
    dataset_id: str,
    top_k: int = 10,
    searches: SearchPipeline | None = None,
    progress: ProgressCallback | None = None,
) -> CalibrationReport:
    """Fit a calibration for a dataset. It is not stored: see `save_calibration`.

    ``searches`` runs the questions; None is the Service's pipeline.

    Raises:
        ValidationError: there are fewer than 10 questions whose answer was found, or fewer than 10
            without an answer.
        NotFoundError: the dataset does not exist.
        NotAvailableError: the store has no statistics of terms, or ``service`` is a client.
    """
    service = service_of(service, "a calibration")
    config = service.chunks.config(dataset_id)
    samples, missed = collect_signals(
        service,
        collection,
        dataset_id=dataset_id,
        top_k=top_k,
        searches=searches,
        progress=progress,
    )
    answered = sum(sample.answered for sample in samples)
    unanswered = len(samples) - answered
    models = _fit_models(samples)
    assert config is not None  # the dataset was searched
    warnings = few_queries_warning(len(samples))
    if missed:
        warnings.append(
            f"the answers of {missed} questions were not among the {top_k} hits: these count as "
            "not answered"
        )
    return CalibrationReport(
        calibration=Calibration(
            models=models,
            embed_sig=config.embed_sig,
            analyzer_sig=get_analyzer(config.language).signature,
            chunker_sig=config.chunker_sig,
            answered=answered,
            unanswered=unanswered,
            top_k=top_k,
        ),
        missed=missed,
        warnings=tuple(warnings),
    )


def _fit_models(samples: Sequence[JudgedSignals]) -> dict[str, LaneModel]:
    """A model for each combination of lanes with signals for enough questions of both kinds."""
    answered = sum(sample.answered for sample in samples)
    for count, what, remedy in (
        (answered, "whose answer was found", "add questions with expected_files"),
        (len(samples) - answered, "without an answer", "add questions with answerable: false"),
    ):
        if count < LEAST:
            raise ValidationError(
                f"the golden set has {count} questions {what}: a calibration needs {LEAST} or "
                f"more, {remedy}"
            )
    models = {}
    for lanes in ({"bm25"}, {"vector"}, {"bm25", "vector"}):
        names = [name for name, lane in SIGNALS.items() if lane in lanes]
        usable = [sample for sample in samples if all(name in sample.signals for name in names)]
        of_each = [sum(s.answered is kind for s in usable) for kind in (True, False)]
        if min(of_each) >= LEAST:
            models[lanes_key(lanes)] = fit_model(usable, names)
    if not models:
        raise NotAvailableError(
            "no lane has signals for enough questions: the store has no term statistics, and there "
            "are no vectors"
        )
    return models


@unlogged()
def collect_signals(
    service: Service,
    collection: Collection,
    *,
    dataset_id: str,
    top_k: int = 10,
    searches: SearchPipeline | None = None,
    progress: ProgressCallback | None = None,
) -> tuple[list[JudgedSignals], int]:
    """Search every question; return the signals, and how many have an answer that was not found."""
    check_whole(top_k, "top_k", least=1)
    targets = find_targets(service, dataset_id, collection, passages=False)
    searches = service.searches if searches is None else searches
    mode = Mode.HYBRID if service.options.embedder is not None else Mode.BM25
    samples = []
    missed = 0
    for query in one_by_one(collection.queries, "the calibration", "questions", progress):
        asked = Query(text=query.text, dataset_id=dataset_id, mode=mode, top_k=top_k)
        result, signals = searches.search_with_signals(asked)
        grades = targets[query.query_id].grades
        answered = any(grades.get(hit.doc_name, 0) > 0 for hit in result)
        missed += not answered and not query.unanswerable
        samples.append(JudgedSignals(question=query.text, signals=signals, answered=answered))
    return samples, missed


def fit_model(samples: Sequence[JudgedSignals], names: Sequence[str]) -> LaneModel:
    """Fit one model on these signals; its scores are cross-validated.

    The questions are split into five parts by a digest of their text, and each part is judged by a
    model and thresholds fitted on the others.
    """
    signals = np.array([[sample.signals[name] for name in names] for sample in samples])
    answered = np.array([sample.answered for sample in samples])
    folds = np.array([_fold(sample.question) for sample in samples])
    scores = np.full(len(samples), 0.5)
    verdicts = np.full(len(samples), "weak", dtype=object)
    for fold in range(FOLDS):
        inside, outside = folds == fold, folds != fold
        if len(set(answered[outside].tolist())) < 2:
            continue
        weights, bias = _fitted(signals[outside], answered[outside])
        nothing, enough = _thresholds(
            _logistic(signals[outside] @ weights + bias), answered[outside]
        )
        scores[inside] = _logistic(signals[inside] @ weights + bias)
        verdicts[inside & (scores < nothing)] = "nothing"
        verdicts[inside & (scores >= enough)] = "enough"
    weights, bias = _fitted(signals, answered)
    nothing, enough = _thresholds(_logistic(signals @ weights + bias), answered)
    return LaneModel(
        weights=dict(zip(names, weights.tolist(), strict=True)),
        bias=bias,
        nothing=nothing,
        enough=enough,
        held_out=_held_out(scores, verdicts, answered),
    )


def _fold(question: str) -> int:
    return int.from_bytes(hashlib.sha256(question.encode("utf-8")).digest()[:4]) % FOLDS


def _logistic(values: NDArray[np.float64]) -> NDArray[np.float64]:
    result: NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(values, -500, 500)))
    return result


def _fitted(
    signals: NDArray[np.float64], answered: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], float]:
    """Weights and bias; a signal whose weight would be below 0 is left out, the lowest first."""
    mean, deviation = signals.mean(axis=0), signals.std(axis=0)
    kept = [at for at in range(signals.shape[1]) if deviation[at] > 0]
    weights = np.zeros(signals.shape[1])
    while True:
        scaled = (signals[:, kept] - mean[kept]) / deviation[kept]
        found = _newton(scaled, answered)
        if not kept or found[1:].min() >= 0:
            break
        kept.pop(int(found[1:].argmin()))
    weights[kept] = found[1:] / deviation[kept]
    return weights, float(found[0] - weights @ mean)


def _newton(signals: NDArray[np.float64], answered: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Penalised logistic regression by Newton's method, both classes of equal weight."""
    table = np.column_stack([np.ones(len(signals)), signals])
    share = answered.mean()
    importance = np.where(answered, 0.5 / share, 0.5 / (1 - share))
    penalty = np.r_[0.0, np.full(signals.shape[1], _PENALTY)]
    found = np.zeros(table.shape[1])
    for _ in range(_ROUNDS):
        chance = _logistic(table @ found)
        gradient = table.T @ (importance * (chance - answered)) + penalty * found
        curvature = (table * (importance * chance * (1 - chance))[:, None]).T @ table
        step = np.linalg.solve(curvature + np.diag(penalty + 1e-9), gradient)
        found -= step
        if np.abs(step).max() < 1e-9:
            break
    return found


def _thresholds(scores: NDArray[np.float64], answered: NDArray[np.bool_]) -> tuple[float, float]:
    """Below which probability a result is "nothing", and from which "enough"."""
    good = np.sort(scores[answered])
    nothing = float(good[int(REFUSED * len(good))])
    steps = [float(step) for step in np.unique(scores) if step >= nothing]
    rows = []
    for step in steps:
        taken = scores >= step
        right = int((taken & answered).sum())
        rows.append((right / taken.sum(), right / len(good), step))
    precise = [row for row in rows if row[0] >= PRECISION and row[1] >= _LEAST_RECALL]
    if precise:
        return nothing, min(step for _, _, step in precise)
    # What was asked for is not to be had: the best there is for half of the answers.
    half = [row for row in rows if row[1] >= 0.5] or rows
    return nothing, max(half)[2]


def _held_out(
    scores: NDArray[np.float64], verdicts: NDArray[np.object_], answered: NDArray[np.bool_]
) -> HeldOut:
    enough, nothing = verdicts == "enough", verdicts == "nothing"
    precision = _share(enough & answered, enough)
    recall = _share(enough & answered, answered)
    return HeldOut(
        auc=area_under_curve(scores[answered], scores[~answered]),
        precision=precision,
        recall=recall,
        f1=2 * precision * recall / (precision + recall) if precision + recall else 0.0,
        nothing_precision=_share(nothing & ~answered, nothing),
        nothing_recall=_share(nothing & ~answered, ~answered),
        refused=_share(nothing & answered, answered),
    )


def area_under_curve(high: NDArray[np.float64], low: NDArray[np.float64]) -> float:
    """Return how often a value of ``high`` is above one of ``low``; ties count half."""
    if not len(high) or not len(low):
        return 0.5
    return float((high[:, None] > low).mean() + 0.5 * (high[:, None] == low).mean())


def _share(part: NDArray[np.bool_], whole: NDArray[np.bool_]) -> float:
    """0 where there is nothing to have a share of."""
    return float(part.sum() / whole.sum()) if whole.any() else 0.0
