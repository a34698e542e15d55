"""A dataset as the next embedder would serve it, in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import attrs

from triptych import deadlines
from triptych.contracts import Store
from triptych.derivation.folder_tree import is_folder
from triptych.errors import NotAvailableError
from triptych.records import DerivedChunk, DerivedLayer, Layer, NameState
from triptych.records.documents import has_expired
from triptych.records.spaces import dense
from triptych.service import Service
from triptych.signatures import embedding_input_sig
from triptych.spaces.filling import config_of, lacking, next_signature, space_repo

_PAGE = 256


@contextmanager
def space_service(service: Service, dataset_id: str) -> Iterator[tuple[Service, int]]:
    """For the block, a Service over the dataset as it would be after `swap_space`, in memory, and
    how many documents lack vectors there.

    Documents, chunks and layers are those of now, with the vectors that `fill_space` has made; no
    text of a document is embedded. What lacks vectors is found by keyword. Nothing in the block
    changes the store.

    Raises:
        NotAvailableError: no next embedder is set, the store keeps one space only, or the Service
            has no ``scratch``.
        NotFoundError: there is no such dataset.
        CancelledError: the deadline passed.
    """
    space = next_signature(service)
    space_repo(service)
    config = config_of(service, dataset_id)
    if service.options.scratch is None:
        raise NotAvailableError(
            "this fills a store in memory, and there is none: give ServiceOptions(scratch=…), such "
            "as triptych_backends.memory.MemoryStore; triptych.open does so by itself"
        )
    missing = 0 if config.embed_sig == space else len(lacking(service, dataset_id, space))
    scratch = service.options.scratch()
    options = attrs.evolve(
        service.options,
        embedder=service.options.next_embedder,
        next_embedder=None,
        semantic_cache=None,
        question_log=False,
    )
    shown = Service(scratch, options=options)
    with shown:
        wanted = attrs.evolve(config, embed_sig=space)
        scratch.chunks.configure(dataset_id, wanted, expected=None)
        _load(service.store, scratch, dataset_id, space)
        yield shown, missing


def _load(store: Store, scratch: Store, dataset_id: str, space: str) -> None:
    loader = scratch.capabilities.copying
    if loader is None:
        raise NotAvailableError("the store that scratch makes takes over no other store")
    after = ""
    while page := store.documents.list(dataset_id, after=after, limit=_PAGE):
        deadlines.check("reading the dataset")
        states = [
            state
            for info in page
            if not has_expired(info)
            and (state := _state(store, dataset_id, info.name, space)) is not None
        ]
        loader.load_states(dataset_id, states)
        after = page[-1].name
    for layer in store.layers.list(dataset_id):
        if is_folder(layer.doc_name):
            scratch.layers.put(_layer(store, layer, space))


def _state(store: Store, dataset_id: str, name: str, space: str) -> NameState | None:
    document = store.documents.get(dataset_id, name)
    if document is None:
        return None
    sig = store.chunks.get_doc_sig(dataset_id, name)
    chunks = list(store.chunks.iter_chunks(dataset_id, name))
    known = store.chunks.known_vectors(
        dataset_id, dense(space), list({chunk.sig.input_sig for chunk in chunks})
    )
    given: list[DerivedChunk] = [
        attrs.evolve(
            chunk,
            vector=known.get(chunk.sig.input_sig),
            sig=attrs.evolve(chunk.sig, embed_sig=space),
        )
        for chunk in chunks
    ]
    layers = (store.layers.get(dataset_id, name, kind) for kind in (Layer.ABSTRACT, Layer.OVERVIEW))
    return NameState(
        name=name,
        versions=(document,),
        # Of a text that lacks its vector the embedder may make none: what there is counts.
        sig=None if sig is None else attrs.evolve(sig, embed_sig=space),
        chunks=tuple(given),
        layers=tuple(_layer(store, each, space) for each in layers if each is not None),
    )


def _layer(store: Store, layer: DerivedLayer, space: str) -> DerivedLayer:
    digest = embedding_input_sig(layer.content)
    known = store.chunks.known_vectors(layer.dataset_id, dense(space), [digest])
    sig = attrs.evolve(layer.sig, embed_sig=space)
    return attrs.evolve(layer, vector=known.get(digest), sig=sig, stale=None)
