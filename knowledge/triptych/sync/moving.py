"""Renames: the layers of a document go with its content to another name."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import attrs

from triptych.contracts import VectorReader
from triptych.errors import ConflictError
from triptych.records import DerivedLayer, DocumentInfo, Layer, Vector
from triptych.service import Service
from triptych.signatures import embedding_input_sig

__all__ = ["copy_layers", "renames"]


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


def copy_layers(service: Service, dataset_id: str, old: str, new: str) -> None:
    """Give ``new`` the fresh layers of ``old``, where it has none that is, vectors included.

    They hold the same content, so what was made of the one is as good as made of the other. A
    layer whose document moves on meanwhile is left out: it is made again like any other. A store
    that cannot give the vector of a layer costs a call of the embedder.

    Raises:
        DerivationError: that call failed.
    """
    for kind in (Layer.ABSTRACT, Layer.OVERVIEW):
        layer = service.layer(dataset_id, old, kind)
        info = service.documents.get_info(dataset_id, new)
        if layer is None or layer.stale is not None or info is None:
            continue
        if info.content_sha256 != layer.sig.input_sig:
            continue
        own = service.layer(dataset_id, new, kind)
        if own is not None and own.stale is None:
            continue
        sig = attrs.evolve(layer.sig, source_version=info.version)
        moved = attrs.evolve(layer, doc_name=new, stale=None, sig=sig, vector=None)
        vector = _vector(service, moved)
        if vector is not None or not sig.embed_sig:
            service.layer_repo.put(attrs.evolve(moved, vector=vector))
            continue
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
    if not layer.sig.embed_sig or not isinstance(service.chunks, VectorReader):
        return None
    digest = embedding_input_sig(layer.content)
    known = service.chunks.known_vectors(layer.dataset_id, layer.sig.embed_sig, [digest])
    return known.get(digest)
