"""What is missing or old: questions that nothing answered, and documents behind weak answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from triptych.errors import NotAvailableError, NotFoundError
from triptych.records import DocumentInfo
from triptych.search.question_log import LoggedQuestion
from triptych.service import Service
from triptych_adapters.console.site import Made
from triptych_adapters.console.visit import Visit

_LISTED: Final = 200
_OLD: Final = 20


def gaps(visit: Visit) -> Made:
    """Questions that nothing answered, most often asked first."""
    try:
        asked = visit.service.question_log.questions()
    except NotAvailableError as error:
        return {"questions": [], "old": [], "why": str(error)}
    ranked = sorted(asked, key=lambda each: (-each.times, each.answerability == "weak"))
    return {"questions": ranked[:_LISTED], "old": old(visit.service, asked), "why": ""}


class Old(NamedTuple):
    """A document that weak answers stand on, since how many days it is unchanged, and how often."""

    dataset_id: str
    info: DocumentInfo
    days: int
    times: int

    @property
    def damage(self) -> int:
        """Days times questions: what is old and asked for comes first."""
        return self.days * self.times


def old(service: Service, asked: Sequence[LoggedQuestion]) -> list[Old]:
    """The documents that were found for weak questions, the most harmful first."""
    times: Counter[tuple[str, str]] = Counter()
    for each in asked:
        for dataset_id in each.dataset_ids:
            for name in each.found:
                times[dataset_id, name] += each.times
    found = []
    for dataset_id in {dataset_id for dataset_id, _ in times}:
        names = [name for each, name in times if each == dataset_id]
        try:
            infos = service.list_documents(dataset_id, where={"$name": {"$in": names}})
        except NotFoundError:
            continue
        for info in infos:
            days = (datetime.now(UTC) - info.updated_at).days
            found.append(Old(dataset_id, info, days, times[dataset_id, info.name]))
    return sorted(found, key=lambda each: -each.damage)[:_OLD]
