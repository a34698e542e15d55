"""Helpers of tools, nodes and servers for their Service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from triptych.aio import AsyncService
from triptych.errors import ValidationError
from triptych.records import DerivedLayer, DocumentInfo, Layer
from triptych.service import KnowledgeBase
from triptych.service.knowledge_base import Dataset

_PAGE: Final = 100


def check_service(service: object, what: str, *needs: str) -> None:
    """Check that the argument of ``what`` is a `Service` or a wrapper with the methods ``needs``.

    Raises:
        ValidationError: it is not; the message says what to pass.
    """
    others = isinstance(service, type | AsyncService | Dataset)
    if not others and all(callable(getattr(service, method, None)) for method in needs):
        return
    advice = "open a knowledge base with triptych.open(…) and give that"
    if isinstance(service, AsyncService):
        advice = "give the Service inside it, its attribute `service`"
    elif isinstance(service, Dataset):
        advice = "give the Service that it is a view of, and name the dataset by its id"
    name = "type" if isinstance(service, type) else type(service).__name__
    kind = "None" if service is None else f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"
    raise ValidationError(f"{what} needs a Service, not {kind}: {advice}")


def documents_of(service: KnowledgeBase, dataset_id: str, **options: Any) -> Iterator[DocumentInfo]:
    """Yield all documents of `Service.list_documents` with these options, page by page.

    Raises:
        NotFoundError: the dataset does not exist, or was deleted meanwhile.
    """
    while True:
        page = service.list_documents(dataset_id, limit=_PAGE, **options)
        yield from page
        if len(page) < _PAGE:
            return
        options["after"] = page[-1]


def layer_of(
    service: KnowledgeBase, dataset_id: str, name: str, layer: Layer
) -> DerivedLayer | None:
    """Return a layer of a document or folder; of the dataset if the name is empty."""
    if name:
        return service.layer(dataset_id, name, layer)
    return service.dataset_layer(dataset_id, layer)
