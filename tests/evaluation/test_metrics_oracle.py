"""Our metrics beside trec_eval itself, on random runs and judgements.

trec_eval's code writes over its own memory after some negative grades, and the process dies a
few hundred runs later. So those are shown to count as 0 here, and given to it in processes of
their own.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings, strategies as st

from support.examples import examples
from triptych_evaluation import in_trec_order, score_ranking, score_run

pytestmark = pytest.mark.property

pytrec_eval = pytest.importorskip("pytrec_eval")

CUTOFFS = (1, 2, 3, 5, 10)
CUT = ",".join(map(str, CUTOFFS))
THEIRS = {
    **{f"ndcg@{k}": f"ndcg_cut_{k}" for k in CUTOFFS},
    **{f"recall@{k}": f"recall_{k}" for k in CUTOFFS},
    **{f"precision@{k}": f"P_{k}" for k in CUTOFFS},
    **{f"success@{k}": f"success_{k}" for k in CUTOFFS},
    "mrr": "recip_rank",
    "map": "map",
}
MEASURES = {f"{name}.{CUT}" for name in ("ndcg_cut", "recall", "P", "success")} | {
    "recip_rank",
    "map",
}

ids = st.text(alphabet="ab/é文.", min_size=1, max_size=3)
# Few different scores, so that ties are frequent; some differ beyond single precision alone.
scores = st.sampled_from(
    [0.0, -1.5, 0.25, 0.5, 1.0, 1.00000001, 1.0000002, 3e7, 3e7 + 1]
) | st.floats(-1e6, 1e6, width=32)
grades = st.integers(0, 4)


def trec_eval(judged: dict[str, int], run: dict[str, float], level: int = 1) -> dict[str, float]:
    """One query in trec_eval's own code; it refuses a query without a judgement."""
    evaluator = pytrec_eval.RelevanceEvaluator({"q": judged}, MEASURES, level)
    found: dict[str, float] = evaluator.evaluate({"q": run})["q"]
    return found


@settings(max_examples=examples(200), deadline=None)
@given(
    run=st.dictionaries(ids, scores, max_size=14),
    judged=st.dictionaries(ids, grades, min_size=1, max_size=10),
    level=st.integers(1, 3),
)
def test_every_metric_is_that_of_trec_eval(
    run: dict[str, float], judged: dict[str, int], level: int
) -> None:
    ours = score_ranking(in_trec_order(run), judged, cutoffs=CUTOFFS, least_grade=level)
    theirs = trec_eval(judged, run, level)
    for name, value in ours.items():
        if name in THEIRS:
            assert value == pytest.approx(theirs[THEIRS[name]], abs=1e-9), name


@settings(max_examples=examples(100), deadline=None)
@given(
    run=st.dictionaries(ids, scores, max_size=14),
    judged=st.dictionaries(ids, grades, min_size=1, max_size=10),
)
def test_exponential_gain_is_linear_gain_over_powers_of_two(
    run: dict[str, float], judged: dict[str, int]
) -> None:
    ours = score_ranking(in_trec_order(run), judged, cutoffs=CUTOFFS)
    powers = {name: 2**grade - 1 for name, grade in judged.items()}
    theirs = trec_eval(powers, run)
    for k in CUTOFFS:
        assert ours[f"ndcg_exp@{k}"] == pytest.approx(theirs[f"ndcg_cut_{k}"], abs=1e-9)


@settings(max_examples=examples(100), deadline=None)
@given(
    run=st.dictionaries(ids, scores, max_size=14),
    judged=st.dictionaries(ids, st.integers(-3, 4), max_size=10),
)
def test_a_negative_grade_counts_as_zero(run: dict[str, float], judged: dict[str, int]) -> None:
    floored = {name: max(grade, 0) for name, grade in judged.items()}
    ranking = in_trec_order(run)
    assert score_ranking(ranking, judged) == score_ranking(ranking, floored)


@pytest.mark.parametrize(
    "judged",
    [{"a": 1, "b": -1, "c": 2}, {"a": -2}, {"a": 3, "b": -1, "c": -2, "d": 0, "z": 1}],
)
def test_trec_eval_counts_negative_grades_so_too(judged: dict[str, int]) -> None:
    run = {"b": 3.0, "a": 2.0, "c": 1.0, "d": 1.0, "e": 0.5}
    code = (
        "import json, sys, pytrec_eval; judged, run, measures = json.loads(sys.argv[1]);"
        "evaluator = pytrec_eval.RelevanceEvaluator({'q': judged}, set(measures));"
        "print(json.dumps(evaluator.evaluate({'q': run})['q']))"
    )
    argument = json.dumps([judged, run, sorted(MEASURES)])
    done = subprocess.run(
        [sys.executable, "-c", code, argument], capture_output=True, text=True, check=True
    )
    theirs = json.loads(done.stdout)
    ours = score_ranking(in_trec_order(run), judged, cutoffs=CUTOFFS)
    for name, other in THEIRS.items():
        assert ours[name] == pytest.approx(theirs[other], abs=1e-9), name


@settings(max_examples=examples(60), deadline=None)
@given(
    runs=st.dictionaries(
        st.sampled_from("abcd"), st.dictionaries(ids, scores, min_size=1, max_size=8), min_size=1
    ),
    judged=st.dictionaries(
        st.sampled_from("abcde"),
        st.dictionaries(ids, st.integers(0, 4), min_size=1, max_size=8),
        min_size=1,
    ),
)
def test_a_run_is_scored_over_the_judged_queries(
    runs: dict[str, dict[str, float]], judged: dict[str, dict[str, int]]
) -> None:
    """Queries without an answer score 0; queries without judgements play no role."""
    ours = score_run(
        {query: in_trec_order(run) for query, run in runs.items()}, judged, cutoffs=CUTOFFS
    )
    assert list(ours) == list(judged)
    for query, grades_ in judged.items():
        if query not in runs:
            assert set(ours[query].values()) == {0.0}
            continue
        theirs = trec_eval(grades_, runs[query])
        for name, other in THEIRS.items():
            assert ours[query][name] == pytest.approx(theirs[other], abs=1e-9)
