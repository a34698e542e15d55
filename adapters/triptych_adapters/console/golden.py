"""Golden questions: hits judged right or wrong, kept, and two settings compared on them.

They are kept in the store's settings, where no search finds them, as ``triptych eval`` reads them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, quote

from starlette.responses import Response

from triptych.errors import AccessDeniedError, ConflictError, ValidationError
from triptych.evaluation import bootstrap, randomisation_test
from triptych.evaluation.metrics import ndcg_at
from triptych.search.dataset_settings import GOLDEN_SETTINGS
from triptych.service import Service
from triptych_adapters.console.site import HEADERS, Made, see_other
from triptych_adapters.console.visit import Visit

_TRIES: Final = 20
_RIGHT: Final = 2
_DEPTH: Final = 10
_MOST: Final = 200
_KEPT: Final = 1_000
_LOOKED_AT: Final = 20
"""Datasets whose judgements a search shows."""
_SETTINGS: Final = ("mode", "pipeline", "layer", "syntax")

Question = dict[str, Any]


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
    if settings is None or dataset_id not in visit.service.list_datasets():
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
    if not question or not dataset_id:
        raise ValidationError("a judgement names a question and a dataset")
    verdict = visit.one("verdict")
    number = hashlib.sha256(question.encode()).hexdigest()[:12]

    def edit(questions: list[Question]) -> list[Question]:
        others = [each for each in questions if each.get("id") != number]
        if verdict == "drop":
            return others
        found = next((each for each in questions if each.get("id") == number), None)
        kept = found or {"id": number, "question": question, "relevance": {}}
        grades = {key: grade for key, grade in kept["relevance"].items() if key != name}
        if verdict in ("right", "wrong"):
            grades[name] = _RIGHT if verdict == "right" else 0
        return [*others, {**kept, "relevance": grades}]

    change(visit, dataset_id, edit)
    back = visit.one("back")
    own = back.startswith(("/?", "/console/"))
    return see_other(visit, back if own else f"/console/golden?dataset={quote(dataset_id)}")


def grades_of(visit: Visit, dataset_ids: Sequence[str], text: str) -> dict[str, int]:
    """The judgements on a question, by document."""
    found: dict[str, int] = {}
    for dataset_id in dataset_ids[:_LOOKED_AT]:
        for each in read(visit, dataset_id):
            if each.get("question") == text:
                found |= each.get("relevance", {})
    return found


def golden(visit: Visit) -> Made:
    """The kept questions of a dataset; two settings compared on them; or the file itself."""
    service = visit.service
    known = list(service.list_datasets())
    dataset_id = visit.one("dataset") or (known[0] if known else "")
    questions = read(visit, dataset_id) if dataset_id else []
    if visit.one("download"):
        text = json.dumps({"queries": questions}, ensure_ascii=False, indent=1) + "\n"
        saved = {"Content-Disposition": 'attachment; filename="golden.json"'}
        return Response(text, headers=HEADERS | saved, media_type="application/json")
    compared = None
    if (left := visit.one("a")) and (right := visit.one("b")):
        compared = compare(service, dataset_id, questions, left, right)
    return {
        "datasets": known,
        "dataset_id": dataset_id,
        "questions": questions,
        "compared": compared,
        "modes": ["hybrid", *service.lanes],
        "pipelines": sorted(service.pipelines),
    }


def compare(
    service: Service, dataset_id: str, questions: Sequence[Question], left: str, right: str
) -> Mapping[str, Any]:
    """nDCG@10 of two settings, ``mode=bm25&…``, on the judged questions, and their difference."""
    judged = [each for each in questions if any(each.get("relevance", {}).values())][:_MOST]
    if not judged:
        raise ValidationError("no question has a right document yet: mark some hits as right")
    values = [
        [_gain(service, dataset_id, each, dict(parse_qsl(settings))) for each in judged]
        for settings in (left, right)
    ]
    less = [b - a for a, b in zip(*values, strict=True)]
    return {
        "a": left,
        "b": right,
        "rows": list(zip([each["question"] for each in judged], *values, less, strict=True)),
        "means": [sum(each) / len(each) for each in values],
        "interval": bootstrap({"": less})[""],
        "p": randomisation_test(values[1], values[0]),
    }


def _gain(
    service: Service, dataset_id: str, question: Question, settings: Mapping[str, str]
) -> float:
    options: dict[str, Any] = {
        name: value for name, value in settings.items() if name in _SETTINGS and value
    }
    pipeline = options.pop("pipeline", "")
    if "syntax" in options:
        options["syntax"] = True
    runs: Any = service.pipeline(pipeline) if pipeline else service
    result = runs.search(question["question"], dataset_id=dataset_id, top_k=_DEPTH * 3, **options)
    names = list(dict.fromkeys(hit.doc_name for hit in result.hits))
    return ndcg_at(_DEPTH, names, question["relevance"])
