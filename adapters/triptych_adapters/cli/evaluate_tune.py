"""``triptych eval tune``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from triptych.errors import NotFoundError, ValidationError
from triptych_adapters.cli.command import command
from triptych_adapters.cli.evaluate_options import Dataset, Golden, Output, warn_unreviewed
from triptych_adapters.cli.options import option
from triptych_adapters.cli.session import Session

if TYPE_CHECKING:
    from triptych.evaluation.tuning import Tuning

_SHOWN = 10


@command(
    "triptych eval tune golden.yaml --grid ranker=z-score,rrf --grid weights.vector=1,2",
    "triptych eval tune golden.yaml --grid grid.toml --pipeline support",
)
def tune(
    session: Session,
    golden: Golden,
    grid: Annotated[
        list[str],
        option(
            "--grid KEY=VALUE,VALUE|FILE",
            "What to try: mode, ranker, depth, weights.LANE, keyword_boost, top_k and other "
            "options of a search; or a TOML file with a list for each key. Several are combined.",
        ),
    ],
    dataset: Dataset = None,
    pipeline: Annotated[
        str | None, option("--pipeline NAME", "A pipeline of triptych.toml to begin from.")
    ] = None,
    metric: Annotated[str, option("--metric", "What to make as high as possible.")] = ("ndcg@10"),
    written: Output = None,
) -> None:
    """Search a grid of options on half of the questions, and test the best on the other half.

    Each question's half is decided by a digest of its text. The best is compared with the default
    by a paired test, and where that shows no gain, this says so. Nothing is changed.
    """
    from triptych.evaluation import evaluation_json, read_golden
    from triptych.evaluation.pipelines import service_pipeline
    from triptych.evaluation.tuning import grid_of, tune as search_grid
    from triptych_adapters.cli.evaluate_output import check_places, tell_json
    from triptych_adapters.cli.names import dataset_in_use
    from triptych_adapters.cli.progress import shown

    check_places(written)
    values = _values(grid)
    grid_of(values)
    collection = read_golden(golden)
    warn_unreviewed(session, collection)
    settings = None if pipeline is None else session.settings()
    with session.service(settings=settings, pipeline=pipeline) as service:
        whole = service_pipeline(service) if pipeline is None else service.pipelines[pipeline]
        if dataset is None and len(whole.datasets) == 1:
            dataset = whole.datasets[0]
        target = dataset_in_use(service, dataset)
        with shown(session.output, "default", total=len(collection.queries)) as progress:
            found = search_grid(
                service,
                collection,
                values,
                dataset_id=target,
                pipeline=whole,
                metric=metric,
                progress=progress,
            )
    for warning in found.warnings:
        session.output.warn(warning)
    answer: dict[str, object] = {
        "format": "triptych-tuning/1",
        "metric": found.metric,
        "tuned_on": found.tuned_on,
        "choices": [
            {"choice": dict(choice), "mean": mean}
            for choice, mean in zip(found.choices, found.tuned, strict=True)
        ],
        "best": dict(found.best),
        "gained": found.gained,
        "summary": found.summary,
        "held_out": evaluation_json(found.held_out),
    }
    if found.difference is not None:
        difference = found.difference
        answer["difference"] = {
            "mean": difference.estimate.mean,
            "low": difference.estimate.low,
            "high": difference.estimate.high,
            "p": difference.p,
        }
    if not tell_json(session, written, answer):
        _show(session, found)
    session.output.note(found.summary)


def _show(session: Session, found: Tuning) -> None:
    ranked = sorted(zip(found.tuned, range(len(found.choices)), strict=True), key=lambda e: -e[0])
    rows = [("tuned", _words(found.choices[at]), f"{mean:.4f}") for mean, at in ranked[:_SHOWN]]
    for name, result in found.held_out.modes.items():
        choice = found.best if name == "best" else {}
        mean = result.estimates[found.metric].mean
        rows.append(("held out", _words(choice), f"{mean:.4f}"))
    session.output.table(("questions", "choice", found.metric), rows)


def _words(choice: Any) -> str:
    return " ".join(f"{key}={value}" for key, value in choice.items()) or "default"


def _values(given: list[str]) -> dict[str, list[Any]]:
    """The grid that ``--grid`` options describe."""
    import tomllib

    from triptych._internal.regular_files import read_regular

    grid: dict[str, list[Any]] = {}
    for each in given:
        key, equals, values = each.partition("=")
        if equals:
            found: dict[str, Any] = {
                key.strip(): [_value(one) for one in values.split(",") if one.strip()]
            }
        else:
            try:
                found = tomllib.loads(read_regular(each).decode("utf-8"))
            except OSError as error:
                raise NotFoundError(f"{each!r} cannot be read: {error.strerror}") from error
            except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
                raise ValidationError(f"{each!r} is not TOML: {error}") from error
            weights = found.pop("weights", {})
            if isinstance(weights, dict):
                found |= {f"weights.{lane}": values for lane, values in weights.items()}
        for name, several in found.items():
            if not isinstance(several, list) or name in grid:
                raise ValidationError(f"--grid {name}: give a list of values for it, once")
            grid[name] = several
    return grid


def _value(text: str) -> Any:
    text = text.strip()
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False, "none": None}.get(text, text)
