"""The names of `triptych_evaluation`, each with the module that defines it."""

from triptych_evaluation.answers import (
    AbstentionScore as AbstentionScore,
    collect_answers as collect_answers,
)
from triptych_evaluation.calibration import (
    CalibrationReport as CalibrationReport,
    calibrate as calibrate,
)
from triptych_evaluation.collections import (
    Collection as Collection,
    JudgedPassage as JudgedPassage,
    JudgedQuery as JudgedQuery,
    MalformedFileError as MalformedFileError,
)
from triptych_evaluation.formats import (
    read_beir as read_beir,
    read_qrels as read_qrels,
    read_run as read_run,
    write_qrels as write_qrels,
    write_run as write_run,
)
from triptych_evaluation.golden import (
    golden_yaml as golden_yaml,
    logged_yaml as logged_yaml,
    read_golden as read_golden,
)
from triptych_evaluation.metrics import (
    DEFAULT_BUDGETS as DEFAULT_BUDGETS,
    DEFAULT_CUTOFFS as DEFAULT_CUTOFFS,
    average_precision as average_precision,
    evidence_within as evidence_within,
    in_trec_order as in_trec_order,
    metric_names as metric_names,
    ndcg_at as ndcg_at,
    precision_at as precision_at,
    recall_at as recall_at,
    reciprocal_rank as reciprocal_rank,
    score_ranking as score_ranking,
    score_run as score_run,
    success_at as success_at,
)
from triptych_evaluation.questions import propose_questions as propose_questions
from triptych_evaluation.rag import (
    RAG_METRICS as RAG_METRICS,
    Judge as Judge,
    JudgeProblem as JudgeProblem,
    MalformedJudgementError as MalformedJudgementError,
    RagEvaluation as RagEvaluation,
    RagSample as RagSample,
    answer_relevance as answer_relevance,
    answers_json as answers_json,
    collect_samples as collect_samples,
    context_precision as context_precision,
    context_recall as context_recall,
    evaluate_answers as evaluate_answers,
    faithfulness as faithfulness,
)
from triptych_evaluation.report import (
    answers_html as answers_html,
    comparison_html as comparison_html,
    evaluation_html as evaluation_html,
)
from triptych_evaluation.results import (
    Comparison as Comparison,
    Difference as Difference,
    Evaluation as Evaluation,
    Granularity as Granularity,
    Latency as Latency,
    ModeResult as ModeResult,
    compare as compare,
    compare_modes as compare_modes,
    comparison_json as comparison_json,
    evaluation_json as evaluation_json,
    read_evaluation as read_evaluation,
    write_evaluation as write_evaluation,
)
from triptych_evaluation.run import evaluate as evaluate
from triptych_evaluation.significance import (
    Estimate as Estimate,
    bootstrap as bootstrap,
    holm as holm,
    randomisation_test as randomisation_test,
    randomisation_tests as randomisation_tests,
)
