"""What is missing or old: questions that nothing answered, and old documents that answers use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from triptych.errors import NotAvailableError, NotFoundError, TriptychError, ValidationError
from triptych.question_log import CitedDocument, LoggedQuestion, QuestionLog
from triptych.records import DocumentInfo
from triptych.service import KnowledgeBase, service_of
from triptych.text import Analyzer, get_analyzer
from triptych_server.console.site import Made
from triptych_server.console.visit import Visit, may

_LISTED: Final = 200
_OLD: Final = 20


class Gap(NamedTuple):
    """What nothing answered: questions with the same words, the most frequent wording first."""

    questions: Sequence[LoggedQuestion]

    @property
    def times(self) -> int:
        """How often it was asked, in any wording."""
        return sum(each.times for each in self.questions)

    @property
    def answerability(self) -> str:
        """The best verdict: "weak", if any is."""
        return max(each.answerability for each in self.questions)

    @property
    def first_at(self) -> datetime:
        """When it was asked first, as far as the log knows."""
        return min(each.first_at or each.asked_at for each in self.questions)

    @property
    def asked_at(self) -> datetime:
        """When it was asked last."""
        return max(each.asked_at for each in self.questions)


def gaps(visit: Visit) -> Made:
    """Questions that nothing answered, most often asked first."""
    try:
        log = _log(visit)
        asked, cited = log.questions(), log.cited()
    except NotAvailableError as error:
        return {"gaps": [], "old": [], "log": False, "why": str(error)}
    ranked = sorted(
        grouped(visit.service, asked), key=lambda each: (-each.times, each.answerability == "weak")
    )
    return {
        "gaps": ranked[:_LISTED],
        "old": old(visit.service, asked, cited),
        "log": visit.server.service.options.observer is not None,
        "why": "",
    }


def counted(visit: Visit) -> int:
    """How many questions of the log nothing answered, in whatever words; 0 for whom it is not."""
    try:
        return len(grouped(visit.service, _log(visit).questions()[:_LISTED]))
    except TriptychError:  # the page itself says why
        return 0


def _log(visit: Visit) -> QuestionLog:
    """The log, which a key to everything reads, as whoever runs the store does."""
    if not may(visit.server.check_sees_all, visit.service, "the log is"):
        raise NotAvailableError("the log of questions is not available to restricted callers")
    return QuestionLog(visit.server.service.capabilities.settings)


def is_logged(visit: Visit, text: str, dataset_ids: Sequence[str]) -> bool:
    """Whether the log has this question, and the visitor reads it there."""
    try:
        asked = _log(visit).questions()
    except (NotAvailableError, ValidationError):
        return False
    return any(each.text == text and {*each.dataset_ids} == {*dataset_ids} for each in asked)


def grouped(service: KnowledgeBase, asked: Sequence[LoggedQuestion]) -> list[Gap]:
    """Questions with the same terms, in the analyzer of the first dataset, to the same datasets or
    to some of them: a dataset that is added later makes no other question of one to all."""
    analyzers: dict[str, Analyzer] = {}
    groups: dict[object, dict[frozenset[str], list[LoggedQuestion]]] = {}
    for each in sorted(asked, key=lambda one: -len(one.dataset_ids)):
        place = each.dataset_ids[0] if each.dataset_ids else ""
        if place not in analyzers:
            chunks = service_of(service, "the log").chunks
            config = chunks.config(place) if place else None
            analyzers[place] = get_analyzer("english" if config is None else config.language)
        terms = frozenset(analyzers[place].analyze_query(each.text))
        alike, places = groups.setdefault(terms or each.text, {}), frozenset(each.dataset_ids)
        wider = next((known for known in alike if places <= known), places)
        alike.setdefault(wider, []).append(each)
    return [
        Gap(sorted(several, key=lambda one: -one.times))
        for alike in groups.values()
        for several in alike.values()
    ]


class Old(NamedTuple):
    """A document, since how many days it is unchanged, and its uses: the answers that cite it, and
    the questions without a good answer that it was found for."""

    info: DocumentInfo
    days: int
    cited: int
    found: int

    @property
    def damage(self) -> int:
        """Days times uses: what is old and used comes first."""
        return self.days * (self.cited + self.found)


def old(
    service: KnowledgeBase, asked: Sequence[LoggedQuestion], cited: Sequence[CitedDocument]
) -> list[Old]:
    """The documents that answers and weak questions use, the most harmful first."""
    cites = {(each.dataset_id, each.name): each.times for each in cited}
    finds: Counter[tuple[str, str]] = Counter()
    for each in asked:
        for place in each.documents:
            finds[place] += each.times
    used = cites.keys() | finds.keys()
    found = []
    for dataset_id in {dataset_id for dataset_id, _ in used}:
        names = [name for each, name in used if each == dataset_id]
        try:
            infos = service.list_documents(dataset_id, where={"$name": {"$in": names}})
        except NotFoundError:
            continue
        for info in infos:
            days = (datetime.now(UTC) - info.updated_at).days
            place = dataset_id, info.name
            found.append(Old(info, days, cites.get(place, 0), finds[place]))
    return sorted(found, key=lambda each: (-each.damage, each.info.dataset_id, each.info.name))[
        :_OLD
    ]
