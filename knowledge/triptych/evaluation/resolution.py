"""From a collection's judgements to the documents and passages of a dataset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from triptych.evaluation.collections import Collection, JudgedQuery
from triptych.evaluation.targets import DocumentNames, Targets, find_passage

if TYPE_CHECKING:
    from triptych.service import Service

_PAGE = 1_000


def find_targets(
    service: Service, dataset_id: str, collection: Collection, *, passages: bool
) -> dict[str, Targets]:
    """What each query of the collection should find in the dataset, by query id.

    ``passages``: chunks will be ranked, so passages are looked for, where a query has any,
    instead of their documents.

    Raises:
        ValidationError: a file is named by an ending that several documents have.
        NotFoundError: there is no such dataset.
    """
    names = DocumentNames(_names(service, dataset_id))
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


def _names(service: Service, dataset_id: str) -> Iterator[str]:
    page = service.list_documents(dataset_id, limit=_PAGE)
    while page:
        yield from (info.name for info in page)
        page = service.list_documents(dataset_id, after=page[-1].name, limit=_PAGE)
