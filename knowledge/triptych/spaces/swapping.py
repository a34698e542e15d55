"""Evaluating, swapping in and dropping an embedding space."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import attrs

from triptych import deadlines, telemetry
from triptych._internal.progress import ProgressCallback
from triptych._internal.wording import counted
from triptych.contracts import Store
from triptych.contracts.pages import document_pages
from triptych.derivation.batches import check_progress
from triptych.derivation.folder_tree import is_folder
from triptych.errors import ConflictError, NotAvailableError
from triptych.records import DerivedChunk, DerivedLayer, Layer, NameState
from triptych.records.documents import has_expired
from triptych.records.spaces import dense
from triptych.service import Service
from triptych.signatures import embedding_input_sig
from triptych.spaces.filling import (
    SpaceState,
    SwapReport,
    config_of,
    embedder_of,
    fill,
    kept_spaces,
    lacking,
    next_signature,
    previous_signature,
    space_repo,
)


@contextmanager
def space_service(service: Service, dataset_id: str) -> Iterator[tuple[Service, int]]:
    """A context with an in-memory Service over the dataset as it would be after `swap_space`, and
    the number of documents that lack vectors in it.

    It has the current documents, chunks and layers with the vectors made by `fill_space`; no
    document is embedded. Only keyword search finds documents without vectors. Changes in the block
    do not affect the store.

    Raises:
        NotAvailableError: no next embedder is set, the store keeps only one space, or the Service
            has no ``scratch``.
        NotFoundError: the dataset does not exist.
        CancelledError: the deadline passed.
    """
    space = next_signature(service)
    space_repo(service)
    config = config_of(service, dataset_id)
    if service.options.scratch is None:
        raise NotAvailableError(
            "this needs an in-memory store: give ServiceOptions(scratch=…), such "
            "as triptych_backends.memory.MemoryStore; triptych.open sets it"
        )
    missing = 0 if config.embed_sig == space else len(lacking(service, dataset_id, space))
    scratch = service.options.scratch()
    options = attrs.evolve(
        service.options,
        embedder=service.options.next_embedder,
        next_embedder=None,
        semantic_cache=None,
        observer=None,
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
        raise NotAvailableError("the store that scratch makes does not support copies")
    for page in document_pages(store.documents, dataset_id):
        deadlines.check("reading the dataset")
        states = [
            state
            for info in page
            if not has_expired(info)
            and (state := _state(store, dataset_id, info.name, space)) is not None
        ]
        loader.load_states(dataset_id, states)
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


# Swapping

_SHOWN = 3

_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Seconds until it embeds again what others have stored since."""


def list_spaces(service: Service, dataset_id: str | None = None) -> list[SpaceState]:
    """Return the embedding spaces of one dataset or all, the serving one first.

    Raises:
        NotFoundError: the dataset does not exist.
    """
    keeps = service.capabilities.spaces is not None
    found = []
    for stats in service.stats(dataset_id):
        serving = "" if stats.config is None else stats.config.embed_sig
        width = next((each for each in stats.spaces if each.embed_sig == serving), None)
        found.append(
            SpaceState(
                dataset_id=stats.dataset_id,
                embed_sig=serving,
                serves=True,
                dimension=0 if width is None else width.dimension,
                vectors=0 if width is None else width.vectors,
                lacking=len(service.chunks.waiting(stats.dataset_id, dense(serving))),
            )
        )
        found += [
            SpaceState(
                dataset_id=stats.dataset_id,
                embed_sig=each.space.sig,
                serves=False,
                dimension=each.dimension,
                vectors=each.vectors,
                lacking=len(lacking(service, stats.dataset_id, each.space.sig)),
            )
            for each in (kept_spaces(service, stats.dataset_id) if keeps else ())
        ]
    return found


def swap_space(
    service: Service,
    dataset_id: str,
    *,
    incomplete: bool = False,
    progress: ProgressCallback | None = None,
) -> SwapReport:
    """Switch a dataset to the vectors of the next embedder, and keep the current ones.

    Documents written since the space was filled are embedded first. One write then swaps the
    vectors: every later search uses the new ones, in each process with this ``next_embedder``.
    Documents written in between get their vectors last; until then only keyword search finds them.
    A dataset that already uses this embedder is unchanged.

    Args:
        incomplete: swap even if documents lack vectors. Only keyword search finds them until their
            vectors are made afterwards.

    Raises:
        NotAvailableError: no next embedder is set, or the store keeps only one space.
        NotFoundError: the dataset does not exist.
        ConflictError: documents lack vectors, and ``incomplete`` is False.
        CancelledError: the deadline passed, before or after the swap; `triptych embed` makes
            missing vectors.
    """
    return _swap(service, dataset_id, next_signature(service), incomplete, progress)


def swap_back(
    service: Service,
    dataset_id: str,
    *,
    incomplete: bool = False,
    progress: ProgressCallback | None = None,
) -> SwapReport:
    """Switch back to the vectors from before `swap_space`, in the same way.

    Raises:
        NotFoundError: the dataset does not exist, or has no such vectors.
        NotAvailableError: texts were added since, and the embedder of these vectors is not set; or
            the store keeps only one space.
        ConflictError, CancelledError: as `swap_space`.
    """
    serving = config_of(service, dataset_id).embed_sig
    target = previous_signature(service, dataset_id, serving)
    return _swap(service, dataset_id, target, incomplete, progress)


def drop_space(service: Service, dataset_id: str, embed_sig: str) -> bool:
    """Delete the vectors of a space that does not serve; return whether there were any.

    Raises:
        NotFoundError: the dataset does not exist.
        ConflictError: the space serves.
        NotAvailableError: the store keeps only one space.
    """
    if config_of(service, dataset_id).embed_sig == embed_sig:
        raise ConflictError(
            f"{embed_sig!r} serves the dataset {dataset_id!r}: swap it to another embedder first"
        )
    return space_repo(service).drop_space(dataset_id, dense(embed_sig))


def _swap(
    service: Service,
    dataset_id: str,
    target: str,
    incomplete: bool,
    progress: ProgressCallback | None,
) -> SwapReport:
    check_progress(progress)
    space_repo(service)
    embedder = embedder_of(service, target)
    embedded = 0
    before: str | None = None
    with telemetry.operation("swap_space"):
        while (config := config_of(service, dataset_id)).embed_sig != target:
            left = lacking(service, dataset_id, target)
            for pause in (0.0, *_PAUSES):
                if not left or embedder is None:
                    break
                time.sleep(pause)
                filled = fill(service, dataset_id, embedder, progress)
                embedded += filled.embedded
                left = lacking(service, dataset_id, target)
                if filled.failed:
                    break
            kept = {each.space.sig for each in kept_spaces(service, dataset_id)}
            if left and not (incomplete and target in kept):
                raise _incomplete(service, dataset_id, target, left)
            wanted = attrs.evolve(config, embed_sig=target)
            if service.chunks.configure(dataset_id, wanted, expected=config):
                before = config.embed_sig
        pending = len(service.chunks.waiting(dataset_id, dense(target)))
        if pending and embedder is not None:
            report = service.embed_pending(dataset_id, progress=progress)
            embedded += report.embedded
            pending = len(service.chunks.waiting(dataset_id, dense(target)))
    return SwapReport(
        dataset_id=dataset_id,
        embed_sig=target,
        before=target if before is None else before,
        swapped=before is not None,
        embedded=embedded,
        pending=pending,
    )


def _incomplete(
    service: Service, dataset_id: str, target: str, left: list[str]
) -> ConflictError | NotAvailableError:
    names = ", ".join(map(repr, left[:_SHOWN])) + (", …" if len(left) > _SHOWN else "")
    lack = (
        f"{counted(len(left), 'document')} of the dataset {dataset_id!r} "
        f"{'lacks' if len(left) == 1 else 'lack'} vectors of {target!r} ({names})"
    )
    if embedder_of(service, target) is None:
        return NotAvailableError(
            f"{lack}, and this embedder is not configured: set embedder (TRIPTYCH_EMBEDDER) or "
            "next_embedder (TRIPTYCH_NEXT_EMBEDDER) to it, or allow an incomplete swap"
        )
    return ConflictError(
        f"{lack}: `triptych admin spaces fill` says why, and `triptych rebuild` derives stale ones "
        "again; or allow an incomplete swap, after which they are found by keyword"
    )
