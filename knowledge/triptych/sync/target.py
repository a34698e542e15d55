"""What a sync asks of the knowledge base that it writes to, beside the store or on a server."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Literal, Protocol

from triptych import deadlines
from triptych._internal.progress import ProgressCallback
from triptych.derivation.living import remove_expired
from triptych.errors import (
    CancelledError,
    ConflictError,
    NotAvailableError,
    NotFoundError,
    StoreAwayError,
    TriptychError,
)
from triptych.records import (
    DerivedLayer,
    DerivedSig,
    DocumentInfo,
    EmbedReport,
    Failure,
    Layer,
    NewDocument,
    SourceDocument,
)
from triptych.records.documents import expired_by
from triptych.service import Service
from triptych.sync import deletes, renames
from triptych.sync.cost_estimate import Price, price, price_pending

ChunkState = Literal["stale", "pending"]
"""Chunks that are missing or of another text or configuration, or that lack vectors."""


class SyncTarget(Protocol):
    """The knowledge base that a sync writes to. Documents are put by its Service."""

    def infos(self, dataset_id: str) -> Sequence[DocumentInfo]:
        """All documents of a dataset; none where there is no such dataset."""
        ...

    def info(self, dataset_id: str, name: str) -> DocumentInfo | None:
        """One document, None where there is none."""
        ...

    def below(self, dataset_id: str, folder: str, limit: int) -> Sequence[DocumentInfo]:
        """The first ``limit`` documents whose names begin with ``folder``."""
        ...

    def document(self, dataset_id: str, name: str) -> SourceDocument | None:
        """One document with its content, None where there is none."""
        ...

    def states(
        self, dataset_id: str, infos: Mapping[str, DocumentInfo]
    ) -> Mapping[str, ChunkState]:
        """Those of these documents whose chunks a sync makes again, or embeds."""
        ...

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
        ...

    def delete(
        self, dataset_id: str, infos: Sequence[DocumentInfo]
    ) -> tuple[list[str], list[Failure]]:
        """Delete documents that are as ``infos`` say: the names of those deleted, and failures."""
        ...

    def expire(self, dataset_id: str, but: Collection[str]) -> int:
        """Delete what has expired, but for the documents of the roots ``but``; how many."""
        ...

    def layered(self, dataset_id: str, names: Collection[str]) -> set[str]:
        """Those of ``names`` that have layers."""
        ...

    def move_layers(self, dataset_id: str, pairs: Iterable[tuple[str, str]]) -> None:
        """Give each second document of ``pairs`` the layers of the first, as `renames` says."""
        ...

    def price(self, dataset_id: str, documents: Iterable[NewDocument]) -> Price | None:
        """The cost of putting ``documents``; None where the other side alone knows."""
        ...

    def price_pending(self, dataset_id: str, names: Iterable[str]) -> Price:
        """The cost of the vectors that these documents lack."""
        ...


def target_of(service: Service) -> SyncTarget:
    """How a sync reaches the documents of ``service``."""
    try:
        _ = service.store
    except NotAvailableError:
        return ServiceTarget(service)
    return StoreTarget(service)


class StoreTarget:
    """A `SyncTarget` beside the store."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def infos(self, dataset_id: str) -> Sequence[DocumentInfo]:
        """See `SyncTarget.infos`; expired documents are among them."""
        return self._service.documents.list(dataset_id)

    def info(self, dataset_id: str, name: str) -> DocumentInfo | None:
        """See `SyncTarget.info`."""
        return self._service.documents.get_info(dataset_id, name)

    def below(self, dataset_id: str, folder: str, limit: int) -> Sequence[DocumentInfo]:
        """See `SyncTarget.below`."""
        # After the folder's own name, which no document has: a store that is itself made of
        # files then need not look through all of them.
        return self._service.documents.list(dataset_id, prefix=folder, after=folder, limit=limit)

    def document(self, dataset_id: str, name: str) -> SourceDocument | None:
        """See `SyncTarget.document`."""
        return self._service.documents.get(dataset_id, name)

    def states(
        self, dataset_id: str, infos: Mapping[str, DocumentInfo]
    ) -> Mapping[str, ChunkState]:
        """See `SyncTarget.states`."""
        options, chunks = self._service.options, self._service.chunks
        sigs = chunks.get_doc_sigs(dataset_id, list(infos)) if infos else {}
        chunker = options.chunkers.signature
        config = chunks.config(dataset_id)
        model = options.embedder_of(config)
        embedder = "" if model is None else model.signature
        waits = config is not None and config.embed_sig == embedder
        found: dict[str, ChunkState] = {}
        for name, info in infos.items():
            sig = sigs.get(name)
            if not _is_fresh(sig, info, chunker, embedder, waits=waits):
                found[name] = "stale"
            elif embedder and sig is not None and not sig.embed_sig:
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
        """See `SyncTarget.embed`."""
        if not names:
            return EmbedReport()
        return self._service.embed_pending(dataset_id, doc_names=names, progress=progress)

    def delete(
        self, dataset_id: str, infos: Sequence[DocumentInfo]
    ) -> tuple[list[str], list[Failure]]:
        """See `SyncTarget.delete`."""
        return deletes.delete_documents(self._service, dataset_id, infos)

    def expire(self, dataset_id: str, but: Collection[str]) -> int:
        """See `SyncTarget.expire`."""
        documents, now = self._service.documents, datetime.now(UTC)
        if not documents.with_expired([dataset_id], now):
            return 0
        found = documents.list(dataset_id, where=expired_by(now))
        names = [info.name for info in found if info.system.sync_root not in but]
        return remove_expired(documents, dataset_id, names) if names else 0

    def layered(self, dataset_id: str, names: Collection[str]) -> set[str]:
        """See `SyncTarget.layered`."""
        return deletes.layered(self._service, dataset_id, names)

    def move_layers(self, dataset_id: str, pairs: Iterable[tuple[str, str]]) -> None:
        """See `SyncTarget.move_layers`."""
        renames.move_layers(self._service, dataset_id, pairs)

    def price(self, dataset_id: str, documents: Iterable[NewDocument]) -> Price | None:
        """See `SyncTarget.price`."""
        return price(self._service, dataset_id, documents)

    def price_pending(self, dataset_id: str, names: Iterable[str]) -> Price:
        """See `SyncTarget.price_pending`."""
        return price_pending(self._service, dataset_id, names)


class ServiceTarget:
    """A `SyncTarget` by a Service's own methods: its store is elsewhere, and so are its models.

    What is derived is the other side's affair: a document that is stored counts as fresh, and what
    has expired is not seen and is left to whoever keeps the store.
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    def infos(self, dataset_id: str) -> Sequence[DocumentInfo]:
        """See `SyncTarget.infos`."""
        return self._listed(dataset_id)

    def info(self, dataset_id: str, name: str) -> DocumentInfo | None:
        """See `SyncTarget.info`."""
        # A name comes before all that only begin with it.
        found = self._listed(dataset_id, prefix=name, limit=1)
        return found[0] if found and found[0].name == name else None

    def below(self, dataset_id: str, folder: str, limit: int) -> Sequence[DocumentInfo]:
        """See `SyncTarget.below`."""
        return self._listed(dataset_id, prefix=folder, limit=limit)

    def document(self, dataset_id: str, name: str) -> SourceDocument | None:
        """See `SyncTarget.document`."""
        try:
            return self._service.get_document(dataset_id, name)
        except NotFoundError:
            return None

    def states(
        self, dataset_id: str, infos: Mapping[str, DocumentInfo]
    ) -> Mapping[str, ChunkState]:
        """See `SyncTarget.states`."""
        return {}

    def embed(
        self,
        dataset_id: str,
        names: Sequence[str],
        progress: ProgressCallback | None,
        *,
        whole: bool,
    ) -> EmbedReport:
        """See `SyncTarget.embed`; which documents lack vectors, the other side knows."""
        if not whole or not self._service.options.has_embedder:
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
        """See `SyncTarget.delete`."""
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
        """See `SyncTarget.expire`."""
        return 0

    def layered(self, dataset_id: str, names: Collection[str]) -> set[str]:
        """See `SyncTarget.layered`."""
        return {layer.doc_name for layer in self._service.layers(dataset_id)}.intersection(names)

    def move_layers(self, dataset_id: str, pairs: Iterable[tuple[str, str]]) -> None:
        """See `SyncTarget.move_layers`. The vector of a layer is made again, or found by its
        text."""
        found = [
            (layer, new)
            for old, new in pairs
            for kind in (Layer.ABSTRACT, Layer.OVERVIEW)
            if (layer := self._service.layer(dataset_id, old, kind)) is not None
            and layer.stale in (None, "source")
        ]
        for layer, new in found:
            self._give(layer, new)

    def price(self, dataset_id: str, documents: Iterable[NewDocument]) -> Price | None:
        """None: the other side cuts and embeds."""
        for _ in documents:
            pass  # reading them is what finds out which there are
        return None

    def price_pending(self, dataset_id: str, names: Iterable[str]) -> Price:
        """Nothing that is known here."""
        return Price()

    def _give(self, layer: DerivedLayer, new: str) -> None:
        dataset_id, kind = layer.dataset_id, layer.layer
        info = self.info(dataset_id, new)
        if info is None or info.content_sha256 != layer.sig.input_sig:
            return
        own = self._service.layer(dataset_id, new, kind)
        if own is not None and own.stale is None:
            return
        # ConflictError says that the document has moved on.
        with suppress(ConflictError):
            self._service.put_document_layer(
                dataset_id,
                new,
                kind,
                layer.content,
                prompt_sig=layer.sig.prompt_sig,
                source_version=info.version,
            )

    def _listed(
        self, dataset_id: str, *, prefix: str = "", limit: int | None = None
    ) -> Sequence[DocumentInfo]:
        try:
            return self._service.list_documents(dataset_id, prefix=prefix, limit=limit)
        except NotFoundError:
            return ()


def _is_fresh(
    sig: DerivedSig | None, info: DocumentInfo, chunker: str, embedder: str, *, waits: bool
) -> bool:
    """Whether a chunk set is of this document's input and this configuration.

    ``waits`` allows that it waits for its vectors: then its file need not be read again.
    """
    return (
        sig is not None
        and sig.input_sig == info.input_sig
        and sig.chunker_sig == chunker
        and (sig.embed_sig == embedder or (waits and not sig.embed_sig))
    )
