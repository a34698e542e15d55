"""A view of a Service for one dataset."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, Unpack

import attrs

from triptych.errors import ValidationError
from triptych.records import Explanation, Query, Result, check_text
from triptych.records.queries import DatasetSearchOptions
from triptych.service.datasets import Datasets
from triptych.service.documents import Documents
from triptych.service.layers import Layers
from triptych.service.searches import Searches
from triptych.service.upkeep import Upkeep

if TYPE_CHECKING:
    from triptych._internal.progress import ProgressCallback
    from triptych.answers.options import (
        DatasetAskOptions,
        DatasetContextOptions,
        DatasetPrefixOptions,
    )
    from triptych.answers.pack import ContextPack
    from triptych.answers.prefix import ContextPrefix
    from triptych.answers.records import Answer, AnswerStream
    from triptych.records import (
        ChangePage,
        DatasetStats,
        DeleteReport,
        DerivedLayer,
        DocumentInfo,
        DocumentSummary,
        EmbedReport,
        EmbedWhen,
        Layer,
        Metadata,
        MetadataReport,
        MetadataValue,
        NewDocument,
        PurgeReceipt,
        PutReport,
        RebuildReport,
        SourceDocument,
    )
    from triptych.service import Service

    Layered = list[DerivedLayer]  # the class has a method of this name

P = ParamSpec("P")
R = TypeVar("R")


def _documented(method: Callable[..., Any]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Give a method of `Dataset` the documentation of the method that it calls."""

    def document(call: Callable[P, R]) -> Callable[P, R]:
        call.__doc__ = f"`Service.{method.__name__}`.\n\n{inspect.getdoc(method)}"
        return call

    return document


@attrs.frozen(repr=False)
class Dataset:
    """A view of one dataset. Each method calls the method of the Service that its docstring
    names."""

    service: Service
    dataset_id: str

    def __repr__(self) -> str:
        return f"<Dataset {self.dataset_id!r} of {self.service!r}>"

    @_documented(Datasets.create_dataset)
    def create(self, *, language: str | None = None) -> bool:
        return self.service.create_dataset(self.dataset_id, language=language)

    @_documented(Documents.put_document)
    def put(
        self,
        name: str,
        content: str,
        metadata: Metadata | None = None,
        *,
        if_version: int | None = None,
        expires_at: datetime | Literal["never"] | None = None,
        embed: EmbedWhen = "now",
    ) -> SourceDocument:
        return self.service.put_document(
            self.dataset_id,
            name,
            content,
            metadata,
            if_version=if_version,
            expires_at=expires_at,
            embed=embed,
        )

    @_documented(Documents.put_documents)
    def put_many(
        self,
        documents: Iterable[NewDocument] | Mapping[str, str],
        *,
        progress: ProgressCallback | None = None,
        embed: EmbedWhen = "now",
    ) -> PutReport:
        return self.service.put_documents(
            self.dataset_id, documents, progress=progress, embed=embed
        )

    @_documented(Documents.get_document)
    def get(self, name: str, version: int | None = None) -> SourceDocument:
        return self.service.get_document(self.dataset_id, name, version)

    @_documented(Searches.similar)
    def similar(
        self,
        name: str,
        *,
        chunk: int | None = None,
        top_k: int = 10,
        where: Mapping[str, Any] | None = None,
    ) -> Result:
        return self.service.similar(self.dataset_id, name, chunk=chunk, top_k=top_k, where=where)

    @_documented(Documents.history)
    def history(self, name: str) -> Sequence[DocumentInfo]:
        return self.service.history(self.dataset_id, name)

    @_documented(Documents.diff)
    def diff(self, name: str, old: int, new: int | None = None) -> str:
        return self.service.diff(self.dataset_id, name, old, new)

    @_documented(Documents.restore)
    def restore(self, name: str, version: int, *, if_version: int | None = None) -> SourceDocument:
        return self.service.restore(self.dataset_id, name, version, if_version=if_version)

    @_documented(Documents.list_documents)
    def list(
        self,
        *,
        prefix: str = "",
        after: str | DocumentInfo = "",
        limit: int | None = None,
        where: Mapping[str, Any] | None = None,
        sort: str = "$name",
    ) -> Sequence[DocumentInfo]:
        return self.service.list_documents(
            self.dataset_id, prefix=prefix, after=after, limit=limit, where=where, sort=sort
        )

    @_documented(Documents.count_documents)
    def count(self, *, where: Mapping[str, Any] | None = None) -> int:
        return self.service.count_documents(self.dataset_id, where=where)

    @_documented(Documents.update_metadata)
    def update_metadata(
        self,
        changes: Mapping[str, MetadataValue | None],
        *,
        names: Iterable[str] | str | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> MetadataReport:
        return self.service.update_metadata(self.dataset_id, changes, names=names, where=where)

    @_documented(Datasets.delete_documents)
    def delete_many(
        self, *, names: Iterable[str] | str | None = None, where: Mapping[str, Any] | None = None
    ) -> DeleteReport:
        return self.service.delete_documents(self.dataset_id, names=names, where=where)

    @_documented(Datasets.remove_expired)
    def remove_expired(self) -> int:
        return self.service.remove_expired(self.dataset_id)

    @_documented(Datasets.delete_document)
    def delete(self, name: str, *, if_version: int | None = None) -> bool:
        return self.service.delete_document(self.dataset_id, name, if_version=if_version)

    @_documented(Datasets.recreate)
    def recreate(self) -> bool:
        return self.service.recreate(self.dataset_id)

    @_documented(Layers.layer)
    def layer(self, name: str, layer: Layer | str) -> DerivedLayer | None:
        return self.service.layer(self.dataset_id, name, layer)

    @_documented(Layers.dataset_layer)
    def dataset_layer(self, layer: Layer | str) -> DerivedLayer | None:
        return self.service.dataset_layer(self.dataset_id, layer)

    @_documented(Layers.layers)
    def layers(self, *, layer: Layer | str | None = None) -> Layered:
        return self.service.layers(self.dataset_id, layer=layer)

    @_documented(Layers.put_document_layer)
    def put_layer(
        self,
        name: str,
        layer: Layer | str,
        content: str,
        *,
        prompt_sig: str = "",
        source_version: int | None = None,
    ) -> DerivedLayer:
        return self.service.put_document_layer(
            self.dataset_id,
            name,
            layer,
            content,
            prompt_sig=prompt_sig,
            source_version=source_version,
        )

    @_documented(Layers.put_dataset_layer)
    def put_dataset_layer(
        self,
        layer: Layer | str,
        content: str,
        *,
        prompt_sig: str = "",
        summaries: Iterable[DocumentSummary] | None = None,
    ) -> DerivedLayer:
        return self.service.put_dataset_layer(
            self.dataset_id, layer, content, prompt_sig=prompt_sig, summaries=summaries
        )

    @_documented(Layers.put_folder_layer)
    def put_folder_layer(
        self,
        folder: str,
        layer: Layer | str,
        content: str,
        *,
        prompt_sig: str = "",
        summaries: Iterable[DocumentSummary] | None = None,
    ) -> DerivedLayer:
        return self.service.put_folder_layer(
            self.dataset_id, folder, layer, content, prompt_sig=prompt_sig, summaries=summaries
        )

    @_documented(Documents.embed_pending)
    def embed_pending(
        self,
        doc_names: Iterable[str] | None = None,
        *,
        retry: bool = False,
        progress: ProgressCallback | None = None,
    ) -> EmbedReport:
        return self.service.embed_pending(
            self.dataset_id, doc_names=doc_names, retry=retry, progress=progress
        )

    @_documented(Documents.changes)
    def changes(self, since: str | None = None, *, limit: int = 1000) -> ChangePage:
        return self.service.changes(since, dataset_id=self.dataset_id, limit=limit)

    @_documented(Documents.follow)
    def follow(
        self, since: str | None = None, *, limit: int = 1000, poll: float = 0.5
    ) -> Iterator[ChangePage]:
        return self.service.follow(since, dataset_id=self.dataset_id, limit=limit, poll=poll)

    @_documented(Datasets.purge)
    def purge(self, name: str) -> PurgeReceipt:
        # There, None means the whole dataset.
        check_text(name, "a document name")
        return self.service.purge(self.dataset_id, name)

    @_documented(Searches.search)
    def search(self, query: Query | str, **options: Unpack[DatasetSearchOptions]) -> Result:
        query = self._mine(query, options)
        return self.service.search(query, dataset_id=self.dataset_id, **options)

    @_documented(Searches.search_documents)
    def search_documents(
        self, query: Query | str, **options: Unpack[DatasetSearchOptions]
    ) -> Result:
        query = self._mine(query, options)
        return self.service.search_documents(query, dataset_id=self.dataset_id, **options)

    @_documented(Searches.search_many)
    def search_many(
        self, queries: Iterable[Query | str], **options: Unpack[DatasetSearchOptions]
    ) -> Sequence[Result]:
        if isinstance(queries, Iterable) and not isinstance(queries, str):
            queries = [self._mine(query, options) for query in queries]
        return self.service.search_many(queries, dataset_id=self.dataset_id, **options)

    @_documented(Searches.explain)
    def explain(
        self, query: Query | str, doc_name: str, **options: Unpack[DatasetSearchOptions]
    ) -> Explanation:
        query = self._mine(query, options)
        return self.service.explain(query, doc_name, dataset_id=self.dataset_id, **options)

    @_documented(Searches.context)
    def context(
        self, query: Query | str, token_budget: int, **options: Unpack[DatasetContextOptions]
    ) -> ContextPack:
        query = self._mine(query, options)
        return self.service.context(query, token_budget, dataset_id=self.dataset_id, **options)

    @_documented(Searches.context_prefix)
    def context_prefix(
        self, prefix_tokens: int, **options: Unpack[DatasetPrefixOptions]
    ) -> ContextPrefix:
        return self.service.context_prefix(prefix_tokens, dataset_id=self.dataset_id, **options)

    @_documented(Searches.ask)
    def ask(self, question: Query | str, **options: Unpack[DatasetAskOptions]) -> Answer:
        question = self._mine(question, options)
        return self.service.ask(question, dataset_id=self.dataset_id, **options)

    @_documented(Searches.ask_stream)
    def ask_stream(
        self, question: Query | str, **options: Unpack[DatasetAskOptions]
    ) -> AnswerStream:
        question = self._mine(question, options)
        return self.service.ask_stream(question, dataset_id=self.dataset_id, **options)

    @_documented(Upkeep.rebuild)
    def rebuild(
        self, doc_name: str = "", *, progress: ProgressCallback | None = None
    ) -> RebuildReport:
        return self.service.rebuild(
            dataset_id=self.dataset_id, doc_name=doc_name, progress=progress
        )

    @_documented(Upkeep.stats)
    def stats(self) -> DatasetStats:
        return self.service.stats(self.dataset_id)[0]

    def _mine(self, query: Query | str, fields: Mapping[str, Any]) -> Query | str:
        """Return ``query``; raise ValidationError if it or ``fields`` names a dataset."""
        named = query.dataset_id if isinstance(query, Query) else ""
        for other in (named, fields.get("dataset_id", "")):
            if other not in ("", self.dataset_id):
                raise ValidationError(
                    f"this is a view of the dataset {self.dataset_id!r}, and the query names "
                    f"{other!r}: use a view of that dataset, or the knowledge base itself"
                )
        if "dataset_id" in fields:
            raise ValidationError(
                f"this view of the dataset {self.dataset_id!r} fills in dataset_id: leave it out"
            )
        return query
