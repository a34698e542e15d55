"""`KnowledgeBase`, which a Service and a client of a server are, and its view of one dataset."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Concatenate, Final, Literal, ParamSpec, TypeVar, Unpack

import attrs

from triptych._internal.close_on_exit import CloseOnExit
from triptych.access.view import Access
from triptych.contracts import LLM, Capabilities
from triptych.contracts.rules import only_dataset
from triptych.errors import ValidationError
from triptych.records import Explanation, Query, Result, check_identifier, check_text
from triptych.records.queries import DatasetSearchOptions
from triptych.search.pipeline_record import Pipeline
from triptych.service.interface import Operations
from triptych.service.options import ServiceOptions

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
        EmbedReport,
        PurgeReceipt,
        RebuildReport,
    )


P = ParamSpec("P")
R = TypeVar("R")


class _NotGiven(Enum):
    """Neither None nor "", which a program may hold where it lacks an id."""

    YET = "the only dataset"


class KnowledgeBase(Operations, CloseOnExit, ABC):
    """A knowledge base: stores documents, derives chunks and vectors from them, and searches them.

    It is a `Service` over a store, or the client of a server. Thread-safe. Close it, or use it as a
    context manager.
    """

    if not TYPE_CHECKING:  # as `Dataset` has it

        def __getattr__(self, name: str) -> Any:
            hint = ": 'dataset' does that" if name in _COLLECTIONS else ""
            told = f"{type(self).__name__!r} object has no attribute {name!r}{hint}"
            raise AttributeError(told, name=name, obj=self)

    @property
    @abstractmethod
    def options(self) -> ServiceOptions:
        """Its options; of a server, its embedder alone is known."""

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What its store can do; nothing if the store is on a server, which does it there."""

    @property
    @abstractmethod
    def pipelines(self) -> Mapping[str, Pipeline]:
        """The pipelines that the caller may use, by name; of a server only their names."""

    @property
    @abstractmethod
    def lanes(self) -> tuple[str, ...]:
        """The names of the lanes. Each is a search mode and a key of ``min_scores``."""

    @property
    def access(self) -> Access | None:
        """The access that this is restricted to; None for the owner, and for a client, which a
        server restricts by its key."""
        return None

    @property
    def llm(self) -> LLM | None:
        """The language model, None without one; that of a server is there."""
        return self.options.llm

    def dataset(self, dataset_id: str | Literal[_NotGiven.YET] = _NotGiven.YET) -> Dataset:
        """Return a view of one dataset: these methods with the dataset id filled in.

        The dataset need not exist: `create_dataset` or its first document creates it. Without an
        argument, return the only dataset. "" and None (such as from an unset variable) are invalid.

        Raises:
            ValidationError: the id is invalid, or no id is given and there are several datasets.
            NotFoundError: no id is given and there is no dataset.
        """
        if dataset_id is _NotGiven.YET:
            dataset_id = only_dataset(self.list_datasets())
        check_identifier(dataset_id, "dataset_id")
        return Dataset(self, dataset_id)

    @abstractmethod
    def pipeline(self, name: str) -> KnowledgeBase:
        """Return a knowledge base that searches and answers with the named pipeline.

        The pipeline's options are the defaults of each call. It shares the store and the models;
        closing this one closes it too.

        Raises:
            NotFoundError: there is no pipeline of this name.
        """

    @abstractmethod
    def restricted(self, access: Access) -> KnowledgeBase:
        """Return a knowledge base restricted to the documents that ``access`` allows.

        Documents outside ``access`` do not exist for the caller: they are not found, counted or
        suggested, affect no score, and are not named in errors. The new one shares the store and
        the models; closing this one closes it too. Restricting it again narrows it.

        Raises:
            ValidationError: ``access`` is not an `Access`.
            NotAvailableError: this is a client: a server restricts its callers by their keys.
        """

    @abstractmethod
    def close(self) -> None:
        """Release files, connections and threads. Idempotent; later calls raise `StoreError`."""


def _of(
    method: Callable[Concatenate[Any, str, P], R], name: str = ""
) -> Callable[Concatenate[Any, P], R]:
    """The operation ``method`` of a `Dataset`'s knowledge base, with the dataset id filled in.

    ``name`` is what the `Dataset` calls it, if not the same.
    """

    @functools.wraps(method)
    def call(self: Dataset, /, *args: P.args, **options: P.kwargs) -> Any:
        return getattr(self.service, method.__name__)(self.dataset_id, *args, **options)

    call.__name__ = name or method.__name__
    return call


def _documented(method: Callable[..., Any]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Give a method of `Dataset` the documentation of the operation that it calls."""

    def document(call: Callable[P, R]) -> Callable[P, R]:
        call.__doc__ = method.__doc__
        return call

    return document


# What other libraries call a method.
_COLLECTIONS: Final = frozenset(
    ("create_collection", "create_table", "get_collection", "get_or_create_collection")
)
_HINTS: Final = {
    **dict.fromkeys(("add", "insert", "upsert"), "put"),
    **dict.fromkeys(("add_documents", "add_many", "add_texts"), "put_many"),
    **dict.fromkeys(("find", "query", "similarity_search"), "search"),
    **dict.fromkeys(("pop", "remove"), "delete"),
    **dict.fromkeys(("len", "size"), "count"),
}


class DatasetMethods:
    """The operations whose first argument is the dataset. Each is `Final`, so that type checkers
    take its type from the operation."""

    create: Final = _of(Operations.create_dataset, "create")
    put: Final = _of(Operations.put_document, "put")
    put_many: Final = _of(Operations.put_documents, "put_many")
    get: Final = _of(Operations.get_document, "get")
    similar: Final = _of(Operations.similar)
    history: Final = _of(Operations.history)
    diff: Final = _of(Operations.diff)
    restore: Final = _of(Operations.restore)
    list: Final = _of(Operations.list_documents, "list")
    count: Final = _of(Operations.count_documents, "count")
    update_metadata: Final = _of(Operations.update_metadata)
    delete_many: Final = _of(Operations.delete_documents, "delete_many")
    remove_expired: Final = _of(Operations.remove_expired)
    delete: Final = _of(Operations.delete_document, "delete")
    recreate: Final = _of(Operations.recreate)
    layer: Final = _of(Operations.layer)
    dataset_layer: Final = _of(Operations.dataset_layer)
    layers: Final = _of(Operations.layers)
    put_layer: Final = _of(Operations.put_document_layer, "put_layer")
    put_dataset_layer: Final = _of(Operations.put_dataset_layer)
    put_folder_layer: Final = _of(Operations.put_folder_layer)


@attrs.frozen(repr=False)
class Dataset(DatasetMethods):
    """A view of one dataset. Each method calls the method of the Service that its docstring
    names."""

    service: KnowledgeBase
    dataset_id: str

    def __repr__(self) -> str:
        return f"<Dataset {self.dataset_id!r} of {self.service!r}>"

    if not TYPE_CHECKING:  # which knows that there is no such attribute

        def __getattr__(self, name: str) -> Any:
            instead = _HINTS.get(name)
            hint = f": {instead!r} does that" if instead else ""
            told = f"'Dataset' object has no attribute {name!r}{hint}"
            raise AttributeError(told, name=name, obj=self)

    @_documented(Operations.embed_pending)
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

    @_documented(Operations.changes)
    def changes(self, since: str | None = None, *, limit: int = 1000) -> ChangePage:
        return self.service.changes(since, dataset_id=self.dataset_id, limit=limit)

    @_documented(Operations.follow)
    def follow(
        self, since: str | None = None, *, limit: int = 1000, poll: float = 0.5
    ) -> Iterator[ChangePage]:
        return self.service.follow(since, dataset_id=self.dataset_id, limit=limit, poll=poll)

    @_documented(Operations.purge)
    def purge(self, name: str) -> PurgeReceipt:
        # There, None means the whole dataset.
        check_text(name, "a document name")
        return self.service.purge(self.dataset_id, name)

    @_documented(Operations.search)
    def search(self, query: Query | str, **options: Unpack[DatasetSearchOptions]) -> Result:
        query = self._mine(query, options)
        return self.service.search(query, dataset_id=self.dataset_id, **options)

    @_documented(Operations.search_documents)
    def search_documents(
        self, query: Query | str, **options: Unpack[DatasetSearchOptions]
    ) -> Result:
        query = self._mine(query, options)
        return self.service.search_documents(query, dataset_id=self.dataset_id, **options)

    @_documented(Operations.search_many)
    def search_many(
        self, queries: Iterable[Query | str], **options: Unpack[DatasetSearchOptions]
    ) -> Sequence[Result]:
        if isinstance(queries, Iterable) and not isinstance(queries, str):
            queries = [self._mine(query, options) for query in queries]
        return self.service.search_many(queries, dataset_id=self.dataset_id, **options)

    @_documented(Operations.explain)
    def explain(
        self, query: Query | str, doc_name: str, **options: Unpack[DatasetSearchOptions]
    ) -> Explanation:
        query = self._mine(query, options)
        return self.service.explain(query, doc_name, dataset_id=self.dataset_id, **options)

    @_documented(Operations.context)
    def context(
        self, query: Query | str, token_budget: int, **options: Unpack[DatasetContextOptions]
    ) -> ContextPack:
        query = self._mine(query, options)
        return self.service.context(query, token_budget, dataset_id=self.dataset_id, **options)

    @_documented(Operations.context_prefix)
    def context_prefix(
        self, prefix_tokens: int, **options: Unpack[DatasetPrefixOptions]
    ) -> ContextPrefix:
        return self.service.context_prefix(prefix_tokens, dataset_id=self.dataset_id, **options)

    @_documented(Operations.ask)
    def ask(self, question: Query | str, **options: Unpack[DatasetAskOptions]) -> Answer:
        question = self._mine(question, options)
        return self.service.ask(question, dataset_id=self.dataset_id, **options)

    @_documented(Operations.ask_stream)
    def ask_stream(
        self, question: Query | str, **options: Unpack[DatasetAskOptions]
    ) -> AnswerStream:
        question = self._mine(question, options)
        return self.service.ask_stream(question, dataset_id=self.dataset_id, **options)

    @_documented(Operations.rebuild)
    def rebuild(
        self, doc_name: str = "", *, progress: ProgressCallback | None = None
    ) -> RebuildReport:
        return self.service.rebuild(
            dataset_id=self.dataset_id, doc_name=doc_name, progress=progress
        )

    @_documented(Operations.stats)
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
