"""Evaluation: how well a knowledge base finds, and how far the numbers can be trusted.

`evaluate` asks a Service the questions of a `Collection` (`read_beir`, `read_golden`) and scores
what it finds; `compare` sets two evaluations side by side. The parts are pure functions, for use
on rankings from anywhere: metrics, intervals, tests.
"""

from triptych.evaluation.beir import read_beir
from triptych.evaluation.budget import DEFAULT_BUDGETS, evidence_within
from triptych.evaluation.calibration import CalibrationReport, calibrate
from triptych.evaluation.collections import (
    Collection,
    JudgedPassage,
    JudgedQuery,
    MalformedFileError,
)
from triptych.evaluation.comparison import Comparison, Difference, compare, compare_modes
from triptych.evaluation.golden import read_golden
from triptych.evaluation.judge import Judge, MalformedJudgementError
from triptych.evaluation.metrics import (
    DEFAULT_CUTOFFS,
    average_precision,
    in_trec_order,
    metric_names,
    ndcg_at,
    precision_at,
    recall_at,
    reciprocal_rank,
    score_ranking,
    score_run,
    success_at,
)
from triptych.evaluation.rag import (
    RAG_METRICS,
    JudgeProblem,
    RagEvaluation,
    RagSample,
    answer_relevance,
    collect_samples,
    context_precision,
    context_recall,
    evaluate_answers,
    faithfulness,
)
from triptych.evaluation.report import comparison_html, evaluation_html
from triptych.evaluation.results import Evaluation, Granularity, Latency, ModeResult
from triptych.evaluation.run import evaluate
from triptych.evaluation.significance import (
    Estimate,
    bootstrap,
    holm,
    randomisation_test,
    randomisation_tests,
)
from triptych.evaluation.storage import (
    answers_json,
    comparison_json,
    evaluation_json,
    read_evaluation,
    write_evaluation,
)
from triptych.evaluation.trec import read_qrels, read_run, write_qrels, write_run

__all__ = [
    "DEFAULT_BUDGETS",
    "DEFAULT_CUTOFFS",
    "RAG_METRICS",
    "CalibrationReport",
    "Collection",
    "Comparison",
    "Difference",
    "Estimate",
    "Evaluation",
    "Granularity",
    "Judge",
    "JudgeProblem",
    "JudgedPassage",
    "JudgedQuery",
    "Latency",
    "MalformedFileError",
    "MalformedJudgementError",
    "ModeResult",
    "RagEvaluation",
    "RagSample",
    "answer_relevance",
    "answers_json",
    "average_precision",
    "bootstrap",
    "calibrate",
    "collect_samples",
    "compare",
    "compare_modes",
    "comparison_html",
    "comparison_json",
    "context_precision",
    "context_recall",
    "evaluate",
    "evaluate_answers",
    "evaluation_html",
    "evaluation_json",
    "evidence_within",
    "faithfulness",
    "holm",
    "in_trec_order",
    "metric_names",
    "ndcg_at",
    "precision_at",
    "randomisation_test",
    "randomisation_tests",
    "read_beir",
    "read_evaluation",
    "read_golden",
    "read_qrels",
    "read_run",
    "recall_at",
    "reciprocal_rank",
    "score_ranking",
    "score_run",
    "success_at",
    "write_evaluation",
    "write_qrels",
    "write_run",
]
