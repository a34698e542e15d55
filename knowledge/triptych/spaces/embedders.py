"""Which spaces a call means, and what makes their vectors."""

from __future__ import annotations

from triptych.contracts import Embedder, VectorRepo
from triptych.contracts.rules import missing_dataset
from triptych.errors import NotAvailableError, NotFoundError
from triptych.records import DatasetConfig, SpaceCount
from triptych.service import Service


def space_repo(service: Service) -> VectorRepo:
    """The store's vectors, of spaces beside the one that serves.

    Raises:
        NotAvailableError: it keeps none of others.
    """
    repo = service.capabilities.spaces
    if repo is None:
        raise NotAvailableError(
            "this store keeps vectors of one embedder only, or is not shown as a whole: fill a "
            "copy of it with the other one (`triptych copy`)"
        )
    return repo


def kept_spaces(service: Service, dataset_id: str) -> list[SpaceCount]:
    """The spaces of embedders that a dataset keeps and that do not serve, by signature.

    Raises:
        NotAvailableError: the store keeps none.
    """
    found = space_repo(service).vector_spaces(dataset_id)
    return [each for each in found if each.space.kind == "dense"]


def config_of(service: Service, dataset_id: str) -> DatasetConfig:
    """The configuration of a dataset.

    Raises:
        NotFoundError: there is no such dataset.
    """
    datasets = service.list_datasets()
    config = service.chunks.config(dataset_id)
    if dataset_id not in datasets or config is None:
        raise missing_dataset(dataset_id, datasets)
    return config


def embedder_of(service: Service, embed_sig: str) -> Embedder | None:
    """The one of the Service's embedders that has this signature."""
    for each in (service.options.embedder, service.options.next_embedder):
        if each is not None and each.signature == embed_sig:
            return each
    return None


def next_signature(service: Service) -> str:
    """The signature of the next embedder.

    Raises:
        NotAvailableError: none is set.
    """
    embedder = service.options.next_embedder
    if embedder is None:
        raise NotAvailableError(
            "the setting next_embedder names no embedder: set it to the one to change to, here and "
            "where the knowledge base is served"
        )
    return embedder.signature


def previous_signature(service: Service, dataset_id: str, serving: str) -> str:
    """The space to go back to: of the first embedder, else the only one that is kept.

    Raises:
        NotFoundError: there is none, or there are several.
    """
    options = service.options
    kept = [each.space.sig for each in kept_spaces(service, dataset_id)]
    first = "" if options.embedder is None else options.embedder.signature
    following = "" if options.next_embedder is None else options.next_embedder.signature
    if first in kept or (first == serving and following not in ("", serving)):
        return first
    if len(kept) != 1:
        found = ", ".join(map(repr, kept)) or "none"
        raise NotFoundError(
            f"the dataset {dataset_id!r} keeps no vectors to go back to, or of several embedders "
            f"({found}): set embedder to the one that is to serve"
        )
    return kept[0]
