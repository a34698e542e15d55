"""``triptych eval``: its commands, each in a module of its own."""

from __future__ import annotations

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
from triptych_adapters.cli.session import new_app, new_group

app = new_app()
EVAL = new_group(app, "eval", "Measure how well documents are found.")

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
    EVAL.add_typer(each.app)
