"""``triptych eval log``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from triptych_adapters.cli.command import command
from triptych_adapters.cli.options import option
from triptych_adapters.cli.session import Session


@command(
    "triptych eval log",
    "triptych eval log --golden unanswered.yaml",
    "triptych eval log --clear",
)
def log(
    session: Session,
    dataset: Annotated[
        str | None, option("--dataset -d", "Questions asked of this dataset only.")
    ] = None,
    golden: Annotated[
        Path | None,
        option("--golden FILE", "Write the questions here as golden questions to fill in."),
    ] = None,
    clear: Annotated[bool, option("--clear", "Forget the questions.")] = False,
) -> None:
    """List the questions that were not answered, the newest first.

    They are kept where the setting question_log is true, 200 at most: those without hits, and
    those that a calibration judges "weak" or "nothing".
    """
    from triptych.evaluation.golden_writing import logged_yaml
    from triptych.records.serialization import to_dict
    from triptych_adapters.cli.evaluate_output import check_places, write_page

    check_places(golden)
    with session.service() as service:
        questions = service.question_log.questions(dataset)
        keeps = service.options.question_log
        if golden is not None:
            write_page(golden, logged_yaml(questions))
        if clear:
            service.question_log.erase(dataset)
    if session.output.as_json:
        session.output.emit({"questions": [to_dict(each) for each in questions]})
    elif golden is None and not clear:
        session.output.table(
            ("asked", "times", "verdict", "datasets", "question", "found"),
            [
                (
                    f"{each.asked_at:%Y-%m-%d %H:%M}",
                    str(each.times),
                    each.answerability,
                    ", ".join(each.dataset_ids),
                    " ".join(each.text.split()),
                    ", ".join(each.found),
                )
                for each in questions
            ],
        )
    if not questions:
        session.output.note("no questions are logged")
    if not keeps:
        session.output.note("questions are not kept: set question_log = true to keep them")
