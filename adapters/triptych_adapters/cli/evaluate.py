"""``triptych eval``: its commands, each in a module of its own."""

from __future__ import annotations

import typer

from triptych_adapters.cli import (
    evaluate_ablate,
    evaluate_calibrate,
    evaluate_compare,
    evaluate_log,
    evaluate_questions,
    evaluate_rag,
    evaluate_retrieval,
    evaluate_tune,
)
from triptych_adapters.cli.plain_help import PlainGroup

__all__ = ["register"]

EVAL = typer.Typer(cls=PlainGroup, no_args_is_help=True, rich_markup_mode="rich")


def register(app: typer.Typer) -> None:
    """Add ``eval`` with its commands."""
    for each in (
        evaluate_retrieval,
        evaluate_compare,
        evaluate_rag,
        evaluate_ablate,
        evaluate_tune,
        evaluate_calibrate,
        evaluate_questions,
        evaluate_log,
    ):
        each.register(EVAL)
    app.add_typer(EVAL, name="eval", help="Measure how well documents are found.")
