"""``triptych admin create`` and ``fetch``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from triptych_adapters.cli.command import command
from triptych_adapters.cli.options import argument, option
from triptych_adapters.cli.session import Session


@command("triptych admin create docs", "triptych admin create docs --language german")
def create(
    session: Session,
    dataset: Annotated[str, argument("DATASET", "The dataset.")],
    language: Annotated[str | None, option("--language", "The language it is analysed in.")] = None,
) -> None:
    """Create an empty dataset.

    A put creates the dataset it needs by itself. A dataset that exists is left as it is.
    """
    created = session.perform("create_dataset", dataset_id=dataset, language=language)
    already = f"there is a dataset {dataset!r} already"
    session.output.show(
        {"dataset_id": dataset, "created": created},
        note=f"created dataset {dataset!r}" if created else already,
    )


class What(StrEnum):
    """What can be fetched."""

    TOKENS = "tokens"


@command("triptych admin fetch tokens")
def fetch(
    session: Session,
    what: Annotated[What, argument("", "tokens: tiktoken's vocabulary.")],
) -> None:
    """Download once what is used offline afterwards.

    Budgets of tokens are counted by tiktoken's vocabulary where the extra tokens is installed
    and the vocabulary is on this machine, else by an estimate. No other command downloads it.
    """
    from triptych.text.tokens import fetch_vocabulary

    path = str(fetch_vocabulary())
    session.output.show({"fetched": str(what), "path": path}, lines=[f"{what}: {path}"])
