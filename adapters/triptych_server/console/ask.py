"""Questions to a model: an answer, the passages it cites, and what its context held."""

from __future__ import annotations

import json
import re
from contextlib import aclosing
from typing import Any, Final
from urllib.parse import urlencode

import attrs
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from triptych.answers import Answer, AnswerSentence, AnswerStream, Fate, render_piece
from triptych.errors import StoreError, TriptychError
from triptych.records import Message
from triptych.records.serialization import to_json
from triptych_server.console.search import Bench, bench
from triptych_server.console.site import html, render
from triptych_server.console.visit import Visit, visit_of
from triptych_server.http.responses import note_failure, problem_of
from triptych_server.http.server import Caller, Server
from triptych_server.http.streams import COMMENT, Parts, StreamedResponse, event, pieces_of

_CITED: Final = re.compile(r"\[(\d{1,4})\]")
_STRONG: Final = re.compile(r"\*\*([^*<>]+)\*\*")
_BUDGET: Final = 2_000
_LEFT_OUT: Final = 50
"""Passages that were found and left out, of which a row is shown; of more, a sentence says so."""
_FATES: Final[dict[Fate, str]] = {
    "repeated": "another piece says it",
    "budget": "no room in the budget",
    "limit": "more than the most pieces",
    "threshold": "below the threshold",
    "gone": "replaced while it was read",
    "skipped": "not considered: no room, or its document is there",
}


def ask(visit: Visit) -> dict[str, Any]:
    """The page of a search whose first button asks; with a question, the answer above the hits."""
    made = bench(visit, asks=True)
    if visit.is_part or not made["asked"].text or not made["has_model"]:
        return made
    try:
        answer = visit.service.ask(made["asked"].text, **_options(visit, made["asked"]))
        return {**made, **_shown(visit, answer)}
    except StoreError:
        raise
    except TriptychError as error:
        note_failure(visit.request.scope, error)
        return {**made, "unanswered": visit.message_of(error)}


def follow(visit: Visit) -> Response:
    """The page of `ask` for a question that follows an answer; the form has what was said."""
    return html(render("ask", visit, **ask(visit)))


def _budget(visit: Visit) -> int:
    return visit.number("budget", _BUDGET, least=100, most=1_000_000)


def _options(visit: Visit, asked: Bench) -> dict[str, Any]:
    """What `Service.ask` is given beside the question."""
    # A quote or a minus in a question is no operator, unless the URL says so.
    left_out = {"top_k", "offset"} if visit.one("syntax") else {"top_k", "offset", "syntax"}
    options = {name: each for name, each in asked.options.items() if name not in left_out}
    turns = [
        Message(role="user" if name == "asked" else "assistant", content=said.replace("\r\n", "\n"))
        for name, said in visit.form
        if name in ("asked", "answered")
    ]
    return {**asked.places, **options, "token_budget": _budget(visit), "conversation": turns}


def _shown(visit: Visit, answer: Answer) -> dict[str, Any]:
    """What the page shows of an answer; its citations are verified."""
    pack, receipt = answer.pack, answer.receipt
    left_out = [each for each in receipt.context.considered if each.number is None]
    return {
        "answer": answer,
        "asked_in": urlencode(visit.kept("q")),
        "text": linked(answer),
        "verified": {each.number: visit.service.verify(each.citation) for each in answer.citations},
        "held": [
            (piece, pack.count(render_piece(piece, pack.format, pack.mark)))
            for piece in pack.pieces
        ],
        "left_out": left_out[:_LEFT_OUT],
        "more": max(len(left_out) - _LEFT_OUT, 0),
        "fates": _FATES,
        "receipt": json.dumps(to_json(receipt), ensure_ascii=False, indent=1),
        "unanswered": None,
    }


def linked(answer: Answer) -> Markup:
    """The answer's text, its citations as links to the list below, bare sentences marked."""
    parts, at = [], 0
    for sentence in answer.sentences:
        text = _marked(answer, sentence)
        text = Markup(_CITED.sub(r'<a class="cite" href="#source-\1">[\1]</a>', text))
        parts.append(Markup.escape(answer.text[at : sentence.start]))
        parts.append(text if sentence.numbers else Markup('<span class="uncited">%s</span>') % text)
        at = sentence.end
    shown = Markup("").join([*parts, Markup.escape(answer.text[at:])])
    return Markup(_STRONG.sub(r"<strong>\1</strong>", str(shown)))  # a Markup would escape the tag


def _marked(answer: Answer, sentence: AnswerSentence) -> str:
    """A sentence as HTML; the claims that it does not prove are marked."""
    parts, at = [], sentence.start
    for claim in answer.proof:
        first, last = max(claim.start, at), min(claim.end, sentence.end)
        if claim.status != "supported" and first < last:
            mark = Markup('<mark class="unproven" title="%s: %s">%s</mark>')
            said = answer.text[first:last]
            parts += [Markup.escape(answer.text[at:first]), mark % (claim.kind, claim.status, said)]
            at = last
    return "".join([*parts, Markup.escape(answer.text[at : sentence.end])])


async def stream(server: Server, request: Request) -> Response:
    """The answer as the model writes it, then the part of the page that shows it whole."""
    visit = await visit_of(server, request, by_link=False)
    service = visit.service

    def begin() -> AnswerStream:
        asked = Bench.of(visit)
        return service.ask_stream(asked.text, **_options(visit, asked))

    async def parts(caller: Caller, answering: AnswerStream) -> Parts:
        yield COMMENT  # what fails after it is shown as `failed` words it
        async with aclosing(pieces_of(caller, answering)) as pieces:
            async for piece in pieces:
                yield event("text", {"text": piece}) if piece else COMMENT

        def whole() -> bytes:
            return render("answer", visit, **_shown(visit, answering.answer))

        yield event("answer", {"html": (await caller.run(whole)).decode()})

    def failed(error: BaseException) -> bytes:
        problem = attrs.evolve(problem_of(error), message=visit.message_of(error))
        return event("error", problem.json())

    return await StreamedResponse.start(
        server, request, begin, parts, failed=failed, pieces=True, close=AnswerStream.close
    )
