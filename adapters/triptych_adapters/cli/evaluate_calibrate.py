"""``triptych eval calibrate``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from triptych_adapters.cli.command import command
from triptych_adapters.cli.evaluation import Dataset, Golden, Output, read_questions, tell_json
from triptych_adapters.cli.names import dataset_in_use
from triptych_adapters.cli.options import option
from triptych_adapters.cli.session import Session

if TYPE_CHECKING:
    from triptych.evaluation import CalibrationReport


@command(
    "triptych eval calibrate golden.yaml",
    "triptych eval calibrate golden.yaml --dataset manual --save",
)
def calibrate(
    session: Session,
    golden: Golden,
    dataset: Dataset = None,
    top_k: Annotated[int, option("--top-k -n", "How many hits are looked at.", min=1)] = 10,
    save: Annotated[
        bool, option("--save", "Keep it in the store: searches of the dataset use it then.")
    ] = False,
    written: Output = None,
) -> None:
    """Learn from golden questions when a result answers, and when nothing does.

    The golden set needs 10 questions with an answer, and 10 that say answerable: false. With
    --save each search of the dataset says "enough", "weak" or "nothing". The numbers are those of
    questions that the model was not fitted on.
    """
    from triptych.evaluation import calibrate as fit
    from triptych.records.serialization import to_dict
    from triptych.search.answerability import save_calibration

    collection = read_questions(session, golden, written)
    total = len(collection.queries)
    with session.service() as service:
        target = dataset_in_use(service, dataset)
        with session.output.progress("questions", total=total) as progress:
            found = fit(service, collection, dataset_id=target, top_k=top_k, progress=progress)
        if save:
            save_calibration(service.capabilities.settings, target, found.calibration)
    for warning in found.warnings:
        session.output.warn(warning)
    answer = {
        "format": "triptych-calibration/1",
        "dataset_id": target,
        "saved": save,
        "missed": found.missed,
        "warnings": list(found.warnings),
        "calibration": to_dict(found.calibration),
    }
    if not tell_json(session, written, answer):
        _show(session, found)
    if not save:
        session.output.note("nothing was kept: --save keeps the calibration in the store")


def _show(session: Session, found: CalibrationReport) -> None:
    made = found.calibration
    rows = [
        (
            lanes,
            *(f"{each:.3f}" for each in (m.held_out.auc, m.held_out.precision, m.held_out.recall)),
            *(f"{each:.3f}" for each in (m.held_out.f1, m.held_out.nothing_precision)),
            *(f"{each:.3f}" for each in (m.held_out.nothing_recall, m.held_out.refused)),
            " ".join(f"{name} {weight:.3g}" for name, weight in m.weights.items()),
        )
        for lanes, m in made.models.items()
    ]
    session.output.table(
        (
            *("lanes", "AUC", "precision", "recall", "F1"),
            *("nothing: precision", "nothing: recall", "refused", "weights"),
        ),
        rows,
        title=f"{made.answered} questions answered, {made.unanswered} not",
    )
