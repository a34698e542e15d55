"""Options and arguments that the commands of ``triptych eval`` share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from triptych.errors import ValidationError
from triptych_adapters.cli.options import argument, option
from triptych_adapters.cli.session import Session

if TYPE_CHECKING:
    from triptych.evaluation import Collection

__all__ = ["Dataset", "Golden", "Html", "Metrics", "Output", "names", "numbers", "warn_unreviewed"]

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


def names(text: str) -> list[str]:
    """The parts of a text with commas."""
    return [each.strip() for each in text.split(",") if each.strip()]


def numbers(text: str, option: str) -> list[int]:
    """The whole numbers in a text with commas.

    Raises:
        ValidationError: one is not a whole number; it names ``option``.
    """

    try:
        return [int(each) for each in names(text)]
    except ValueError:
        raise ValidationError(
            f"{option} {text!r} is not whole numbers separated by commas"
        ) from None


def warn_unreviewed(session: Session, collection: Collection) -> None:
    """Warn of questions that a model proposed and no person has looked at."""
    count = sum(not query.reviewed for query in collection.queries)
    if count:
        session.output.warn(
            f"{count} of {len(collection.queries)} questions are not reviewed: look at each, "
            "correct it, and remove 'reviewed: false'"
        )
