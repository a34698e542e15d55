"""``triptych fetch``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from triptych_adapters.cli.session import Session, command, examples


class What(StrEnum):
    """What can be fetched."""

    TOKENS = "tokens"


def register(app: typer.Typer) -> None:
    """Add ``fetch``."""
    command(app, "fetch", epilog=examples("triptych fetch tokens"))(fetch)


def fetch(
    session: Session,
    what: Annotated[
        What, typer.Argument(help="tokens: tiktoken's vocabulary.", show_default=False)
    ],
) -> None:
    """Download once what is used offline afterwards.

    Budgets of tokens are counted by tiktoken's vocabulary where the extra tokens is installed
    and the vocabulary is on this machine, else by an estimate. No other command downloads it.
    """
    from triptych.text.vocabulary import fetch_vocabulary

    path = fetch_vocabulary()
    if session.output.as_json:
        session.output.emit({"fetched": str(what), "path": str(path)})
    else:
        session.output.say(f"{what}: {path}")
