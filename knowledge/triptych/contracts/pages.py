"""Walks over all documents, or all layers of a kind, of a dataset: read page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from triptych.contracts import DocumentReader, LayerRepo
from triptych.records import DerivedLayer, DocumentInfo, FilterTree, Layer
from triptych.records.unread import Unread

_PAGE = 256


def document_pages(
    documents: DocumentReader, dataset_id: str, where: FilterTree | None = None
) -> Iterator[Sequence[DocumentInfo]]:
    """The documents without their contents, by name: each page as it is when it is read."""
    after = ""
    while page := documents.list(dataset_id, after=after, limit=_PAGE, where=where):
        yield page
        after = page[-1].name


def documents_of(
    listed: Callable[..., Sequence[DocumentInfo]], dataset_id: str
) -> Iterator[DocumentInfo]:
    """Every document that ``listed`` lists, without its content, by name; read page by page."""
    after = ""
    while page := listed(dataset_id, after=after, limit=_PAGE):
        yield from page
        after = page[-1].name


MOST_READ = 100_000
"""Documents of a dataset up to which `unread_of` reads them: about a second."""


def unread_of(
    listed: Callable[..., Sequence[DocumentInfo]], dataset_id: str
) -> Iterator[tuple[str, Unread]]:
    """The documents, of the first `MOST_READ`, whose files have more than their text."""
    for info in islice(documents_of(listed, dataset_id), MOST_READ):
        if unread := info.system.unread:
            yield info.name, unread


def pages_of(
    layers: LayerRepo, dataset_id: str, layer: Layer, *, prefix: str = "", after: str | None = None
) -> Iterator[DerivedLayer]:
    """The layers of one kind whose names start with ``prefix`` and come after ``after``, by name,
    read page by page."""
    while page := layers.page(dataset_id, layer, prefix=prefix, after=after, limit=_PAGE):
        yield from page
        after = page[-1].doc_name
