"""Golden questions: hits judged right or wrong, kept as a document, and two settings compared.

They are kept as a document ``DATASET.json`` of the dataset ``golden``, which has versions and keys
as all documents have, and is what ``triptych eval`` reads.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.responses import Response

from triptych.errors import ConflictError, NotFoundError, ValidationError
from triptych.evaluation import bootstrap, randomisation_test
from triptych.evaluation.metrics import ndcg_at
from triptych.service import Service
from triptych_adapters.console.site import HEADERS, Made, see_other
from triptych_adapters.console.visit import Visit

DATASET: Final = "golden"
_TRIES: Final = 5
_RIGHT: Final = 2
_DEPTH: Final = 10
_MOST: Final = 200
_SETTINGS: Final = ("mode", "pipeline", "layer", "syntax")

Question = dict[str, Any]


def read(service: Service, dataset_id: str) -> tuple[list[Question], int]:
    """The questions on a dataset, and the version they are of; 0 where there are none."""
    try:
        kept = service.get_document(DATASET, f"{dataset_id}.json")
    except NotFoundError:
        return [], 0
    try:
        return list(json.loads(kept.content)["queries"]), kept.version
    except (ValueError, KeyError, TypeError):
        raise ValidationError(
            f"the document {dataset_id}.json of the dataset {DATASET} holds no golden questions: "
            "restore an earlier version of it"
        ) from None


def change(
    service: Service, dataset_id: str, edit: Callable[[list[Question]], list[Question]]
) -> None:
    """Keep other questions; what somebody else keeps meanwhile is not lost.

    Raises:
        ConflictError: others changed them again and again.
    """
    for left in reversed(range(_TRIES)):
        questions, version = read(service, dataset_id)
        text = json.dumps({"queries": edit(questions)}, ensure_ascii=False, indent=1)
        try:
            service.put_document(
                DATASET, f"{dataset_id}.json", text + "\n", if_version=version, embed="later"
            )
            return
        except ConflictError:
            if not left:
                raise


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

    change(visit.service, dataset_id, edit)
    return see_other(visit, visit.one("back", "/console/golden"))


def grades_of(service: Service, dataset_ids: Sequence[str], text: str) -> dict[str, int]:
    """The judgements on a question, by document."""
    found: dict[str, int] = {}
    for dataset_id in dataset_ids:
        for each in read(service, dataset_id)[0]:
            if each.get("question") == text:
                found |= each.get("relevance", {})
    return found


def golden(visit: Visit) -> Made:
    """The kept questions of a dataset; two settings compared on them; or the file itself."""
    service = visit.service
    known = [each for each in service.list_datasets() if each != DATASET]
    dataset_id = visit.one("dataset") or (known[0] if known else "")
    questions = read(service, dataset_id)[0] if dataset_id else []
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
