"""A receipt made again: what a model was shown, and what has changed since."""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import Response

from triptych.answers import AnswerReceipt
from triptych.errors import ValidationError
from triptych.text import diff_lines
from triptych_adapters.wire import OPERATIONS, read_object
from triptych_server.console.site import Made, html, render
from triptych_server.console.visit import Visit

_LONGEST: Final = 1_000
_VERIFIED: Final = 100
"""Pieces that are compared with their documents as they are now; of more, a sentence says so."""


def form(visit: Visit) -> Made:
    """The form that takes a receipt."""
    return {"receipt": "", "answer": "", "failed": None, "replay": None}


def replayed(visit: Visit) -> Response:
    """What is left of the context of a receipt; what is no receipt is said above the form."""
    form = {name: each.replace("\r\n", "\n") for name, each in visit.form}
    text, answer = form.get("receipt", ""), form.get("answer", "")
    made: dict[str, Any] = {"receipt": text, "answer": answer, "failed": None, "replay": None}
    try:
        if not text.strip():
            raise ValidationError("Paste a receipt: the page Ask shows one below each answer")
        given = read_object("a receipt", text)
        receipt = OPERATIONS["replay"].read({"receipt": given})["receipt"]
        replay = visit.service.replay(receipt, answer=answer or None)
    except ValidationError as error:
        why = str(error)[:_LONGEST]  # it may quote the whole receipt
        return html(render("replay", visit, **made | {"failed": why}), 400)
    found = [visit.service.verify(each.citation) for each in replay.pieces[:_VERIFIED]]
    model = visit.service.llm
    return html(
        render(
            "replay",
            visit,
            **made
            | {
                "replay": replay,
                "question": receipt.question
                if isinstance(receipt, AnswerReceipt)
                else receipt.query.text,
                "asked": receipt.model if isinstance(receipt, AnswerReceipt) else "",
                "model": "" if model is None else model.signature,
                "verified": [(each, list(diff_lines(each.diff))) for each in found],
                "more": len(replay.pieces) - len(found),
            },
        )
    )
