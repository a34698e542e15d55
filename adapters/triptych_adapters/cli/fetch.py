"""``triptych fetch``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from triptych_adapters.cli.command import command
from triptych_adapters.cli.options import argument
from triptych_adapters.cli.session import Session


class What(StrEnum):
    """What can be fetched."""

    TOKENS = "tokens"


@command("triptych fetch tokens")
def fetch(
    session: Session,
    what: Annotated[What, argument("", "tokens: tiktoken's vocabulary.")],
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
