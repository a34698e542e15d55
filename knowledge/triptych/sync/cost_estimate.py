"""What a sync would cost, worked out without a call of the embedder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from triptych.chunking import embedding_text
from triptych.derivation.batches import batches
from triptych.records import NewDocument
from triptych.records.metadata import text_of
from triptych.records.spaces import dense
from triptych.service import Service
from triptych.signatures import embedding_input_sig
from triptych.vectors.embedding import CoverageGate
from triptych.vectors.run import EMBED_BATCH


@attrs.frozen(kw_only=True, slots=True)
class Price:
    """Chunks to derive, those of them to embed, and the calls of the embedder that takes."""

    chunks: int = 0
    embedded: int = 0
    model_calls: int = 0

    def __add__(self, other: Price) -> Price:
        """Both together."""
        return Price(
            chunks=self.chunks + other.chunks,
            embedded=self.embedded + other.embedded,
            model_calls=self.model_calls + other.model_calls,
        )


def price(service: Service, dataset_id: str, documents: Iterable[NewDocument]) -> Price:
    """The cost of putting ``documents``, in the batches in which they would be put."""
    seen: set[str] = set()
    total = Price()
    for batch in batches(documents):
        texts: dict[str, str] = {}
        chunks = 0
        for document in batch:
            for text in _texts(service, document):
                chunks += 1
                texts.setdefault(embedding_input_sig(text), text)
        wanted = _missing(service, dataset_id, {k: v for k, v in texts.items() if k not in seen})
        seen.update(wanted)
        total = Price(
            chunks=total.chunks + chunks,
            embedded=total.embedded + len(wanted),
            model_calls=total.model_calls + -(-len(wanted) // EMBED_BATCH),
        )
    return total


def price_pending(service: Service, dataset_id: str, names: Iterable[str]) -> Price:
    """The cost of embedding what documents that are chunked already still lack."""
    texts: dict[str, str] = {}
    for name in names:
        info = service.documents.get_info(dataset_id, name)
        title = None if info is None else text_of(info.metadata, "title") or None
        for chunk in service.chunks.iter_chunks(dataset_id, name, vectors=True):
            if chunk.vector is None:
                text = embedding_text(title, chunk.heading_path, chunk.content)
                texts[chunk.sig.input_sig] = text
    missing = len(_missing(service, dataset_id, texts))
    return Price(embedded=missing, model_calls=-(-missing // EMBED_BATCH))


def _texts(service: Service, document: NewDocument) -> list[str]:
    """What is embedded of a document, chunk by chunk, as `Deriver` puts it together."""
    metadata = document.metadata or {}
    content, title = document.content, text_of(metadata, "title") or None
    chunker = service.options.chunkers.for_document(document.name, metadata, document.outline or "")
    return [
        embedding_text(title, spec.heading_path, content[spec.start : spec.end])
        for spec in chunker.chunk(content)
    ]


def _missing(service: Service, dataset_id: str, texts: Mapping[str, str]) -> set[str]:
    """The digests of those texts that would be embedded."""
    if not service.options.has_embedder:  # nor has a server any here
        return set()
    embedder = service.options.embedder_of(service.chunks.config(dataset_id))
    if embedder is None or not texts:
        return set()
    gate = CoverageGate(embedder)
    wanted = {digest for digest, text in texts.items() if gate.admits(text)}
    if wanted:
        space = dense(embedder.signature)
        wanted -= set(service.chunks.known_vectors(dataset_id, space, sorted(wanted)))
    return wanted
