"""The methods of a Service that store, read, change and follow documents, and layers."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from triptych import telemetry
from triptych.contracts.models import how_to_set
from triptych.derivation.versions import put_again, unified_diff
from triptych.errors import NotAvailableError, ValidationError
from triptych.records import (
    DerivedLayer,
    DocumentInfo,
    DocumentSummary,
    EmbedWhen,
    Layer,
    Metadata,
    MetadataValue,
    NewDocument,
    SourceDocument,
    check_identifier,
    check_text,
    check_whole,
    parse_filter,
)
from triptych.search.dataset_settings import forget_settings
from triptych.service.base import ServiceBase, check_names, checked
from triptych.vectors.refused import REFUSED_SETTINGS

if TYPE_CHECKING:
    from triptych._internal.progress import ProgressCallback
    from triptych.records import ChangePage, EmbedReport, MetadataReport, PutReport


class Documents(ServiceBase):
    """The methods of a Service for documents and their layers."""

    @checked
    def put_document(
        self,
        dataset_id: str,
        name: str,
        content: str,
        metadata: Metadata | None = None,
        *,
        if_version: int | None = None,
        expires_at: datetime | Literal["never"] | None = None,
        embed: EmbedWhen = "now",
    ) -> SourceDocument:
        check_identifier(dataset_id, "dataset_id")
        later = _is_later(embed)
        document = NewDocument(
            name=name,
            content=content,
            metadata=metadata,
            if_version=if_version,
            expires_at=expires_at,
        )
        return self._parts.writer.put(dataset_id, document, later=later)

    @checked
    def put_documents(
        self,
        dataset_id: str,
        documents: Iterable[NewDocument] | Mapping[str, str],
        *,
        progress: ProgressCallback | None = None,
        embed: EmbedWhen = "now",
    ) -> PutReport:
        check_identifier(dataset_id, "dataset_id")
        later = _is_later(embed)
        report = self._parts.writer.put_many(dataset_id, documents, progress, later=later)
        return report.unless_all_failed()

    @checked
    def embed_pending(
        self,
        dataset_id: str | None = None,
        *,
        doc_names: Iterable[str] | None = None,
        retry: bool = False,
        progress: ProgressCallback | None = None,
    ) -> EmbedReport:
        from triptych.derivation.batches import check_progress

        check_progress(progress)
        if doc_names is not None:
            if dataset_id is None:
                raise ValidationError("doc_names need a dataset: give its dataset_id")
            if isinstance(doc_names, str):
                raise ValidationError("doc_names takes several names: give a list")
            doc_names = [check_text(name, "a document name") for name in doc_names]
        if all(lane.model is None for lane in self.options.models.lanes):
            raise NotAvailableError(
                f"there is no embedder to make vectors with: {how_to_set('embedder')}"
            )
        if dataset_id is not None:
            check_names(dataset_id)
            self._require_dataset(dataset_id)
        with telemetry.operation("embed_pending"):
            for each in self._asked(dataset_id) if retry else ():
                forget_settings(self.capabilities.settings, each, (REFUSED_SETTINGS,))
            if dataset_id is None:
                report = self._parts.embeddings.datasets(self.documents.list_datasets(), progress)
            else:
                report = self._parts.embeddings.dataset(dataset_id, doc_names, progress)
            telemetry.note(documents=report.documents, failed=len(report.failed))
            return report

    # Documents out

    @checked
    def get_document(
        self, dataset_id: str, name: str, version: int | None = None
    ) -> SourceDocument:
        check_names(dataset_id, name)
        document = (
            self._parts.living.get(dataset_id, name)
            if version is None
            else self._parts.history.get(dataset_id, name, version)
        )
        if document is None:
            raise self._missing(dataset_id, name)
        return document

    @checked
    def list_documents(
        self,
        dataset_id: str,
        *,
        prefix: str = "",
        after: str | DocumentInfo = "",
        limit: int | None = None,
        where: Mapping[str, Any] | None = None,
        sort: str = "$name",
    ) -> Sequence[DocumentInfo]:
        check_names(dataset_id)
        check_text(prefix, "prefix")
        if not isinstance(after, DocumentInfo):
            check_text(after, "after")
        if limit is not None:
            limit = min(check_whole(limit, "limit"), sys.maxsize)
        tree = None if where is None else parse_filter(where)
        page = self._parts.manager.page(
            dataset_id, tree, prefix=prefix, sort=sort, after=after, limit=limit
        )
        if not page:
            self._require_dataset(dataset_id)
        return page

    @checked
    def count_documents(self, dataset_id: str, *, where: Mapping[str, Any] | None = None) -> int:
        check_names(dataset_id)
        tree = None if where is None else parse_filter(where)
        found = self._parts.living.count(dataset_id, where=tree)
        if not found:
            self._require_dataset(dataset_id)
        return found

    @checked
    def update_metadata(
        self,
        dataset_id: str,
        changes: Mapping[str, MetadataValue | None],
        *,
        names: Iterable[str] | str | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> MetadataReport:
        from triptych.derivation.management import which_documents

        check_names(dataset_id)
        if not isinstance(changes, Mapping):
            raise ValidationError(f"changes map keys to values, not {changes!r:.60}")
        tree, wanted = which_documents(names, where)
        if tree is None:
            raise ValidationError(
                "an empty where matches every document: to change all of them, write "
                '{"$name": {"$exists": true}}'
            )
        self._require_dataset(dataset_id)
        return self._parts.manager.update_metadata(dataset_id, changes, tree, wanted)

    @checked
    def history(self, dataset_id: str, name: str) -> Sequence[DocumentInfo]:
        check_names(dataset_id, name)
        versions = self._parts.history.versions(dataset_id, name)
        if not versions:
            raise self._missing(dataset_id, name)
        return versions

    @checked
    def diff(self, dataset_id: str, name: str, old: int, new: int | None = None) -> str:
        before = self.get_document(dataset_id, name, old)
        return unified_diff(before, self.get_document(dataset_id, name, new))

    @checked
    def restore(
        self, dataset_id: str, name: str, version: int, *, if_version: int | None = None
    ) -> SourceDocument:
        old = self.get_document(dataset_id, name, version)
        return self._parts.writer.put(dataset_id, put_again(old, if_version))

    # Changes

    @checked
    def changes(
        self, since: str | None = None, *, dataset_id: str | None = None, limit: int = 1000
    ) -> ChangePage:
        from triptych.contracts.change_pages import read_changes

        return read_changes(self.capabilities.changes, since, dataset_id, limit)

    @checked
    def follow(
        self,
        since: str | None = None,
        *,
        dataset_id: str | None = None,
        limit: int = 1000,
        poll: float = 0.5,
    ) -> Iterator[ChangePage]:
        from triptych.contracts.change_pages import check_poll, follow_changes

        check_poll(poll)
        reader = self.capabilities.changes
        if reader is None:
            raise NotAvailableError("this store has no change log")

        def page_after(cursor: str | None) -> ChangePage:
            return self.changes(cursor, dataset_id=dataset_id, limit=limit)

        def head() -> str:
            self._require_open()
            return reader.change_head()

        return follow_changes(page_after, head, since, poll)

    # Layers

    @checked
    def layer(self, dataset_id: str, name: str, layer: Layer | str) -> DerivedLayer | None:
        check_names(dataset_id, name)
        return self._parts.layers.get(dataset_id, name, layer)

    @checked
    def dataset_layer(self, dataset_id: str, layer: Layer | str) -> DerivedLayer | None:
        check_names(dataset_id)
        return self._parts.layers.get(dataset_id, "", layer)

    @checked
    def layers(self, dataset_id: str, *, layer: Layer | str | None = None) -> list[DerivedLayer]:
        check_names(dataset_id)
        return self._parts.layers.list(dataset_id, layer)

    @checked
    def put_document_layer(
        self,
        dataset_id: str,
        name: str,
        layer: Layer | str,
        content: str,
        *,
        prompt_sig: str = "",
        source_version: int | None = None,
    ) -> DerivedLayer:
        check_names(dataset_id, name)
        _check_layer(content, prompt_sig)
        if source_version is not None:
            check_whole(source_version, "source_version")
        return self._parts.layers.put_document_layer(
            dataset_id, name, layer, content, prompt_sig, source_version
        )

    @checked
    def put_dataset_layer(
        self,
        dataset_id: str,
        layer: Layer | str,
        content: str,
        *,
        prompt_sig: str = "",
        summaries: Iterable[DocumentSummary] | None = None,
    ) -> DerivedLayer:
        check_names(dataset_id)
        _check_layer(content, prompt_sig)
        return self._parts.layers.put_folder_layer(
            dataset_id, "", layer, content, prompt_sig, summaries
        )

    @checked
    def put_folder_layer(
        self,
        dataset_id: str,
        folder: str,
        layer: Layer | str,
        content: str,
        *,
        prompt_sig: str = "",
        summaries: Iterable[DocumentSummary] | None = None,
    ) -> DerivedLayer:
        check_names(dataset_id, folder)
        _check_layer(content, prompt_sig)
        if not folder.endswith("/"):
            raise ValidationError(
                f"{folder!r} is not a folder: the name of a folder ends in a slash"
            )
        return self._parts.layers.put_folder_layer(
            dataset_id, folder, layer, content, prompt_sig, summaries
        )


def _is_later(embed: object) -> bool:
    if embed not in ("now", "later") or not isinstance(embed, str):
        raise ValidationError(f"embed is 'now' or 'later', not {embed!r}")
    return embed == "later"


def _check_layer(content: object, prompt_sig: object) -> None:
    check_text(content, "a layer's content")
    check_text(prompt_sig, "prompt_sig")
