"""What a ranking alone does not show: expected keywords in the hits, and abstention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from triptych import deadlines
from triptych.errors import NotAvailableError, ValidationError
from triptych.evaluation.collections import JudgedQuery
from triptych.evaluation.significance import Estimate, bootstrap
from triptych.records import Hit, Query

if TYPE_CHECKING:
    from triptych.service import Service

TOP_K = 10
CHECKS = ("keywords@1", f"keywords@{TOP_K}", "abstention_precision", "abstention_recall")
"""The names of what `check_answers` gives, where the questions have something to check."""


def keyword_coverage(keywords: Sequence[str], hits: Sequence[Hit]) -> float:
    """The share of the keywords that the hits' texts hold, taken together.

    Case does not count, and white space counts as one space. A window counts as text of its hit.
    """
    text = "\n".join(_folded(hit.window or hit.content) for hit in hits)
    return sum(_folded(keyword) in text for keyword in keywords) / len(keywords)


def check_answers(
    service: Service, queries: Sequence[JudgedQuery], *, dataset_id: str, mode: str
) -> Mapping[str, Estimate]:
    """Search each question's chunks, and check what was found; nothing where none is to check.

    ``keywords@1`` and ``keywords@10``: `keyword_coverage` of the first hit and of ten, over the
    questions with keywords. ``abstention_precision``: of the results that are "nothing", the share
    whose question has no answer; ``abstention_recall``: of the questions without an answer, the
    share whose result is "nothing" (`Result.answerability`). Without a calibration only a result
    without hits is that.
    """
    negative = any(query.unanswerable for query in queries)
    asked = [query for query in queries if query.keywords or negative]
    values: dict[str, list[float]] = {name: [] for name in CHECKS}
    for query in asked:
        deadlines.check("the evaluation")
        question = Query(text=query.text, dataset_id=dataset_id, mode=mode, top_k=TOP_K)
        try:
            result = service.search(question)
        except (NotAvailableError, ValidationError):
            continue  # a query that the mode cannot serve is counted with the ranking
        if query.keywords:
            values["keywords@1"].append(keyword_coverage(query.keywords, result.hits[:1]))
            values[f"keywords@{TOP_K}"].append(keyword_coverage(query.keywords, result.hits))
        if negative and result.answerability == "nothing":
            values["abstention_precision"].append(float(query.unanswerable))
        if query.unanswerable:
            values["abstention_recall"].append(float(result.answerability == "nothing"))
    return {name: bootstrap({name: row})[name] for name, row in values.items() if row}


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
