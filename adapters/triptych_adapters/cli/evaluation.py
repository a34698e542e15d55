"""The shared parts of the commands of ``triptych eval``: options, input and output."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from triptych._internal.wording import counted
from triptych.errors import ValidationError
from triptych_adapters.cli.command import argument, option
from triptych_adapters.cli.options import names
from triptych_adapters.cli.session import Session

if TYPE_CHECKING:
    from triptych_evaluation import Collection, Comparison, Evaluation

Output = Annotated[
    Path | None, option("--output -o FILE", "Write everything here as JSON, for compare.")
]
Html = Annotated[
    Path | None, option("--html FILE", "Write a page with plots here; it opens without a network.")
]
Metrics = Annotated[
    str | None,
    option("--metrics NAMES", "Metrics to show, separated by commas, such as ndcg@10,mrr."),
]
Golden = Annotated[Path, argument("GOLDEN", "Questions and the files that answer them, in YAML.")]
Dataset = Annotated[
    str | None, option("--dataset -d", "The dataset. Without it: default, or the only one.")
]

_FIRST = 10


def chosen_metrics(named: str | None, known: Sequence[str]) -> list[str]:
    from triptych_evaluation.report import headline

    if named is None:
        evidence = [name for name in known if name.startswith("evidence@")]
        return [*headline(known), *evidence]
    wanted = names(named)
    for name in wanted:
        if name not in known:
            raise ValidationError(f"there is no metric {name!r}: choose from {', '.join(known)}")
    return wanted


def check_places(*files: Path | None) -> None:
    """Refuse files that cannot be written before the work is done, not after it.

    Raises:
        ValidationError: the folder of one does not exist, or it is itself a folder.
    """
    for file in files:
        if file is None or file == Path("-"):
            continue
        if not file.parent.is_dir():
            raise ValidationError(
                f"there is no folder {str(file.parent)!r}: make it, or name another"
            )
        if file.is_dir():
            raise ValidationError(f"{str(file)!r} is a folder: name a file in it")


def show_evaluation(session: Session, found: Evaluation, metrics: Sequence[str]) -> None:
    """A table for people, with a mode a column; lines with a mode and a metric each for others."""
    output = session.output
    if not output.stdout.is_terminal:
        output.table(
            (),
            [
                (mode, name, *(f"{value:.6f}" for value in (e.mean, e.low, e.high)))
                for mode, result in found.modes.items()
                for name, e in (*result.estimates.items(), *result.checks.items())
                if name in metrics or name in result.checks
            ],
        )
        return
    rows: list[tuple[str, ...]] = []
    for name in metrics:
        estimates = [result.estimates[name] for result in found.modes.values()]
        rows.append((name, *(f"{e.mean:.4f} [{e.low:.4f}, {e.high:.4f}]" for e in estimates)))
    for name in dict.fromkeys(name for result in found.modes.values() for name in result.checks):
        checks = [result.checks.get(name) for result in found.modes.values()]
        shown = (
            "N/A" if e is None else f"{e.mean:.4f} [{e.low:.4f}, {e.high:.4f}]" for e in checks
        )
        rows.append((name, *shown))
    latencies = [result.latency for result in found.modes.values()]
    rows.append(("ms a search, p50 / p99", *(f"{e.p50:.1f} / {e.p99:.1f}" for e in latencies)))
    queries = counted(len(found.query_ids), "query", "queries")
    title = f"{found.collection}: {queries}, by {found.granularity}"
    output.table(("", *found.modes), rows, title=title)


def note_failed(session: Session, found: Evaluation) -> None:
    """List the questions for which a mode found nothing relevant among its first ten."""
    at = max((each for each in found.configuration["cutoffs"] if each <= _FIRST), default=0)
    for mode, result in found.modes.items():
        values = zip(found.query_ids, result.values.get(f"success@{at}", ()), strict=False)
        failed = [f"{query}: {found.questions[query]}" for query, value in values if not value]
        for line in failed[:_FIRST]:
            session.output.note(f"{mode}: nothing relevant among the first {at} for {line}")
        if len(failed) > _FIRST:
            session.output.note(f"{mode}: nor for {len(failed) - _FIRST} more: --json has them")


def show_comparison(session: Session, found: Comparison, by_query: str | None) -> None:
    output = session.output
    if by_query is not None:
        rows = [
            (query, f"{each.mode_a}:{each.mode_b}", f"{value:+.6f}", found.questions.get(query, ""))
            for each in found.differences
            if each.metric == by_query
            for value, query in sorted(zip(each.values, found.query_ids, strict=True))
            if value
        ]
        output.table(("query", "modes", f"difference in {by_query}", "question"), rows)
        return
    output.table(
        ("metric", "modes", "A", "B", "B - A", "low", "high", "p", "p (Holm)", "+", "-"),
        [
            (
                each.metric,
                each.mode_a if each.mode_a == each.mode_b else f"{each.mode_a}:{each.mode_b}",
                f"{each.mean_a:.4f}",
                f"{each.mean_b:.4f}",
                f"{each.estimate.mean:+.4f}",
                f"{each.estimate.low:+.4f}",
                f"{each.estimate.high:+.4f}",
                f"{each.p:.4f}",
                f"{each.p_holm:.4f}",
                each.better,
                each.worse,
            )
            for each in found.differences
        ],
    )


def tell_json(session: Session, file: Path | None, value: Mapping[str, object]) -> bool:
    """Write the JSON into ``file``, and on stdout with ``--json``; whether stdout is taken."""
    if file is not None:
        write_page(file, json.dumps(value, ensure_ascii=False, indent=1) + "\n")
    if session.output.as_json:
        session.output.show(value)
    return session.output.as_json


def tell_warnings(session: Session, found: Evaluation) -> None:
    """Warn of what is to be known of an evaluation, and of each mode in it."""
    session.output.warn(*found.warnings)
    for mode, result in found.modes.items():
        for warning in result.warnings:
            session.output.warn(f"{mode}: {warning}")


def read_questions(session: Session, golden: Path, *places: Path | None) -> Collection:
    """The golden questions of a file, once the ``places`` can be written."""
    from triptych_evaluation import read_golden

    check_places(*places)
    collection = read_golden(golden)
    count = sum(not query.reviewed for query in collection.queries)
    if count:
        session.output.warn(
            f"{count} of {len(collection.queries)} questions are not reviewed: look at each, "
            "correct it, and remove 'reviewed: false'"
        )
    return collection


def write_runs(folder: Path, found: Evaluation, collection: Collection) -> None:
    from triptych_evaluation import write_qrels, write_run

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for mode, result in found.modes.items():
            write_run(folder / f"{mode}.run", result.rankings, tag=f"triptych-{mode}")
        write_qrels(
            folder / "qrels.txt", {query.query_id: query.grades for query in collection.queries}
        )
    except OSError as error:
        raise ValidationError(f"{str(folder)!r} cannot be written: {error.strerror}") from error


def write_page(path: Path, text: str) -> None:
    from triptych.resources.files import write_bytes

    try:
        write_bytes(path, text.encode("utf-8"))
    except OSError as error:
        raise ValidationError(f"{str(path)!r} cannot be written: {error.strerror}") from error
