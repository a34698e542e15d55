"""Bring a dataset's layers up to date with an extractive summariser."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import attrs

from triptych import deadlines
from triptych._internal.progress import Progress, ProgressCallback
from triptych.errors import ConflictError, NotFoundError, TriptychError
from triptych.layers.extractive import SIGNATURE_PREFIX, ExtractiveSummarizer
from triptych.records import (
    DerivedLayer,
    DocumentInfo,
    DocumentSummary,
    Failure,
    Layer,
)
from triptych.service import Service

__all__ = ["FillReport", "fill_layers"]

_PAGE = 256
_LAYERS = (Layer.ABSTRACT, Layer.OVERVIEW)


@attrs.frozen(kw_only=True, slots=True)
class FillReport:
    """What a filling did: of ``checked`` documents, ``fresh`` needed nothing and ``written``
    got a new abstract or overview.

    ``kept`` names the documents with a stale layer that another hand wrote, a person or a
    model: it stays, and says that it is stale. ``failed`` documents are as they were before;
    the name "" is the dataset itself. ``dataset_written`` is whether its own layers were.
    """

    checked: int = 0
    fresh: int = 0
    written: int = 0
    kept: tuple[str, ...] = ()
    failed: tuple[Failure, ...] = ()
    dataset_written: bool = False


def fill_layers(
    service: Service,
    dataset_id: str,
    *,
    summarizer: ExtractiveSummarizer | None = None,
    doc_names: Collection[str] | None = None,
    progress: ProgressCallback | None = None,
) -> FillReport:
    """Write every missing or outdated L0 and L1 of the documents, then those of the dataset.

    Outdated are a stale layer and one that was made with other options, where an extractive
    summariser made it; layers of other makers are never touched. ``doc_names`` limits which
    documents are looked at; names that do not exist are passed over. The dataset's own layers
    are made from all abstracts, whoever wrote them. One document that fails stops no other.
    What a deadline interrupts goes on with the next call.

    Raises:
        NotFoundError: there is no such dataset.
        CancelledError: a deadline passed; what was written stays.
    """
    summarizer = summarizer or ExtractiveSummarizer()
    stored = {(layer.doc_name, layer.layer): layer for layer in service.layers(dataset_id)}
    checked = fresh = written = 0
    kept: list[str] = []
    failed: list[Failure] = []
    total = None if doc_names is None else len(set(doc_names))
    for info in _documents(service, dataset_id, doc_names):
        deadlines.check("filling layers")
        wanted, foreign = _wanted(info, stored, summarizer.signature)
        checked += 1
        if foreign:
            kept.append(info.name)
        try:
            if wanted and _write(service, info, wanted, summarizer):
                written += 1
            elif not foreign:
                fresh += 1
        except TriptychError as error:
            deadlines.check("filling layers")
            failed.append(Failure(dataset_id=dataset_id, name=info.name, error=error))
        if progress is not None:
            progress(Progress(phase="layers", done=checked, total=total))
    dataset_written = False
    try:
        dataset_written = _fill_dataset(service, dataset_id, summarizer)
    except TriptychError as error:
        deadlines.check("filling layers")
        failed.append(Failure(dataset_id=dataset_id, name="", error=error))
    return FillReport(
        checked=checked,
        fresh=fresh,
        written=written,
        kept=tuple(kept),
        failed=tuple(failed),
        dataset_written=dataset_written,
    )


def _documents(
    service: Service, dataset_id: str, doc_names: Collection[str] | None
) -> Iterator[DocumentInfo]:
    names = None if doc_names is None else frozenset(doc_names)
    after = ""
    while page := service.list_documents(dataset_id, after=after, limit=_PAGE):
        for info in page:
            if names is None or info.name in names:
                yield info
        after = page[-1].name


def _is_ours(layer: DerivedLayer) -> bool:
    return layer.sig.prompt_sig.startswith(f"{SIGNATURE_PREFIX}-")


def _wanted(
    info: DocumentInfo, stored: Mapping[tuple[str, Layer], DerivedLayer], signature: str
) -> tuple[list[Layer], bool]:
    """The layers to write, and whether a stale one of another maker is left."""
    wanted = []
    foreign = False
    for layer in _LAYERS:
        old = stored.get((info.name, layer))
        if old is None:
            wanted.append(layer)
            continue
        is_stale = old.sig.input_sig != info.content_sha256
        if not _is_ours(old):
            foreign = foreign or is_stale
        elif is_stale or old.sig.prompt_sig != signature:
            wanted.append(layer)
    return wanted, foreign


def _write(
    service: Service, info: DocumentInfo, wanted: list[Layer], summarizer: ExtractiveSummarizer
) -> bool:
    """Write the layers of the document as it is now; once more if it changes meanwhile.

    False when it was deleted meanwhile.
    """
    for attempt in range(2):
        try:
            document = service.get_document(info.dataset_id, info.name)
            context = summarizer.summarize_document(
                document.content, title=document.metadata.get("title")
            )
            for layer in wanted:
                service.put_document_layer(
                    info.dataset_id,
                    info.name,
                    layer,
                    context.abstract if layer is Layer.ABSTRACT else context.overview,
                    prompt_sig=summarizer.signature,
                    source_version=document.version,
                )
        except NotFoundError:
            return False
        except ConflictError:
            if attempt:
                raise
        else:
            return True
    return False


def _fill_dataset(service: Service, dataset_id: str, summarizer: ExtractiveSummarizer) -> bool:
    summaries = [
        DocumentSummary(name=layer.doc_name, abstract=layer.content)
        for layer in service.layers(dataset_id, layer=Layer.ABSTRACT)
        if layer.doc_name and not layer.doc_name.endswith("/")
    ]
    if not summaries:
        return False
    wanted = []
    for layer in _LAYERS:
        old = service.dataset_layer(dataset_id, layer)
        if old is None or (
            _is_ours(old) and (old.stale is not None or old.sig.prompt_sig != summarizer.signature)
        ):
            wanted.append(layer)
    if not wanted:
        return False
    context = summarizer.summarize_dataset(summaries)
    for layer in reversed(wanted):
        service.put_dataset_layer(
            dataset_id,
            layer,
            context.abstract if layer is Layer.ABSTRACT else context.overview,
            prompt_sig=summarizer.signature,
            summaries=summaries,
        )
    return True
