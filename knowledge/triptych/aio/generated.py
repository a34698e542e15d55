"""`Service` and its views, awaited. Written by tools/generate_aio.py: do not edit."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, ParamSpec, TypeVar, Unpack

from triptych._internal.progress import ProgressCallback
from triptych.aio.answers import AsyncAnswerStream
from triptych.answering.options import AskOptions, DatasetAskOptions
from triptych.answering.records import Answer, AnswerReceipt
from triptych.answering.replay import Replay
from triptych.context.options import ContextOptions, DatasetContextOptions
from triptych.context.pack import ContextPack
from triptych.context.receipt import ContextReceipt
from triptych.context.records import Citation, Verification
from triptych.records import (
    CacheStats,
    ChangePage,
    DatasetConfig,
    DatasetStats,
    DeleteReport,
    DerivedLayer,
    DoctorReport,
    DocumentInfo,
    DocumentSummary,
    EmbedReport,
    EmbedWhen,
    Health,
    Layer,
    Metadata,
    MetadataReport,
    MetadataValue,
    NewDocument,
    PurgeReceipt,
    PutReport,
    Query,
    RebuildReport,
    RebuildScope,
    Result,
    SourceDocument,
)
from triptych.records.search_options import DatasetSearchOptions, SearchOptions
from triptych.service import Service
from triptych.service.dataset import Dataset
from triptych.service.pipeline import PipelineView

P = ParamSpec("P")
R = TypeVar("R")


__all__ = ["AsyncDatasetMethods", "AsyncPipelineMethods", "AsyncServiceMethods"]


class AsyncServiceMethods:
    """Every method of `Service`, awaited."""

    @property
    @abstractmethod
    def service(self) -> Service:
        """The Service inside."""

    @abstractmethod
    def _call(self, method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[R]:
        """Run a method in a worker thread."""

    async def put_document(
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
        """`Service.put_document`, awaited."""
        return await self._call(
            self.service.put_document,
            dataset_id,
            name,
            content,
            metadata,
            if_version=if_version,
            expires_at=expires_at,
            embed=embed,
        )

    async def put_documents(
        self,
        dataset_id: str,
        documents: Iterable[NewDocument] | Mapping[str, str],
        *,
        progress: ProgressCallback | None = None,
        embed: EmbedWhen = "now",
    ) -> PutReport:
        """`Service.put_documents`, awaited."""
        return await self._call(
            self.service.put_documents, dataset_id, documents, progress=progress, embed=embed
        )

    async def embed_pending(
        self,
        dataset_id: str | None = None,
        *,
        doc_names: Iterable[str] | None = None,
        progress: ProgressCallback | None = None,
    ) -> EmbedReport:
        """`Service.embed_pending`, awaited."""
        return await self._call(
            self.service.embed_pending, dataset_id, doc_names=doc_names, progress=progress
        )

    async def get_document(
        self, dataset_id: str, name: str, version: int | None = None
    ) -> SourceDocument:
        """`Service.get_document`, awaited."""
        return await self._call(self.service.get_document, dataset_id, name, version)

    async def list_documents(
        self,
        dataset_id: str,
        *,
        prefix: str = "",
        after: str | DocumentInfo = "",
        limit: int | None = None,
        where: Mapping[str, Any] | None = None,
        sort: str = "$name",
    ) -> Sequence[DocumentInfo]:
        """`Service.list_documents`, awaited."""
        return await self._call(
            self.service.list_documents,
            dataset_id,
            prefix=prefix,
            after=after,
            limit=limit,
            where=where,
            sort=sort,
        )

    async def count_documents(
        self, dataset_id: str, *, where: Mapping[str, Any] | None = None
    ) -> int:
        """`Service.count_documents`, awaited."""
        return await self._call(self.service.count_documents, dataset_id, where=where)

    async def update_metadata(
        self,
        dataset_id: str,
        changes: Mapping[str, MetadataValue | None],
        *,
        names: Iterable[str] | str | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> MetadataReport:
        """`Service.update_metadata`, awaited."""
        return await self._call(
            self.service.update_metadata, dataset_id, changes, names=names, where=where
        )

    async def history(self, dataset_id: str, name: str) -> Sequence[DocumentInfo]:
        """`Service.history`, awaited."""
        return await self._call(self.service.history, dataset_id, name)

    async def diff(self, dataset_id: str, name: str, old: int, new: int | None = None) -> str:
        """`Service.diff`, awaited."""
        return await self._call(self.service.diff, dataset_id, name, old, new)

    async def restore(
        self, dataset_id: str, name: str, version: int, *, if_version: int | None = None
    ) -> SourceDocument:
        """`Service.restore`, awaited."""
        return await self._call(
            self.service.restore, dataset_id, name, version, if_version=if_version
        )

    async def changes(
        self, since: str | None = None, *, dataset_id: str | None = None, limit: int = 1000
    ) -> ChangePage:
        """`Service.changes`, awaited."""
        return await self._call(self.service.changes, since, dataset_id=dataset_id, limit=limit)

    async def list_datasets(self) -> Sequence[str]:
        """`Service.list_datasets`, awaited."""
        return await self._call(self.service.list_datasets)

    async def create_dataset(self, dataset_id: str, *, language: str | None = None) -> bool:
        """`Service.create_dataset`, awaited."""
        return await self._call(self.service.create_dataset, dataset_id, language=language)

    async def configure_dataset(self, dataset_id: str, *, language: str) -> DatasetConfig:
        """`Service.configure_dataset`, awaited."""
        return await self._call(self.service.configure_dataset, dataset_id, language=language)

    async def delete_document(
        self, dataset_id: str, name: str, *, if_version: int | None = None
    ) -> bool:
        """`Service.delete_document`, awaited."""
        return await self._call(
            self.service.delete_document, dataset_id, name, if_version=if_version
        )

    async def delete_documents(
        self,
        dataset_id: str,
        *,
        names: Iterable[str] | str | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> DeleteReport:
        """`Service.delete_documents`, awaited."""
        return await self._call(self.service.delete_documents, dataset_id, names=names, where=where)

    async def remove_expired(self, dataset_id: str | None = None) -> int:
        """`Service.remove_expired`, awaited."""
        return await self._call(self.service.remove_expired, dataset_id)

    async def delete_dataset(self, dataset_id: str) -> bool:
        """`Service.delete_dataset`, awaited."""
        return await self._call(self.service.delete_dataset, dataset_id)

    async def recreate(self, dataset_id: str) -> bool:
        """`Service.recreate`, awaited."""
        return await self._call(self.service.recreate, dataset_id)

    async def purge(self, dataset_id: str, name: str | None = None) -> PurgeReceipt:
        """`Service.purge`, awaited."""
        return await self._call(self.service.purge, dataset_id, name)

    async def search(self, query: Query | str, **options: Unpack[SearchOptions]) -> Result:
        """`Service.search`, awaited."""
        return await self._call(self.service.search, query, **options)

    async def search_documents(
        self, query: Query | str, **options: Unpack[SearchOptions]
    ) -> Result:
        """`Service.search_documents`, awaited."""
        return await self._call(self.service.search_documents, query, **options)

    async def search_many(
        self, queries: Iterable[Query | str], **options: Unpack[SearchOptions]
    ) -> list[Result]:
        """`Service.search_many`, awaited."""
        return await self._call(self.service.search_many, queries, **options)

    async def context(
        self, query: Query | str, token_budget: int, **options: Unpack[ContextOptions]
    ) -> ContextPack:
        """`Service.context`, awaited."""
        return await self._call(self.service.context, query, token_budget, **options)

    async def verify(self, citation: Citation) -> Verification:
        """`Service.verify`, awaited."""
        return await self._call(self.service.verify, citation)

    async def ask(self, question: Query | str, **options: Unpack[AskOptions]) -> Answer:
        """`Service.ask`, awaited."""
        return await self._call(self.service.ask, question, **options)

    def ask_stream(self, question: Query | str, **options: Unpack[AskOptions]) -> AsyncAnswerStream:
        """`Service.ask_stream`, followed with ``async for``."""
        return AsyncAnswerStream(lambda: self.service.ask_stream(question, **options))

    async def replay(self, receipt: ContextReceipt | AnswerReceipt) -> Replay:
        """`Service.replay`, awaited."""
        return await self._call(self.service.replay, receipt)

    async def layer(self, dataset_id: str, name: str, layer: Layer | str) -> DerivedLayer | None:
        """`Service.layer`, awaited."""
        return await self._call(self.service.layer, dataset_id, name, layer)

    async def dataset_layer(self, dataset_id: str, layer: Layer | str) -> DerivedLayer | None:
        """`Service.dataset_layer`, awaited."""
        return await self._call(self.service.dataset_layer, dataset_id, layer)

    async def layers(
        self, dataset_id: str, *, layer: Layer | str | None = None
    ) -> list[DerivedLayer]:
        """`Service.layers`, awaited."""
        return await self._call(self.service.layers, dataset_id, layer=layer)

    async def put_document_layer(
        self,
        dataset_id: str,
        name: str,
        layer: Layer | str,
        content: str,
        *,
        prompt_sig: str = "",
        source_version: int | None = None,
    ) -> DerivedLayer:
        """`Service.put_document_layer`, awaited."""
        return await self._call(
            self.service.put_document_layer,
            dataset_id,
            name,
            layer,
            content,
            prompt_sig=prompt_sig,
            source_version=source_version,
        )

    async def put_dataset_layer(
        self,
        dataset_id: str,
        layer: Layer | str,
        content: str,
        *,
        prompt_sig: str = "",
        summaries: Iterable[DocumentSummary] | None = None,
    ) -> DerivedLayer:
        """`Service.put_dataset_layer`, awaited."""
        return await self._call(
            self.service.put_dataset_layer,
            dataset_id,
            layer,
            content,
            prompt_sig=prompt_sig,
            summaries=summaries,
        )

    async def put_folder_layer(
        self,
        dataset_id: str,
        folder: str,
        layer: Layer | str,
        content: str,
        *,
        prompt_sig: str = "",
        summaries: Iterable[DocumentSummary] | None = None,
    ) -> DerivedLayer:
        """`Service.put_folder_layer`, awaited."""
        return await self._call(
            self.service.put_folder_layer,
            dataset_id,
            folder,
            layer,
            content,
            prompt_sig=prompt_sig,
            summaries=summaries,
        )

    async def rebuild(
        self,
        scope: RebuildScope | None = None,
        *,
        dataset_id: str = "",
        doc_name: str = "",
        progress: ProgressCallback | None = None,
    ) -> RebuildReport:
        """`Service.rebuild`, awaited."""
        return await self._call(
            self.service.rebuild, scope, dataset_id=dataset_id, doc_name=doc_name, progress=progress
        )

    async def stats(self, dataset_id: str | None = None) -> list[DatasetStats]:
        """`Service.stats`, awaited."""
        return await self._call(self.service.stats, dataset_id)

    async def cache_stats(self) -> CacheStats:
        """`Service.cache_stats`, awaited."""
        return await self._call(self.service.cache_stats)

    async def health(self, *, probe: bool = True) -> Health:
        """`Service.health`, awaited."""
        return await self._call(self.service.health, probe=probe)

    async def doctor(
        self,
        *,
        repair: bool = False,
        dataset_id: str | None = None,
        progress: ProgressCallback | None = None,
    ) -> DoctorReport:
        """`Service.doctor`, awaited."""
        return await self._call(
            self.service.doctor, repair=repair, dataset_id=dataset_id, progress=progress
        )


class AsyncDatasetMethods:
    """Every method of `Dataset`, awaited."""

    @property
    @abstractmethod
    def view(self) -> Dataset:
        """The Dataset inside."""

    @abstractmethod
    def _call(self, method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[R]:
        """Run a method in a worker thread."""

    async def create(self, *, language: str | None = None) -> bool:
        """`Dataset.create`, awaited."""
        return await self._call(self.view.create, language=language)

    async def put(
        self,
        name: str,
        content: str,
        metadata: Metadata | None = None,
        *,
        if_version: int | None = None,
        expires_at: datetime | Literal["never"] | None = None,
        embed: EmbedWhen = "now",
    ) -> SourceDocument:
        """`Dataset.put`, awaited."""
        return await self._call(
            self.view.put,
            name,
            content,
            metadata,
            if_version=if_version,
            expires_at=expires_at,
            embed=embed,
        )

    async def put_many(
        self,
        documents: Iterable[NewDocument] | Mapping[str, str],
        *,
        progress: ProgressCallback | None = None,
        embed: EmbedWhen = "now",
    ) -> PutReport:
        """`Dataset.put_many`, awaited."""
        return await self._call(self.view.put_many, documents, progress=progress, embed=embed)

    async def embed_pending(
        self, doc_names: Iterable[str] | None = None, *, progress: ProgressCallback | None = None
    ) -> EmbedReport:
        """`Dataset.embed_pending`, awaited."""
        return await self._call(self.view.embed_pending, doc_names, progress=progress)

    async def get(self, name: str, version: int | None = None) -> SourceDocument:
        """`Dataset.get`, awaited."""
        return await self._call(self.view.get, name, version)

    async def history(self, name: str) -> Sequence[DocumentInfo]:
        """`Dataset.history`, awaited."""
        return await self._call(self.view.history, name)

    async def diff(self, name: str, old: int, new: int | None = None) -> str:
        """`Dataset.diff`, awaited."""
        return await self._call(self.view.diff, name, old, new)

    async def restore(
        self, name: str, version: int, *, if_version: int | None = None
    ) -> SourceDocument:
        """`Dataset.restore`, awaited."""
        return await self._call(self.view.restore, name, version, if_version=if_version)

    async def changes(self, since: str | None = None, *, limit: int = 1000) -> ChangePage:
        """`Dataset.changes`, awaited."""
        return await self._call(self.view.changes, since, limit=limit)

    async def list(
        self,
        *,
        prefix: str = "",
        after: str | DocumentInfo = "",
        limit: int | None = None,
        where: Mapping[str, Any] | None = None,
        sort: str = "$name",
    ) -> Sequence[DocumentInfo]:
        """`Dataset.list`, awaited."""
        return await self._call(
            self.view.list, prefix=prefix, after=after, limit=limit, where=where, sort=sort
        )

    async def count(self, *, where: Mapping[str, Any] | None = None) -> int:
        """`Dataset.count`, awaited."""
        return await self._call(self.view.count, where=where)

    async def update_metadata(
        self,
        changes: Mapping[str, MetadataValue | None],
        *,
        names: Iterable[str] | str | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> MetadataReport:
        """`Dataset.update_metadata`, awaited."""
        return await self._call(self.view.update_metadata, changes, names=names, where=where)

    async def delete_many(
        self, *, names: Iterable[str] | str | None = None, where: Mapping[str, Any] | None = None
    ) -> DeleteReport:
        """`Dataset.delete_many`, awaited."""
        return await self._call(self.view.delete_many, names=names, where=where)

    async def remove_expired(self) -> int:
        """`Dataset.remove_expired`, awaited."""
        return await self._call(self.view.remove_expired)

    async def delete(self, name: str, *, if_version: int | None = None) -> bool:
        """`Dataset.delete`, awaited."""
        return await self._call(self.view.delete, name, if_version=if_version)

    async def recreate(self) -> bool:
        """`Dataset.recreate`, awaited."""
        return await self._call(self.view.recreate)

    async def purge(self, name: str) -> PurgeReceipt:
        """`Dataset.purge`, awaited."""
        return await self._call(self.view.purge, name)

    async def search(self, query: Query | str, **options: Unpack[DatasetSearchOptions]) -> Result:
        """`Dataset.search`, awaited."""
        return await self._call(self.view.search, query, **options)

    async def search_documents(
        self, query: Query | str, **options: Unpack[DatasetSearchOptions]
    ) -> Result:
        """`Dataset.search_documents`, awaited."""
        return await self._call(self.view.search_documents, query, **options)

    async def search_many(
        self, queries: Iterable[Query | str], **options: Unpack[DatasetSearchOptions]
    ) -> Sequence[Result]:
        """`Dataset.search_many`, awaited."""
        return await self._call(self.view.search_many, queries, **options)

    async def context(
        self, query: Query | str, token_budget: int, **options: Unpack[DatasetContextOptions]
    ) -> ContextPack:
        """`Dataset.context`, awaited."""
        return await self._call(self.view.context, query, token_budget, **options)

    async def ask(self, question: Query | str, **options: Unpack[DatasetAskOptions]) -> Answer:
        """`Dataset.ask`, awaited."""
        return await self._call(self.view.ask, question, **options)

    def ask_stream(
        self, question: Query | str, **options: Unpack[DatasetAskOptions]
    ) -> AsyncAnswerStream:
        """`Dataset.ask_stream`, followed with ``async for``."""
        return AsyncAnswerStream(lambda: self.view.ask_stream(question, **options))

    async def layer(self, name: str, layer: Layer | str) -> DerivedLayer | None:
        """`Dataset.layer`, awaited."""
        return await self._call(self.view.layer, name, layer)

    async def dataset_layer(self, layer: Layer | str) -> DerivedLayer | None:
        """`Dataset.dataset_layer`, awaited."""
        return await self._call(self.view.dataset_layer, layer)

    async def layers(self, *, layer: Layer | str | None = None) -> Sequence[DerivedLayer]:
        """`Dataset.layers`, awaited."""
        return await self._call(self.view.layers, layer=layer)

    async def put_layer(
        self,
        name: str,
        layer: Layer | str,
        content: str,
        *,
        prompt_sig: str = "",
        source_version: int | None = None,
    ) -> DerivedLayer:
        """`Dataset.put_layer`, awaited."""
        return await self._call(
            self.view.put_layer,
            name,
            layer,
            content,
            prompt_sig=prompt_sig,
            source_version=source_version,
        )

    async def put_dataset_layer(
        self,
        layer: Layer | str,
        content: str,
        *,
        prompt_sig: str = "",
        summaries: Iterable[DocumentSummary] | None = None,
    ) -> DerivedLayer:
        """`Dataset.put_dataset_layer`, awaited."""
        return await self._call(
            self.view.put_dataset_layer, layer, content, prompt_sig=prompt_sig, summaries=summaries
        )

    async def put_folder_layer(
        self,
        folder: str,
        layer: Layer | str,
        content: str,
        *,
        prompt_sig: str = "",
        summaries: Iterable[DocumentSummary] | None = None,
    ) -> DerivedLayer:
        """`Dataset.put_folder_layer`, awaited."""
        return await self._call(
            self.view.put_folder_layer,
            folder,
            layer,
            content,
            prompt_sig=prompt_sig,
            summaries=summaries,
        )

    async def rebuild(
        self, doc_name: str = "", *, progress: ProgressCallback | None = None
    ) -> RebuildReport:
        """`Dataset.rebuild`, awaited."""
        return await self._call(self.view.rebuild, doc_name, progress=progress)

    async def stats(self) -> DatasetStats:
        """`Dataset.stats`, awaited."""
        return await self._call(self.view.stats)


class AsyncPipelineMethods:
    """Every method of `PipelineView`, awaited."""

    @property
    @abstractmethod
    def view(self) -> PipelineView:
        """The PipelineView inside."""

    @abstractmethod
    def _call(self, method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[R]:
        """Run a method in a worker thread."""

    async def search(self, query: Query | str, **options: Unpack[SearchOptions]) -> Result:
        """`PipelineView.search`, awaited."""
        return await self._call(self.view.search, query, **options)

    async def search_documents(
        self, query: Query | str, **options: Unpack[SearchOptions]
    ) -> Result:
        """`PipelineView.search_documents`, awaited."""
        return await self._call(self.view.search_documents, query, **options)

    async def search_many(
        self, queries: Iterable[Query | str], **options: Unpack[SearchOptions]
    ) -> Sequence[Result]:
        """`PipelineView.search_many`, awaited."""
        return await self._call(self.view.search_many, queries, **options)

    async def context(
        self, query: Query | str, token_budget: int | None = None, **options: Unpack[ContextOptions]
    ) -> ContextPack:
        """`PipelineView.context`, awaited."""
        return await self._call(self.view.context, query, token_budget, **options)

    async def ask(self, question: Query | str, **options: Unpack[AskOptions]) -> Answer:
        """`PipelineView.ask`, awaited."""
        return await self._call(self.view.ask, question, **options)

    def ask_stream(self, question: Query | str, **options: Unpack[AskOptions]) -> AsyncAnswerStream:
        """`PipelineView.ask_stream`, followed with ``async for``."""
        return AsyncAnswerStream(lambda: self.view.ask_stream(question, **options))
