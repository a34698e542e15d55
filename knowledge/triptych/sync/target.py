"""The knowledge base that a sync writes to, local or on a server."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Literal

import attrs

from triptych import deadlines
from triptych._internal.progress import ProgressCallback
from triptych.chunking import embedding_text
from triptych.chunking.specs import embedded_title
from triptych.contracts import DocumentRepo
from triptych.derivation.batches import batches
from triptych.errors import (
    CancelledError,
    ConflictError,
    NotFoundError,
    StoreAwayError,
    TriptychError,
)
from triptych.living_documents import remove_expired
from triptych.records import (
    DerivedLayer,
    DocumentInfo,
    EmbedReport,
    Failure,
    Layer,
    NewDocument,
    SourceDocument,
    Vector,
)
from triptych.records.reports import Summed
from triptych.records.spaces import dense
from triptych.service import KnowledgeBase, Service, service_of
from triptych.signatures import embedding_input_sig
from triptych.sync.roots import Root
from triptych.vectors.embedding import CoverageGate
from triptych.vectors.run import EMBED_BATCH

ChunkState = Literal["stale", "pending"]
"""Chunks that are missing or of another text or configuration, or that lack vectors."""

DELETED_AT_ONCE = 64
"""Documents that go in one transaction: the disk is waited for once, and other writers soon
have their turn. No more than a scope can name."""

_KNOWN = "what is known of folders"
_LAYERS = (Layer.ABSTRACT, Layer.OVERVIEW)


@attrs.frozen(kw_only=True, slots=True)
class Price(Summed):
    """Chunks to derive, those of them to embed, and the calls of the embedder that takes."""

    chunks: int = 0
    embedded: int = 0
    model_calls: int = 0


def target_of(service: KnowledgeBase) -> SyncTarget:
    """How a sync reaches the documents of ``service``."""
    return SyncTarget(service) if isinstance(service, Service) else ServerTarget(service)


class SyncTarget:
    """The knowledge base that a sync writes to, beside its store. Documents are put by its
    Service."""

    def __init__(self, service: Service) -> None:
        self._service: KnowledgeBase = service
        self._local = service

    def infos(self, dataset_id: str) -> Sequence[DocumentInfo]:
        """All documents of a dataset, expired ones too; none if the dataset does not exist."""
        return self._local.documents.list(dataset_id)

    def info(self, dataset_id: str, name: str) -> DocumentInfo | None:
        """One document, None where there is none."""
        return self._local.documents.get_info(dataset_id, name)

    def below(self, dataset_id: str, folder: str, limit: int) -> Sequence[DocumentInfo]:
        """The first ``limit`` documents whose names begin with ``folder``."""
        # After the folder's own name, which no document has: a store that is itself made of
        # files then need not look through all of them.
        return self._local.documents.list(dataset_id, prefix=folder, after=folder, limit=limit)

    def document(self, dataset_id: str, name: str) -> SourceDocument | None:
        """One document with its content, None where there is none."""
        return self._local.documents.get(dataset_id, name)

    def states(
        self, dataset_id: str, infos: Mapping[str, DocumentInfo]
    ) -> Mapping[str, ChunkState]:
        """Those of these documents whose chunks a sync makes again, or embeds."""
        options, chunks = self._local.options, self._local.chunks
        sigs = chunks.get_doc_sigs(dataset_id, list(infos)) if infos else {}
        chunker = options.chunkers.signature
        config = chunks.config(dataset_id)
        model = options.embedder
        embedder = "" if model is None else model.signature
        # A set that waits for its vectors alone is no reason to read its file again.
        waits = config is not None and config.embed_sig == embedder
        found: dict[str, ChunkState] = {}
        for name, info in infos.items():
            sig = sigs.get(name)
            if (
                sig is None
                or (sig.input_sig, sig.chunker_sig) != (info.input_sig, chunker)
                or (sig.embed_sig != embedder and not (waits and not sig.embed_sig))
            ):
                found[name] = "stale"
            elif embedder and not sig.embed_sig:
                found[name] = "pending"
        return found

    def embed(
        self,
        dataset_id: str,
        names: Sequence[str],
        progress: ProgressCallback | None,
        *,
        whole: bool,
    ) -> EmbedReport:
        """Add the vectors that are pending: those of ``names``, in this order.

        ``whole`` says that the sync is of all files of the dataset.
        """
        if not names:
            return EmbedReport()
        return self._service.embed_pending(dataset_id, doc_names=names, progress=progress)

    def delete(
        self, dataset_id: str, infos: Sequence[DocumentInfo]
    ) -> tuple[list[str], list[Failure]]:
        """Delete documents that are as ``infos`` say: the names of those deleted, and failures."""
        return delete_documents(self._service, dataset_id, infos)

    def expire(self, dataset_id: str, but: Collection[str]) -> int:
        """Delete what has expired, but for the documents of the roots ``but``; how many."""
        return remove_expired(self._local.documents, dataset_id, kept_roots=but)

    def layered(self, dataset_id: str, names: Collection[str]) -> set[str]:
        """Those of ``names`` that have layers."""
        layers = self._local.layer_repo
        if len(names) > DELETED_AT_ONCE:
            return {layer.doc_name for layer in layers.list(dataset_id)}.intersection(names)
        return {
            name
            for name in names
            if any(layers.get(dataset_id, name, kind) is not None for kind in _LAYERS)
        }

    def move_layers(self, dataset_id: str, pairs: Iterable[tuple[str, str]]) -> None:
        """Give each second document of ``pairs`` the layers that the first has of the same content,
        vectors included, where it has none that are fresh.

        What was made of a content is as good under another name. All are read before any is
        written, so that names may change places. A layer whose document moves on meanwhile is left
        out: it is made again like any other. A store that cannot give the vector of a layer costs a
        call of the embedder.

        Raises:
            DerivationError: that call failed.
        """
        found = [
            (layer, new)
            for old, new in pairs
            for kind in _LAYERS
            if (layer := self._service.layer(dataset_id, old, kind)) is not None
            and layer.stale in (None, "source")
        ]
        for layer, new in found:
            self._give(layer, new)

    def _give(self, layer: DerivedLayer, new: str) -> None:
        dataset_id, kind = layer.dataset_id, layer.layer
        info = self.info(dataset_id, new)
        if info is None or info.content_sha256 != layer.sig.input_sig:
            return
        own = self._service.layer(dataset_id, new, kind)
        if own is not None and own.stale is None:
            return
        sig = attrs.evolve(layer.sig, source_version=info.version)
        if self._put_with_vector(attrs.evolve(layer, doc_name=new, stale=None, sig=sig)):
            return
        # ConflictError says that the document has moved on.
        with suppress(ConflictError):
            self._service.put_document_layer(
                dataset_id,
                new,
                kind,
                layer.content,
                prompt_sig=sig.prompt_sig,
                source_version=info.version,
            )

    def _put_with_vector(self, layer: DerivedLayer) -> bool:
        """Put a layer if the store has the vector of its text, or it needs none; whether it did."""
        vector: Vector | None = None
        if layer.sig.embed_sig:
            digest = embedding_input_sig(layer.content)
            space = dense(layer.sig.embed_sig)
            vector = self._local.chunks.known_vectors(layer.dataset_id, space, [digest]).get(digest)
            if vector is None:
                return False
        self._local.layer_repo.put(attrs.evolve(layer, vector=vector))
        return True

    # What a sync would cost, without a call of the embedder

    def price(self, dataset_id: str, documents: Iterable[NewDocument]) -> Price | None:
        """The cost of putting ``documents``, in the batches in which they would be put; None where
        the other side alone knows."""
        seen: set[str] = set()
        total = Price()
        for batch in batches(documents):
            every = [text for document in batch for text in self._texts(document)]
            texts = {embedding_input_sig(text): text for text in every}
            wanted = self._missing(dataset_id, {k: v for k, v in texts.items() if k not in seen})
            seen.update(wanted)
            calls = -(-len(wanted) // EMBED_BATCH)
            total += Price(chunks=len(every), embedded=len(wanted), model_calls=calls)
        return total

    def price_pending(self, dataset_id: str, names: Iterable[str]) -> Price:
        """The cost of the vectors that documents which are chunked already still lack."""
        texts: dict[str, str] = {}
        for name in names:
            info = self.info(dataset_id, name)
            chunks = self._local.chunks
            paths = (chunk.heading_path for chunk in chunks.iter_chunks(dataset_id, name))
            title = embedded_title(name, info.metadata if info else {}, paths)
            for chunk in chunks.iter_chunks(dataset_id, name, vectors=True):
                if chunk.vector is None:
                    text = embedding_text(title, chunk.heading_path, chunk.content)
                    texts[chunk.sig.input_sig] = text
        missing = len(self._missing(dataset_id, texts))
        return Price(embedded=missing, model_calls=-(-missing // EMBED_BATCH))

    def _texts(self, document: NewDocument) -> list[str]:
        """What is embedded of a document, chunk by chunk, as `Deriver` puts it together."""
        metadata = document.metadata or {}
        content = document.content
        chunkers = self._service.options.chunkers
        chunker = chunkers.for_document(document.name, metadata, document.outline or "")
        specs = chunker.chunk(content)
        title = embedded_title(document.name, metadata, (spec.heading_path for spec in specs))
        return [
            embedding_text(title, spec.heading_path, content[spec.start : spec.end])
            for spec in specs
        ]

    def _missing(self, dataset_id: str, texts: Mapping[str, str]) -> set[str]:
        """The digests of those texts that would be embedded."""
        chunks, embedder = self._local.chunks, self._local.options.embedder
        if embedder is None or not texts:
            return set()
        gate = CoverageGate(embedder)
        wanted = {digest for digest, text in texts.items() if gate.admits(text)}
        if wanted:
            space = dense(embedder.signature)
            wanted -= set(chunks.known_vectors(dataset_id, space, sorted(wanted)))
        return wanted


class ServerTarget(SyncTarget):
    """A knowledge base by a Service's own methods: its store is elsewhere, and so are its models.

    What is derived is the other side's affair: a document that is stored counts as fresh, and what
    has expired is not seen and is left to whoever keeps the store.
    """

    def __init__(self, service: KnowledgeBase) -> None:
        self._service = service

    def infos(self, dataset_id: str) -> Sequence[DocumentInfo]:
        return self._listed(dataset_id)

    def info(self, dataset_id: str, name: str) -> DocumentInfo | None:
        # A name comes before all that only begin with it.
        found = self._listed(dataset_id, prefix=name, limit=1)
        return found[0] if found and found[0].name == name else None

    def below(self, dataset_id: str, folder: str, limit: int) -> Sequence[DocumentInfo]:
        return self._listed(dataset_id, prefix=folder, limit=limit)

    def document(self, dataset_id: str, name: str) -> SourceDocument | None:
        try:
            return self._service.get_document(dataset_id, name)
        except NotFoundError:
            return None

    def states(
        self, dataset_id: str, infos: Mapping[str, DocumentInfo]
    ) -> Mapping[str, ChunkState]:
        return {}

    def embed(
        self,
        dataset_id: str,
        names: Sequence[str],
        progress: ProgressCallback | None,
        *,
        whole: bool,
    ) -> EmbedReport:
        """Which documents lack vectors, the other side knows."""
        if not whole or self._service.options.embedder is None:
            return EmbedReport()
        try:
            stats = self._service.stats(dataset_id)
        except NotFoundError:
            return EmbedReport()
        if not any(each.pending for each in stats):
            return EmbedReport()
        return self._service.embed_pending(dataset_id, progress=progress)

    def delete(
        self, dataset_id: str, infos: Sequence[DocumentInfo]
    ) -> tuple[list[str], list[Failure]]:
        deleted: list[str] = []
        failed: list[Failure] = []
        for info in infos:
            deadlines.check("deleting documents")
            try:
                self._service.delete_document(dataset_id, info.name, if_version=info.version)
            except (CancelledError, StoreAwayError):
                raise
            except ConflictError:
                continue  # others wrote it: the next sync decides
            except TriptychError as error:
                failed.append(Failure(dataset_id=dataset_id, name=info.name, error=error))
            else:
                deleted.append(info.name)
        return deleted, failed

    def expire(self, dataset_id: str, but: Collection[str]) -> int:
        return 0

    def layered(self, dataset_id: str, names: Collection[str]) -> set[str]:
        return {layer.doc_name for layer in self._service.layers(dataset_id)}.intersection(names)

    def _put_with_vector(self, layer: DerivedLayer) -> bool:
        """False: the vector is made again, or found by its text, on the other side."""
        return False

    def price(self, dataset_id: str, documents: Iterable[NewDocument]) -> Price | None:
        for _ in documents:
            pass  # reading them is what finds out which there are
        return None

    def price_pending(self, dataset_id: str, names: Iterable[str]) -> Price:
        return Price()

    def _listed(
        self, dataset_id: str, *, prefix: str = "", limit: int | None = None
    ) -> Sequence[DocumentInfo]:
        try:
            return self._service.list_documents(dataset_id, prefix=prefix, limit=limit)
        except NotFoundError:
            return ()


# Deleting


def documents_of(service: KnowledgeBase, root: Root) -> list[DocumentInfo]:
    """The documents that a folder or source brought in, ordered by name."""
    infos = service_of(service, _KNOWN).documents.list(root.dataset_id)
    return [info for info in infos if info.system.sync_root in root.keys]


def delete_documents_of(service: KnowledgeBase, root: Root) -> tuple[list[str], list[Failure]]:
    """Delete the documents that a folder or source brought in: the names of those deleted, and
    failures."""
    infos = documents_of(service, root)
    deleted: list[str] = []
    failed: list[Failure] = []
    for start in range(0, len(infos), DELETED_AT_ONCE):
        deadlines.check("deleting documents")
        several = infos[start : start + DELETED_AT_ONCE]
        done, not_done = delete_documents(service, root.dataset_id, several)
        deleted += done
        failed += not_done
    return deleted, failed


def delete_documents(
    service: KnowledgeBase, dataset_id: str, infos: Sequence[DocumentInfo]
) -> tuple[list[str], list[Failure]]:
    """Delete these documents of a dataset, as far as they are as ``infos`` say.

    The names of those that were deleted, and what failed.
    """
    documents = service_of(service, _KNOWN).documents
    try:
        deleted = documents.delete_many(dataset_id, {info.name: info.version for info in infos})
    except (CancelledError, StoreAwayError):
        raise
    except TriptychError as error:
        left = [info for info in infos if _is_left(documents, info)]
        gone = [info.name for info in infos if info not in left]
        return gone, [Failure(dataset_id=dataset_id, name=each.name, error=error) for each in left]
    return list(deleted), []


def _is_left(documents: DocumentRepo, info: DocumentInfo) -> bool:
    """Whether the document is as it was, as far as the store can tell."""
    try:
        return documents.get_info(info.dataset_id, info.name) is not None
    except (CancelledError, StoreAwayError):
        raise
    except TriptychError:
        return True
