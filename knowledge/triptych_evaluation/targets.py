"""Matching hits with judged documents and passages."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from triptych.contracts import documents_of
from triptych.errors import ValidationError
from triptych.records import Hit
from triptych_evaluation.collections import Collection, JudgedQuery

if TYPE_CHECKING:
    from triptych.service import KnowledgeBase, Service

Span = tuple[int, int]


@attrs.frozen(kw_only=True, slots=True)
class Place:
    """One place of a ranking.

    ``name`` is the document's, or ``document#chunk``; ``unit`` the judged thing that was found
    there first, "" where there is none; ``tokens`` what the text returned there costs.
    """

    name: str
    unit: str
    score: float
    tokens: int = 0


@attrs.frozen(kw_only=True, slots=True)
class Targets:
    """What one query should find.

    ``grades`` are by unit: a document's name, or a passage's (``document#p1``). ``passages``
    are the places of each document's passages by unit; a document without an entry is a unit
    itself. ``missing`` are the relevant units that the dataset does not hold: they stay in
    ``grades``, and count as not found. ``excluded`` documents are no part of the ranking, and
    ``spare`` is how many more hits must be asked for because of them.
    """

    grades: Mapping[str, int]
    passages: Mapping[str, Mapping[str, Sequence[Span]]] = attrs.field(factory=dict)
    missing: tuple[str, ...] = ()
    excluded: frozenset[str] = frozenset()
    spare: int = 0


class DocumentNames:
    """The names of a dataset's documents, to be found by the end of their path."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = set(names)
        self._by_last: dict[str, list[str]] = defaultdict(list)
        for name in sorted(self._names):
            self._by_last[name.rpartition("/")[2]].append(name)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def resolve(self, path: str, query: JudgedQuery) -> str | None:
        """The document whose name is ``path``, else ends in it; None without one.

        Raises:
            ValidationError: several names end in it; the message lists them.
        """
        if path in self._names:
            return path
        ending = f"/{path}"
        found = [name for name in self._by_last[path.rpartition("/")[2]] if name.endswith(ending)]
        if len(found) > 1:
            raise ValidationError(
                f"the file {path!r} of query {query.query_id!r} may be any of {len(found)} "
                f"documents ({', '.join(map(repr, found[:5]))}): write more of its path"
            )
        return found[0] if found else None


def find_passage(passage: str, content: str) -> list[Span]:
    """Where ``passage`` stands in ``content``, in code points; white space counts as one space."""
    words = map(re.escape, passage.split())
    return [found.span() for found in re.finditer(r"\s+".join(words), content)]


def document_places(hits: Iterable[Hit]) -> list[Place]:
    """The ranking of hits that are whole documents."""
    return [Place(name=hit.doc_name, unit=hit.doc_name, score=hit.score) for hit in hits]


def chunk_places(hits: Sequence[Hit], tokens: Sequence[int], targets: Targets) -> list[Place]:
    """The ranking of hits that are chunks.

    A unit is credited to the first chunk that holds it; a further chunk of it keeps its place
    and earns nothing. A chunk holds a passage when at least half of the passage lies in it, or
    half of it in the passage. Where a chunk holds several passages for the first time, each
    has a place of its own, the highest grade first, and the text is paid for once.
    """
    credited: set[str] = set()
    places: list[Place] = []
    for hit, cost in zip(hits, tokens, strict=True):
        units = [unit for unit in _units_in(hit, targets) if unit not in credited]
        units.sort(key=lambda unit: -targets.grades.get(unit, 0))
        credited.update(units)
        for at, unit in enumerate(units or [""]):
            name = f"{hit.doc_name}#{hit.chunk_index}"
            places.append(Place(name=name, unit=unit, score=hit.score, tokens=0 if at else cost))
    return places


def _units_in(hit: Hit, targets: Targets) -> list[str]:
    passages = targets.passages.get(hit.doc_name)
    if passages is None:
        return [hit.doc_name]
    return [
        unit
        for unit, spans in passages.items()
        if any(_holds((hit.start, hit.end), span) for span in spans)
    ]


def _holds(chunk: Span, passage: Span) -> bool:
    shared = min(chunk[1], passage[1]) - max(chunk[0], passage[0])
    return shared > 0 and 2 * shared >= min(chunk[1] - chunk[0], passage[1] - passage[0])


def find_targets(
    service: Service, dataset_id: str, collection: Collection, *, passages: bool
) -> dict[str, Targets]:
    """What each query of the collection should find in the dataset, by query id.

    ``passages``: chunks will be ranked, so passages are looked for, where a query has any,
    instead of their documents.

    Raises:
        ValidationError: a file is named by an ending that several documents have.
        NotFoundError: the dataset does not exist.
    """
    names = DocumentNames(names_in(service, dataset_id))
    contents: dict[str, str] = {}

    def content(name: str) -> str:
        if name not in contents:
            contents[name] = service.get_document(dataset_id, name).content
        return contents[name]

    found = {}
    for query in collection.queries:

        def document(path: str, query: JudgedQuery = query) -> str | None:
            return names.resolve(path, query) if collection.by_suffix else path

        grades: dict[str, int] = {}
        places: dict[str, dict[str, list[tuple[int, int]]]] = {}
        for path, grade in query.grades.items():
            name = document(path) or path
            grades[name] = max(grade, grades.get(name, grade))
        missing = [name for name, grade in grades.items() if grade > 0 and name not in names]
        if passages:
            for number, passage in enumerate(query.passages, start=1):
                name = document(passage.document) or passage.document
                unit = f"{name}#p{number}"
                spans = find_passage(passage.text, content(name)) if name in names else []
                if not spans and name not in missing:
                    missing.append(unit)
                places.setdefault(name, {})[unit] = spans
                grades.pop(name, None)
                grades[unit] = passage.grade
        excluded = frozenset(name for name in query.excluded if name in names)
        found[query.query_id] = Targets(
            grades=grades,
            passages=places,
            missing=tuple(missing),
            excluded=excluded,
            spare=sum(_hits(service, dataset_id, name, passages) for name in excluded),
        )
    return found


def _hits(service: Service, dataset_id: str, name: str, chunks: bool) -> int:
    """How many hits of a search this document may take up."""
    return sum(1 for _ in service.chunks.iter_chunks(dataset_id, name)) if chunks else 1


def names_in(service: KnowledgeBase, dataset_id: str) -> Iterator[str]:
    """The names of a dataset's documents, in order."""
    return (info.name for info in documents_of(service.list_documents, dataset_id))
