"""Questions to a model: an answer, the passages it cites, and what its context held."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from markupsafe import Markup

from triptych.answers import Answer
from triptych.errors import TriptychError
from triptych.records.serialization import to_json
from triptych_adapters.console.searching import Bench
from triptych_adapters.console.site import Made
from triptych_adapters.console.visit import Visit

_CITED: Final = re.compile(r"\[(\d{1,4})\]")
_BUDGET: Final = 2_000


def ask(visit: Visit) -> Made:
    """The page of questions; with one, its answer."""
    service = visit.service
    known = list(service.list_datasets())
    asked = Bench.of(visit, known)
    made: dict[str, Any] = {
        "asked": asked,
        "datasets": known,
        "has_model": service.llm is not None,
        "budget": visit.number("budget", _BUDGET, least=100, most=1_000_000),
        "answer": None,
        "verified": {},
        "failed": None,
    }
    if not asked.text or service.llm is None:
        return made
    options = {name: value for name, value in asked.options.items() if name != "top_k"}
    options.pop("offset", None)
    try:
        answer = service.ask(asked.text, token_budget=made["budget"], **asked.places, **options)
        made["verified"] = {each.number: service.verify(each.citation) for each in answer.citations}
    except TriptychError as error:
        made["failed"] = error
        return made
    made["answer"] = answer
    made["text"] = linked(answer)
    made["receipt"] = json.dumps(to_json(answer.receipt), ensure_ascii=False, indent=1)
    return made


def linked(answer: Answer) -> Markup:
    """The answer's text, its citations as links to the list below, bare sentences marked."""
    parts = []
    for sentence in answer.sentences:
        text = Markup.escape(sentence.text)
        text = Markup(_CITED.sub(r'<a class="cite" href="#source-\1">[\1]</a>', str(text)))
        parts.append(text if sentence.numbers else Markup('<span class="uncited">%s</span>') % text)
    return Markup(" ").join(parts) if parts else Markup.escape(answer.text)
