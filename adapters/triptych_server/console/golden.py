"""Golden questions: hits judged right or wrong, kept, and two settings compared on them.

They are kept in the store's settings, where no search finds them, as ``triptych eval`` reads them.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypedDict
from urllib.parse import quote, urlencode

from starlette.responses import Response

from triptych.errors import AccessDeniedError, ConflictError, NotFoundError, ValidationError
from triptych.search import GOLDEN_SETTINGS
from triptych.service import KnowledgeBase
from triptych_evaluation import (
    Collection,
    JudgedQuery,
    compare as compare_evaluations,
    evaluate,
)
from triptych_server.console.site import HEADERS, Made, see_other
from triptych_server.console.visit import Visit, own_path

_TRIES: Final = 20
_RIGHT: Final = 2
_LONGEST: Final = 2_000
_VERDICTS: Final = ("right", "wrong", "none", "keep", "drop")
_METRIC: Final = "ndcg@10"
_CHANCE: Final = 0.05
"""A p above it is taken for chance."""
_MOST: Final = 200
_KEPT: Final = 1_000
_LOOKED_AT: Final = 20
"""Datasets whose judgements a search shows."""


class Question(TypedDict):
    """A question as it is kept, with the grade of each judged document."""

    id: str
    question: str
    relevance: dict[str, int]


def read(visit: Visit, dataset_id: str) -> list[Question]:
    """The questions that are kept on a dataset; none for whom a part of it is hidden."""
    settings = visit.service.capabilities.settings
    if settings is None:
        return []
    return _questions(settings.get_setting(GOLDEN_SETTINGS + dataset_id))


def _questions(text: str | None) -> list[Question]:
    return [] if text is None else list(json.loads(text)["queries"])


def change(visit: Visit, dataset_id: str, edit: Callable[[list[Question]], list[Question]]) -> None:
    """Keep other questions; what somebody else keeps meanwhile is not lost.

    Raises:
        AccessDeniedError: a part of the dataset is hidden from the visitor.
        ConflictError: others changed them again and again.
    """
    settings = visit.service.capabilities.settings
    if settings is None:
        raise AccessDeniedError(
            "golden questions are kept by keys that see the whole dataset, in stores that have "
            "settings"
        )
    for _ in range(_TRIES):
        before = settings.get_setting(GOLDEN_SETTINGS + dataset_id)
        text = json.dumps({"queries": edit(_questions(before))[-_KEPT:]}, ensure_ascii=False)
        if settings.set_setting(GOLDEN_SETTINGS + dataset_id, text, expected=before):
            return
    raise ConflictError("others judge at the same moment: try again")


def judge(visit: Visit) -> Made:
    """Mark one document right or wrong for a question, or take the mark or the question away."""
    question, name, dataset_id = (visit.one(each) for each in ("q", "name", "dataset"))
    verdict = visit.one_of("verdict", _VERDICTS)
    if not question or len(question) > _LONGEST or "\0" in question:
        raise ValidationError(f"a question has 1 to {_LONGEST:,} characters, and no NUL")
    visit.service.stats(dataset_id)  # which raises where there is none
    if verdict in ("right", "wrong"):
        visit.service.history(dataset_id, name)
    number = hashlib.sha256(question.encode()).hexdigest()[:12]

    def edit(questions: list[Question]) -> list[Question]:
        others = [each for each in questions if each["id"] != number]
        if verdict == "drop":
            return others
        first = Question(id=number, question=question, relevance={})
        kept = next((each for each in questions if each["id"] == number), first)
        grades = {key: grade for key, grade in kept["relevance"].items() if key != name}
        if verdict in ("right", "wrong"):
            grades[name] = _RIGHT if verdict == "right" else 0
        return [*others, {**kept, "relevance": grades}]

    change(visit, dataset_id, edit)
    back = own_path(visit.one("back"), f"/console/golden?dataset={quote(dataset_id)}")
    return see_other(visit.request, back)


def grades_of(visit: Visit, dataset_ids: Sequence[str], text: str) -> dict[str, int] | None:
    """The judgements on a question, by document; None where it is not kept."""
    found = None
    for dataset_id in dataset_ids[:_LOOKED_AT]:
        for each in read(visit, dataset_id):
            if each["question"] == text:
                found = (found or {}) | each["relevance"]
    return found


def golden(visit: Visit) -> Made:
    """The kept questions of a dataset; two settings compared on them; or the file itself."""
    service = visit.service
    known = list(service.list_datasets())
    dataset_id = visit.one("dataset")
    if not dataset_id:
        some = (each for each in known[:_LOOKED_AT] if read(visit, each))
        dataset_id = next(some, known[0] if known else "")
    elif dataset_id not in known:
        raise NotFoundError(f"there is no dataset {dataset_id!r:.100}")
    questions = read(visit, dataset_id) if dataset_id else []
    judged = [each for each in questions if any(each["relevance"].values())]
    if visit.one("download"):
        text = json.dumps({"queries": judged}, ensure_ascii=False, indent=1) + "\n"
        saved = {"Content-Disposition": 'attachment; filename="golden.json"'}
        return Response(text, headers=HEADERS | saved, media_type="application/json")
    compared = None
    if (left := visit.one("a")) and (right := visit.one("b")):
        compared = compare(service, dataset_id, judged[:_MOST], left, right)
    return {
        "datasets": known,
        "dataset_id": dataset_id,
        "questions": questions,
        "unjudged": len(questions) - len(judged),
        "left_out": max(len(judged) - _MOST, 0),
        "compared": compared,
        "modes": ["hybrid", *service.lanes],
        "pipelines": sorted(service.pipelines),
    }


def compare(
    service: KnowledgeBase, dataset_id: str, questions: Sequence[Question], left: str, right: str
) -> Mapping[str, Any]:
    """nDCG@10 of two settings, ``mode=…`` or ``pipeline=…``, on judged questions, and their
    difference, as ``triptych eval`` measures and compares them."""
    if not questions:
        raise ValidationError("no question has a right document yet: mark some hits as right")
    judged = [
        JudgedQuery(query_id=each["id"], text=each["question"], grades=each["relevance"])
        for each in questions
    ]
    collection = Collection(name="golden", queries=tuple(judged))
    settings = [_setting(left), _setting(right)]
    found = [
        evaluate(
            service,
            collection,
            dataset_id=dataset_id,
            modes=[name] if kind == "mode" else [],
            pipelines=[name] if kind == "pipeline" else [],
        )
        for kind, name in settings
    ]
    (mode_a, a), (mode_b, b) = (next(iter(each.modes.items())) for each in found)
    modes = [(mode_a, mode_b)]
    (difference,) = compare_evaluations(*found, metrics=[_METRIC], modes=modes).differences
    asked = [each.text for each in judged]
    place = [("d", dataset_id), ("plain", "1"), ("listed", "1")]
    links = [[urlencode([("q", each), *place, one]) for one in settings] for each in asked]
    values = (a.values[_METRIC], b.values[_METRIC], difference.values)
    low, high = difference.estimate.low, difference.estimate.high
    verdict = "No difference is shown: the interval contains 0."
    if low > 0 or high < 0:
        best, side = ("B", "above") if low > 0 else ("A", "below")
        verdict = f"{best} is better: the interval is {side} 0."
        if difference.p > _CHANCE:
            verdict = f"No difference is shown: p is above {_CHANCE}."
    return {
        "names": [name if kind == "mode" else f"{kind} {name}" for kind, name in settings],
        "rows": list(zip(asked, *values, links, strict=True)),
        "difference": difference,
        "verdict": verdict,
        "warnings": dict.fromkeys(
            (*found[0].warnings, *found[1].warnings, *a.warnings, *b.warnings)
        ),
        "command": _command(dataset_id, settings),
    }


def _setting(typed: str) -> tuple[str, str]:
    """The kind and the name of a setting: ``mode=bm25``."""
    kind, _, name = typed.partition("=")
    if kind not in ("mode", "pipeline"):
        raise ValidationError(f"a setting is mode=NAME or pipeline=NAME, not {typed!r:.60}")
    return kind, name


def _command(dataset_id: str, settings: Sequence[tuple[str, str]]) -> str:
    """The comparison on the command line, with the questions of the download."""
    words = ["triptych", "eval", "retrieval", "golden.json", "--dataset", dataset_id]
    each_once = list(dict.fromkeys(settings))
    if modes := [name for kind, name in each_once if kind == "mode"]:
        words += ["--modes", ",".join(modes)]
    for kind, name in each_once:
        words += ["--pipeline", name] if kind == "pipeline" else []
    pair = ":".join(name for _, name in settings)
    compared = f"triptych eval compare found.json found.json --metrics {_METRIC}".split()
    return "\n".join(
        map(shlex.join, ([*words, "--output", "found.json"], [*compared, "--modes", pair]))
    )
