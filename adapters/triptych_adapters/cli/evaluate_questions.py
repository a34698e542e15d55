"""``triptych eval questions`` and ``log``: where golden questions come from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from triptych.errors import NotAvailableError, ValidationError
from triptych_adapters.cli.command import command
from triptych_adapters.cli.evaluation import check_places, write_page
from triptych_adapters.cli.options import argument, option
from triptych_adapters.cli.session import Session


@command(
    "triptych eval questions manual --llm ollama:qwen3 --output golden.yaml",
    "triptych eval questions manual --llm openai:gpt-4o-mini --count 100 -o golden.yaml",
)
def questions(
    session: Session,
    dataset: Annotated[str, argument("DATASET", "The dataset to ask about.")],
    written: Annotated[Path, option("--output -o FILE", "Write the golden set here, in YAML.")],
    llm: Annotated[
        str | None,
        option("--llm PROVIDER:MODEL", "The model that proposes. By default the setting llm."),
    ] = None,
    count: Annotated[int, option("--count -n", "How many questions with an answer.", min=0)] = 50,
    unanswerable: Annotated[
        int, option("--unanswerable", "How many questions without one.", min=0)
    ] = 10,
    force: Annotated[bool, option("--force", "Write over a file that is there.")] = False,
) -> None:
    """Have a language model propose golden questions, for you to review.

    Each question names its document and the sentence that answers it. What the model did not copy
    from the document word for word is thrown away and counted. Look at each question, correct it,
    and remove "reviewed: false": until then the eval commands warn.
    """
    from triptych.evaluation.golden_writing import golden_yaml
    from triptych.evaluation.questions import propose_questions

    check_places(written)
    if written.exists() and not force:
        raise ValidationError(f"{str(written)!r} is there already: --force writes over it")
    with session.service(settings=session.settings(llm=llm), dataset=dataset) as service:
        if service.llm is None:
            raise NotAvailableError(
                "there is no language model: give --llm PROVIDER:MODEL, or set llm"
            )
        total = count + unanswerable
        with session.output.progress("questions", total=total) as progress:
            found = propose_questions(
                service,
                dataset,
                service.llm,
                count=count,
                unanswerable=unanswerable,
                progress=progress,
            )
        model = service.llm.signature
    for failure in found.failures[:3]:
        session.output.warn(failure)
    if len(found.failures) > 3:
        session.output.warn(f"{len(found.failures) - 3} more calls brought nothing")
    if found.queries:
        write_page(
            written,
            golden_yaml(
                found.queries,
                name=dataset,
                comments=[
                    f"Proposed by {model} from the dataset {dataset}. Look at each question, and",
                    "correct it. For answerable: false, check that no document answers it. Then",
                    "remove 'reviewed: false'.",
                ],
            ),
        )
    proposed = sum(not query.unanswerable for query in found.queries)
    for reason, number in found.dropped.items():
        session.output.warn(f"{number} questions were thrown away: {reason}")
    session.output.show(
        {
            "file": str(written) if found.queries else None,
            "questions": proposed,
            "unanswerable": len(found.queries) - proposed,
            "dropped": dict(found.dropped),
            "failures": list(found.failures),
            "calls": found.calls,
            "input_tokens": found.usage.input_tokens,
            "output_tokens": found.usage.output_tokens,
        },
        note=f"{proposed} questions with an answer and {len(found.queries) - proposed} without are "
        f"in {written}: review each"
        if found.queries
        else "no question can be used: nothing was written",
    )


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

    check_places(golden)
    with session.service() as service:
        questions = service.question_log.questions(dataset)
        keeps = service.options.question_log
        if golden is not None:
            write_page(golden, logged_yaml(questions))
        if clear:
            service.question_log.erase(dataset)
    rows = (
        (
            f"{each.asked_at:%Y-%m-%d %H:%M}",
            str(each.times),
            each.answerability,
            ", ".join(each.dataset_ids),
            " ".join(each.text.split()),
            ", ".join(each.found),
        )
        for each in questions
    )
    head = ("asked", "times", "verdict", "datasets", "question", "found")
    session.output.show(
        {"questions": [to_dict(each) for each in questions]},
        table=(head, rows) if golden is None and not clear else None,
        note="" if questions else "no questions are logged",
    )
    if not keeps:
        session.output.note("questions are not kept: set question_log = true to keep them")
