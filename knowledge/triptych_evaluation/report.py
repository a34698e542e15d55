"""HTML reports of evaluations and comparisons, without scripts or network access.

Plots are inline SVG, styles are in the page, colours follow the reader's light or dark scheme.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from triptych.records import counted
from triptych_evaluation.answers import CollectedAnswers
from triptych_evaluation.charts import bars, differences, legend, lines
from triptych_evaluation.rag import RagEvaluation
from triptych_evaluation.results import Comparison, Evaluation, compare_modes

_WANTED = ("ndcg@10", "ndcg_exp@10", "recall@10", "precision@10", "success@10", "mrr", "map")
_BASELINE = "bm25"


def headline(metrics: Sequence[str]) -> list[str]:
    """Return the main metrics: nDCG@10 first, if it was measured."""
    found = [name for name in _WANTED if name in metrics]
    if "ndcg@10" in found:
        return found
    deepest = [name for name in metrics if name.startswith("ndcg@")][-1:]
    return [*deepest, *(name for name in found if name not in deepest)] or list(metrics[:6])


def evaluation_html(evaluation: Evaluation) -> str:
    """Return the page of one evaluation.

    It has means with intervals by mode and metric, recall at depth, evidence by budget, latency,
    each mode's differences from keyword search by query, and the configuration.
    """
    shown = headline(evaluation.metrics)
    modes = list(evaluation.modes)
    parts = [
        f"<p>{counted(len(evaluation.query_ids), 'query', 'queries')}, "
        f"by {escape(str(evaluation.granularity))}, searched "
        f"{evaluation.configuration.get('depth', '?')} deep.</p>",
        _warnings(
            [
                *evaluation.warnings,
                *(
                    f"{mode}: {warning}"
                    for mode, result in evaluation.modes.items()
                    for warning in result.warnings
                ),
            ]
        ),
        "<h2>Means, with 95% intervals</h2>",
        legend(modes),
        bars(
            {
                metric: {
                    mode: result.estimates[metric] for mode, result in evaluation.modes.items()
                }
                for metric in shown
            },
            label="means of the metrics by mode, with 95% intervals",
        ),
        _means(evaluation),
        "<h2>Recall at depth</h2>",
        legend(modes),
        lines(
            {
                mode: list(enumerate(result.recall_at_depth, start=1))
                for mode, result in evaluation.modes.items()
            },
            label="mean recall at each depth, by mode",
            x_title="depth",
        ),
        *_evidence(evaluation),
        *_by_query(evaluation, shown[0]),
        "<h2>Latency</h2>",
        _table(
            ("milliseconds", "p50", "p95", "p99"),
            (
                (mode, *(f"{each:.2f}" for each in (r.latency.p50, r.latency.p95, r.latency.p99)))
                for mode, r in evaluation.modes.items()
            ),
        ),
        "<h2>Configuration</h2>",
        _configuration(evaluation.configuration),
    ]
    return _page(f"Evaluation of {evaluation.collection}", parts)


def comparison_html(comparison: Comparison, *, name_a: str, name_b: str) -> str:
    """Return the page of a comparison: a table of all tests, and the first metric's differences."""
    first = comparison.differences[0].metric
    parts = [
        f"<p>Differences are {escape(name_b)} less {escape(name_a)}, over "
        f"{counted(len(comparison.query_ids), 'query', 'queries')}. "
        "p is of a paired randomisation test, p (Holm) "
        "the same adjusted for all tests in the table.</p>",
        _warnings(comparison.warnings),
        _tests(comparison),
    ]
    for each in comparison.differences:
        if each.metric == first:
            title = f"{each.metric}: {each.mode_b} less {each.mode_a}, by query"
            parts += [
                f"<h2>{escape(title)}</h2>",
                differences(each.values, comparison.query_ids, label=title),
            ]
    return _page(f"{name_b} compared with {name_a}", parts)


def answers_html(
    title: str, judged: RagEvaluation | None, collected: CollectedAnswers, warnings: Sequence[str]
) -> str:
    """Return the page of judged answers: metrics, abstentions, every answer, and problems."""
    parts = [_warnings(warnings)]
    if judged is not None:
        parts += [
            "<h2>Metrics, with 95% intervals</h2>",
            _table(("metric", "mean", "low", "high", "scored"), answer_rows(judged)),
            f"<p>Judged by {escape(judged.judge)}, in {judged.calls} calls.</p>",
        ]
    if collected.score is not None:
        score = collected.score
        rows = [
            ("left unanswered", score.abstained),
            ("without an answer", score.unanswerable),
            ("precision", _number(score.precision)),
            ("recall", _number(score.recall)),
        ]
        parts += ["<h2>Abstention</h2>", _table(("", ""), rows)]
    values = {} if judged is None else judged.values
    by_query = [
        (each.query_id, each.question, each.answer, *(_number(row[at]) for row in values.values()))
        for at, each in enumerate(collected.samples)
    ]
    parts += ["<h2>Answers</h2>", _table(("query", "question", "answer", *values), by_query)]
    if judged is not None and judged.problems:
        rows_of_problems = [
            (each.query_id, each.metric, each.reason, each.answer) for each in judged.problems
        ]
        parts += [
            "<h2>Judgements that were not made</h2>",
            _table(("query", "metric", "reason", "the judge said"), rows_of_problems),
        ]
    return _page(title, parts)


def answer_rows(judged: RagEvaluation) -> list[tuple[str, str, str, str, str]]:
    """Return for each metric the mean, its interval, and the number of scored answers."""
    rows = []
    for metric, estimate in judged.estimates.items():
        numbers = (None,) * 3 if estimate is None else (estimate.mean, estimate.low, estimate.high)
        mean, low, high = map(_number, numbers)
        rows.append((metric, mean, low, high, str(judged.scored[metric])))
    return rows


def _number(value: float | None) -> str:
    return "N/A" if value is None else f"{value:.4f}"


def _means(evaluation: Evaluation) -> str:
    rows = []
    for metric in evaluation.metrics:
        estimates = [result.estimates[metric] for result in evaluation.modes.values()]
        rows.append((metric, *(f"{e.mean:.4f} [{e.low:.4f}, {e.high:.4f}]" for e in estimates)))
    several = list(evaluation.modes.values())
    for name in dict.fromkeys(name for result in several for name in result.checks):
        checks = [result.checks.get(name) for result in several]
        rows.append((name, *("N/A" if e is None else f"{e.mean:.4f}" for e in checks)))
    return _table(("metric", *evaluation.modes), rows)


def _evidence(evaluation: Evaluation) -> Iterable[str]:
    names = [name for name in evaluation.metrics if name.startswith("evidence@")]
    if not names:
        return
    yield "<h2>Evidence by tokens returned</h2>"
    yield legend(list(evaluation.modes))
    yield lines(
        {
            mode: [(0.0, 0.0)]
            + [(float(name.partition("@")[2]), result.estimates[name].mean) for name in names]
            for mode, result in evaluation.modes.items()
        },
        label="share of the evidence within so many tokens, by mode",
        x_title="tokens",
    )


def _by_query(evaluation: Evaluation, metric: str) -> Iterable[str]:
    for mode in evaluation.modes:
        if _BASELINE not in evaluation.modes or mode == _BASELINE:
            continue
        (found,) = compare_modes(evaluation, _BASELINE, mode, metrics=[metric]).differences
        title = f"{metric}: {mode} less {_BASELINE}, by query"
        yield f"<h2>{escape(title)}</h2>"
        yield (
            f"<p>{found.estimate.mean:+.4f} [{found.estimate.low:+.4f}, "
            f"{found.estimate.high:+.4f}], p {_number(found.p)}; {found.better:,} queries better, "
            f"{found.worse:,} worse.</p>"
        )
        yield differences(found.values, evaluation.query_ids, label=title)


def _tests(comparison: Comparison) -> str:
    return _table(
        ("metric", "a", "b", "mean a", "mean b", "difference", "p", "p (Holm)", "better", "worse"),
        (
            (
                each.metric,
                each.mode_a,
                each.mode_b,
                f"{each.mean_a:.4f}",
                f"{each.mean_b:.4f}",
                f"{each.estimate.mean:+.4f} [{each.estimate.low:+.4f}, {each.estimate.high:+.4f}]",
                _number(each.p),
                _number(each.p_holm),
                each.better,
                each.worse,
            )
            for each in comparison.differences
        ),
    )


def _configuration(configuration: Mapping[str, Any]) -> str:
    rows = [
        (key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for key, value in configuration.items()
    ]
    return _table(("setting", "value"), rows)


def _warnings(warnings: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(each)}</li>" for each in warnings)
    return f'<ul class="warnings">{items}</ul>' if items else ""


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide">{table}</div>'


def _page(title: str, parts: Iterable[str]) -> str:
    body = "\n".join(part for part in parts if part)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><main><h1>{escape(title)}</h1>\n{body}\n</main></body></html>\n"
    )


# Colours that readers who see few of them can distinguish: Okabe and Ito (2008).
_STYLE = """
:root{color-scheme:light dark;--paper:#fff;--ink:#1b1f24;--soft:#5b6470;--rule:#dfe3e8;
--note:#fff6e0;--s0:#0072b2;--s1:#e69f00;--s2:#009e73;--s3:#cc79a7;--s4:#56b4e9;--s5:#d55e00}
@media (prefers-color-scheme:dark){:root{--paper:#14171a;--ink:#e6e9ec;--soft:#9aa4af;
--rule:#2c3238;--note:#332b17;--s0:#4aa8e0;--s1:#f0b73f;--s2:#37c79a;--s3:#dd9bc0;--s4:#8fd0f5;
--s5:#f08a4b}}
body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:52rem;margin:0 auto;padding:1.5rem}
h1{font-size:1.6rem}h2{font-size:1.15rem;margin-top:2.2rem}
svg{width:100%;height:auto}svg text{fill:var(--ink);font-size:12px}svg .tick{fill:var(--soft)}
.grid{stroke:var(--rule);fill:none}.axis,.whisker{stroke:var(--ink);fill:none}
.s0{fill:var(--s0);background:var(--s0)}.s1{fill:var(--s1);background:var(--s1)}
.s2{fill:var(--s2);background:var(--s2)}.s3{fill:var(--s3);background:var(--s3)}
.s4{fill:var(--s4);background:var(--s4)}.s5{fill:var(--s5);background:var(--s5)}
.line{fill:none;stroke-width:2}.line.s0{stroke:var(--s0)}.line.s1{stroke:var(--s1)}
.line.s2{stroke:var(--s2)}.line.s3{stroke:var(--s3)}.line.s4{stroke:var(--s4)}
.line.s5{stroke:var(--s5)}.line{background:none}
.gain{fill:var(--s2)}.loss{fill:var(--s5)}
.legend{display:flex;gap:1.2rem;list-style:none;padding:0;margin:.3rem 0;flex-wrap:wrap}
.key{display:inline-block;width:.8rem;height:.8rem;border-radius:2px;margin-right:.4rem}
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;
font-size:.9rem;margin:.6rem 0}th,td{text-align:left;padding:.25rem .8rem .25rem 0;
border-bottom:1px solid var(--rule);white-space:nowrap}th{color:var(--soft);font-weight:600}
.warnings{background:var(--note);padding:.6rem .8rem .6rem 2rem;border-radius:6px}
"""
