"""`Service` and its views, awaited. Written by tools/generate_aio.py: do not edit."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Unpack

from triptych._internal.progress import ProgressCallback
from triptych.aio.threads import AsyncAnswerStream
from triptych.answers.options import (
    AskOptions,
    ContextOptions,
    DatasetAskOptions,
    DatasetContextOptions,
    DatasetPrefixOptions,
    PrefixOptions,
)
from triptych.answers.pack import ContextPack, ContextReceipt
from triptych.answers.pieces import Citation, Verification
from triptych.answers.prefix import ContextPrefix
from triptych.answers.records import Answer, AnswerReceipt
from triptych.answers.replay import Replay
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
from triptych.records.queries import DatasetSearchOptions, SearchOptions

__all__ = ["AsyncDatasetMethods", "AsyncPipelineMethods", "AsyncServiceMethods"]

class AsyncServiceMethods:
    """Every method of `Service`, awaited."""
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
    ) -> SourceDocument: ...
    async def put_documents(
        self,
        dataset_id: str,
        documents: Iterable[NewDocument] | Mapping[str, str],
        *,
        progress: ProgressCallback | None = None,
        embed: EmbedWhen = "now",
    ) -> PutReport: ...
    async def embed_pending(
        self,
        dataset_id: str | None = None,
        *,
        doc_names: Iterable[str] | None = None,
        progress: ProgressCallback | None = None,
    ) -> EmbedReport: ...
    async def get_document(
        self, dataset_id: str, name: str, version: int | None = None
    ) -> SourceDocument: ...
    async def list_documents(
        self,
        dataset_id: str,
        *,
        prefix: str = "",
        after: str | DocumentInfo = "",
        limit: int | None = None,
        where: Mapping[str, Any] | None = None,
        sort: str = "$name",
    ) -> Sequence[DocumentInfo]: ...
    async def count_documents(
        self, dataset_id: str, *, where: Mapping[str, Any] | None = None
    ) -> int: ...
    async def update_metadata(
        self,
        dataset_id: str,
        changes: Mapping[str, MetadataValue | None],
        *,
        names: Iterable[str] | str | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> MetadataReport: ...
    async def history(self, dataset_id: str, name: str) -> Sequence[DocumentInfo]: ...
    async def diff(self, dataset_id: str, name: str, old: int, new: int | None = None) -> str: ...
    async def restore(
        self, dataset_id: str, name: str, version: int, *, if_version: int | None = None
    ) -> SourceDocument: ...
    async def changes(
        self, since: str | None = None, *, dataset_id: str | None = None, limit: int = 1000
    ) -> ChangePage: ...
    async def list_datasets(self) -> Sequence[str]: ...
    async def create_dataset(self, dataset_id: str, *, language: str | None = None) -> bool: ...
    async def configure_dataset(self, dataset_id: str, *, language: str) -> DatasetConfig: ...
    async def delete_document(
        self, dataset_id: str, name: str, *, if_version: int | None = None
    ) -> bool: ...
    async def delete_documents(
        self,
        dataset_id: str,
        *,
        names: Iterable[str] | str | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> DeleteReport: ...
    async def remove_expired(self, dataset_id: str | None = None) -> int: ...
    async def delete_dataset(self, dataset_id: str) -> bool: ...
    async def recreate(self, dataset_id: str) -> bool: ...
    async def purge(self, dataset_id: str, name: str | None = None) -> PurgeReceipt: ...
    async def search(self, query: Query | str, **options: Unpack[SearchOptions]) -> Result: ...
    async def search_documents(
        self, query: Query | str, **options: Unpack[SearchOptions]
    ) -> Result: ...
    async def search_many(
        self, queries: Iterable[Query | str], **options: Unpack[SearchOptions]
    ) -> list[Result]: ...
    async def context(
        self, query: Query | str, token_budget: int, **options: Unpack[ContextOptions]
    ) -> ContextPack: ...
    async def context_prefix(
        self, prefix_tokens: int, **options: Unpack[PrefixOptions]
    ) -> ContextPrefix: ...
    async def verify(self, citation: Citation) -> Verification: ...
    async def ask(self, question: Query | str, **options: Unpack[AskOptions]) -> Answer: ...
    def ask_stream(
        self, question: Query | str, **options: Unpack[AskOptions]
    ) -> AsyncAnswerStream: ...
    async def replay(self, receipt: ContextReceipt | AnswerReceipt) -> Replay: ...
    async def layer(
        self, dataset_id: str, name: str, layer: Layer | str
    ) -> DerivedLayer | None: ...
    async def dataset_layer(self, dataset_id: str, layer: Layer | str) -> DerivedLayer | None: ...
    async def layers(
        self, dataset_id: str, *, layer: Layer | str | None = None
    ) -> list[DerivedLayer]: ...
    async def put_document_layer(
        self,
        dataset_id: str,
        name: str,
        layer: Layer | str,
        content: str,
        *,
        prompt_sig: str = "",
        source_version: int | None = None,
    ) -> DerivedLayer: ...
    async def put_dataset_layer(
        self,
        dataset_id: str,
        layer: Layer | str,
        content: str,
        *,
        prompt_sig: str = "",
        summaries: Iterable[DocumentSummary] | None = None,
    ) -> DerivedLayer: ...
    async def put_folder_layer(
        self,
        dataset_id: str,
        folder: str,
        layer: Layer | str,
        content: str,
        *,
        prompt_sig: str = "",
        summaries: Iterable[DocumentSummary] | None = None,
    ) -> DerivedLayer: ...
    async def rebuild(
        self,
        scope: RebuildScope | None = None,
        *,
        dataset_id: str = "",
        doc_name: str = "",
        progress: ProgressCallback | None = None,
    ) -> RebuildReport: ...
    async def stats(self, dataset_id: str | None = None) -> list[DatasetStats]: ...
    async def cache_stats(self) -> CacheStats: ...
    async def health(self, *, probe: bool = True) -> Health: ...
    async def doctor(
        self,
        *,
        repair: bool = False,
        dataset_id: str | None = None,
        progress: ProgressCallback | None = None,
    ) -> DoctorReport: ...

class AsyncDatasetMethods:
    """Every method of `Dataset`, awaited."""
    async def create(self, *, language: str | None = None) -> bool: ...
    async def put(
        self,
        name: str,
        content: str,
        metadata: Metadata | None = None,
        *,
        if_version: int | None = None,
        expires_at: datetime | Literal["never"] | None = None,
        embed: EmbedWhen = "now",
    ) -> SourceDocument: ...
    async def put_many(
        self,
        documents: Iterable[NewDocument] | Mapping[str, str],
        *,
        progress: ProgressCallback | None = None,
        embed: EmbedWhen = "now",
    ) -> PutReport: ...
    async def embed_pending(
        self, doc_names: Iterable[str] | None = None, *, progress: ProgressCallback | None = None
    ) -> EmbedReport: ...
    async def get(self, name: str, version: int | None = None) -> SourceDocument: ...
    async def history(self, name: str) -> Sequence[DocumentInfo]: ...
    async def diff(self, name: str, old: int, new: int | None = None) -> str: ...
    async def restore(
        self, name: str, version: int, *, if_version: int | None = None
    ) -> SourceDocument: ...
    async def changes(self, since: str | None = None, *, limit: int = 1000) -> ChangePage: ...
    async def list(
        self,
        *,
        prefix: str = "",
        after: str | DocumentInfo = "",
        limit: int | None = None,
        where: Mapping[str, Any] | None = None,
        sort: str = "$name",
    ) -> Sequence[DocumentInfo]: ...
    async def count(self, *, where: Mapping[str, Any] | None = None) -> int: ...
    async def update_metadata(
        self,
        changes: Mapping[str, MetadataValue | None],
        *,
        names: Iterable[str] | str | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> MetadataReport: ...
    async def delete_many(
        self, *, names: Iterable[str] | str | None = None, where: Mapping[str, Any] | None = None
    ) -> DeleteReport: ...
    async def remove_expired(self) -> int: ...
    async def delete(self, name: str, *, if_version: int | None = None) -> bool: ...
    async def recreate(self) -> bool: ...
    async def purge(self, name: str) -> PurgeReceipt: ...
    async def search(
        self, query: Query | str, **options: Unpack[DatasetSearchOptions]
    ) -> Result: ...
    async def search_documents(
        self, query: Query | str, **options: Unpack[DatasetSearchOptions]
    ) -> Result: ...
    async def search_many(
        self, queries: Iterable[Query | str], **options: Unpack[DatasetSearchOptions]
    ) -> Sequence[Result]: ...
    async def context(
        self, query: Query | str, token_budget: int, **options: Unpack[DatasetContextOptions]
    ) -> ContextPack: ...
    async def context_prefix(
        self, prefix_tokens: int, **options: Unpack[DatasetPrefixOptions]
    ) -> ContextPrefix: ...
    async def ask(self, question: Query | str, **options: Unpack[DatasetAskOptions]) -> Answer: ...
    def ask_stream(
        self, question: Query | str, **options: Unpack[DatasetAskOptions]
    ) -> AsyncAnswerStream: ...
    async def layer(self, name: str, layer: Layer | str) -> DerivedLayer | None: ...
    async def dataset_layer(self, layer: Layer | str) -> DerivedLayer | None: ...
    async def layers(self, *, layer: Layer | str | None = None) -> Sequence[DerivedLayer]: ...
    async def put_layer(
        self,
        name: str,
        layer: Layer | str,
        content: str,
        *,
        prompt_sig: str = "",
        source_version: int | None = None,
    ) -> DerivedLayer: ...
    async def put_dataset_layer(
        self,
        layer: Layer | str,
        content: str,
        *,
        prompt_sig: str = "",
        summaries: Iterable[DocumentSummary] | None = None,
    ) -> DerivedLayer: ...
    async def put_folder_layer(
        self,
        folder: str,
        layer: Layer | str,
        content: str,
        *,
        prompt_sig: str = "",
        summaries: Iterable[DocumentSummary] | None = None,
    ) -> DerivedLayer: ...
    async def rebuild(
        self, doc_name: str = "", *, progress: ProgressCallback | None = None
    ) -> RebuildReport: ...
    async def stats(self) -> DatasetStats: ...

class AsyncPipelineMethods:
    """Every method of `PipelineView`, awaited."""
    async def search(self, query: Query | str, **options: Unpack[SearchOptions]) -> Result: ...
    async def search_documents(
        self, query: Query | str, **options: Unpack[SearchOptions]
    ) -> Result: ...
    async def search_many(
        self, queries: Iterable[Query | str], **options: Unpack[SearchOptions]
    ) -> Sequence[Result]: ...
    async def context(
        self, query: Query | str, token_budget: int | None = None, **options: Unpack[ContextOptions]
    ) -> ContextPack: ...
    async def ask(self, question: Query | str, **options: Unpack[AskOptions]) -> Answer: ...
    def ask_stream(
        self, question: Query | str, **options: Unpack[AskOptions]
    ) -> AsyncAnswerStream: ...
