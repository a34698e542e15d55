"""Renames: the layers of a document go with its content to another name."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import attrs

from triptych.errors import ConflictError
from triptych.records import DerivedLayer, DocumentInfo, Layer, Vector
from triptych.records.spaces import dense
from triptych.service import Service
from triptych.signatures import embedding_input_sig


def renames(
    gone: Iterable[DocumentInfo], added: Iterable[tuple[str, str]]
) -> tuple[tuple[str, str], ...]:
    """Which names took the place of which, (old, new), by old name.

    ``added`` are new names with the SHA-256 of their content. Where several names hold one
    content, they are paired in order.
    """
    waiting: dict[str, list[str]] = {}
    for name, content in sorted(added, reverse=True):
        waiting.setdefault(content, []).append(name)
    return tuple(
        (info.name, names.pop())
        for info in sorted(gone, key=lambda info: info.name)
        if (names := waiting.get(info.content_sha256))
    )


def replaced(put: Iterable[tuple[str, str, str]]) -> list[tuple[str, str]]:
    """Whose content is another's now, (old, new), among documents that were put together.

    ``put`` are names with the SHA-256 of their content before, "" for none, and now.
    """
    documents = sorted(put)
    heirs: dict[str, list[str]] = {}
    for name, before, now in documents:
        if before != now:
            heirs.setdefault(now, []).append(name)
    return [
        (name, heir)
        for name, before, now in documents
        if before and before != now
        for heir in heirs.get(before, ())
    ]


def move_layers(service: Service, dataset_id: str, pairs: Iterable[tuple[str, str]]) -> None:
    """Give each second document of ``pairs`` the layers that the first has of the same content,
    vectors included, where it has none that are fresh.

    What was made of a content is as good under another name. All are read before any is written,
    so that names may change places. A layer whose document moves on meanwhile is left out: it is
    made again like any other. A store that cannot give the vector of a layer costs a call of the
    embedder.

    Raises:
        DerivationError: that call failed.
    """
    found = [
        (layer, new)
        for old, new in pairs
        for kind in (Layer.ABSTRACT, Layer.OVERVIEW)
        if (layer := service.layer(dataset_id, old, kind)) is not None
        and layer.stale in (None, "source")
    ]
    for layer, new in found:
        _give(service, layer, new)


def _give(service: Service, layer: DerivedLayer, new: str) -> None:
    dataset_id, kind = layer.dataset_id, layer.layer
    info = service.documents.get_info(dataset_id, new)
    if info is None or info.content_sha256 != layer.sig.input_sig:
        return
    own = service.layer(dataset_id, new, kind)
    if own is not None and own.stale is None:
        return
    sig = attrs.evolve(layer.sig, source_version=info.version)
    moved = attrs.evolve(layer, doc_name=new, stale=None, sig=sig, vector=None)
    vector = _vector(service, moved)
    if vector is not None or not sig.embed_sig:
        service.layer_repo.put(attrs.evolve(moved, vector=vector))
        return
    # ConflictError says that the document has moved on.
    with suppress(ConflictError):
        service.put_document_layer(
            dataset_id,
            new,
            kind,
            layer.content,
            prompt_sig=sig.prompt_sig,
            source_version=info.version,
        )


def _vector(service: Service, layer: DerivedLayer) -> Vector | None:
    if not layer.sig.embed_sig:
        return None
    digest = embedding_input_sig(layer.content)
    known = service.chunks.known_vectors(layer.dataset_id, dense(layer.sig.embed_sig), [digest])
    return known.get(digest)
