"""A view of a Service for one dataset."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar, Unpack

import attrs

from triptych.errors import ValidationError
from triptych.records import Explanation, Query, Result, check_text
from triptych.records.queries import DatasetSearchOptions
from triptych.service.datasets import Datasets
from triptych.service.documents import Documents
from triptych.service.layers import Layers
from triptych.service.searches import Searches

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
    from triptych.records import ChangePage, DatasetStats, EmbedReport, PurgeReceipt, RebuildReport
    from triptych.service import Service


_REFERENCE = re.compile(r"`\w+\.(\w+)`")
P = ParamSpec("P")
R = TypeVar("R")


def share_docs(target: type, source: type) -> None:
    """To each docstring of ``target`` that begins with `Source.name` append that method's
    docstring."""
    for method in vars(target).values():
        if not inspect.isfunction(method) or not method.__doc__:
            continue
        found = _REFERENCE.match(method.__doc__)
        original = None if found is None else getattr(source, found[1], None)
        if original is not None and original.__doc__:
            method.__doc__ = f"{method.__doc__}\n\n{inspect.cleandoc(original.__doc__)}"


def _of_dataset(
    method: Callable[Concatenate[Any, str, P], R],
) -> Callable[Concatenate[Any, P], R]:
    """Return a method of the Service with ``dataset_id`` taken from the view."""
    of_service = method.__name__

    @functools.wraps(method)
    def call(self: Dataset, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        return getattr(self.service, of_service)(self.dataset_id, *args, **kwargs)

    signature = inspect.signature(method)
    own = [each for name, each in signature.parameters.items() if name != "dataset_id"]
    vars(call)["__signature__"] = signature.replace(parameters=own)
    call.__doc__ = f"`Service.{of_service}`."
    return call


class DatasetMethods:
    """The methods of `Dataset` that only fill in ``dataset_id``.

    Each is `Final`, so that type checkers infer its type from the method.
    """

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        """Give each method its name in `Dataset`."""
        for name, method in vars(DatasetMethods).items():
            if inspect.isfunction(method):
                method.__name__, method.__qualname__ = name, f"Dataset.{name}"

    create: Final = _of_dataset(Datasets.create_dataset)
    put: Final = _of_dataset(Documents.put_document)
    put_many: Final = _of_dataset(Documents.put_documents)
    get: Final = _of_dataset(Documents.get_document)
    similar: Final = _of_dataset(Searches.similar)
    history: Final = _of_dataset(Documents.history)
    diff: Final = _of_dataset(Documents.diff)
    restore: Final = _of_dataset(Documents.restore)
    list: Final = _of_dataset(Documents.list_documents)
    count: Final = _of_dataset(Documents.count_documents)
    update_metadata: Final = _of_dataset(Documents.update_metadata)
    delete_many: Final = _of_dataset(Datasets.delete_documents)
    remove_expired: Final = _of_dataset(Datasets.remove_expired)
    delete: Final = _of_dataset(Datasets.delete_document)
    recreate: Final = _of_dataset(Datasets.recreate)
    layer: Final = _of_dataset(Layers.layer)
    dataset_layer: Final = _of_dataset(Layers.dataset_layer)
    layers: Final = _of_dataset(Layers.layers)
    put_layer: Final = _of_dataset(Layers.put_document_layer)
    put_dataset_layer: Final = _of_dataset(Layers.put_dataset_layer)
    put_folder_layer: Final = _of_dataset(Layers.put_folder_layer)


@attrs.frozen(repr=False)
class Dataset(DatasetMethods):
    """A view of one dataset. Each method calls the method of the Service that its docstring
    names."""

    service: Service
    dataset_id: str

    def __repr__(self) -> str:
        return f"<Dataset {self.dataset_id!r} of {self.service!r}>"

    def embed_pending(
        self,
        doc_names: Iterable[str] | None = None,
        *,
        retry: bool = False,
        progress: ProgressCallback | None = None,
    ) -> EmbedReport:
        """`Service.embed_pending` of this dataset."""
        return self.service.embed_pending(
            self.dataset_id, doc_names=doc_names, retry=retry, progress=progress
        )

    def changes(self, since: str | None = None, *, limit: int = 1000) -> ChangePage:
        """`Service.changes` of this dataset."""
        return self.service.changes(since, dataset_id=self.dataset_id, limit=limit)

    def follow(
        self, since: str | None = None, *, limit: int = 1000, poll: float = 0.5
    ) -> Iterator[ChangePage]:
        """`Service.follow` of this dataset."""
        return self.service.follow(since, dataset_id=self.dataset_id, limit=limit, poll=poll)

    def purge(self, name: str) -> PurgeReceipt:
        """`Service.purge` of one document."""
        # There, None means the whole dataset.
        check_text(name, "a document name")
        return self.service.purge(self.dataset_id, name)

    def search(self, query: Query | str, **options: Unpack[DatasetSearchOptions]) -> Result:
        """`Service.search`."""
        query = self._mine(query, options)
        return self.service.search(query, dataset_id=self.dataset_id, **options)

    def search_documents(
        self, query: Query | str, **options: Unpack[DatasetSearchOptions]
    ) -> Result:
        """`Service.search_documents`."""
        query = self._mine(query, options)
        return self.service.search_documents(query, dataset_id=self.dataset_id, **options)

    def search_many(
        self, queries: Iterable[Query | str], **options: Unpack[DatasetSearchOptions]
    ) -> Sequence[Result]:
        """`Service.search_many`."""
        if isinstance(queries, Iterable) and not isinstance(queries, str):
            queries = [self._mine(query, options) for query in queries]
        return self.service.search_many(queries, dataset_id=self.dataset_id, **options)

    def explain(
        self, query: Query | str, doc_name: str, **options: Unpack[DatasetSearchOptions]
    ) -> Explanation:
        """`Service.explain`."""
        query = self._mine(query, options)
        return self.service.explain(query, doc_name, dataset_id=self.dataset_id, **options)

    def context(
        self, query: Query | str, token_budget: int, **options: Unpack[DatasetContextOptions]
    ) -> ContextPack:
        """`Service.context`."""
        query = self._mine(query, options)
        return self.service.context(query, token_budget, dataset_id=self.dataset_id, **options)

    def context_prefix(
        self, prefix_tokens: int, **options: Unpack[DatasetPrefixOptions]
    ) -> ContextPrefix:
        """`Service.context_prefix`."""
        return self.service.context_prefix(prefix_tokens, dataset_id=self.dataset_id, **options)

    def ask(self, question: Query | str, **options: Unpack[DatasetAskOptions]) -> Answer:
        """`Service.ask`."""
        question = self._mine(question, options)
        return self.service.ask(question, dataset_id=self.dataset_id, **options)

    def ask_stream(
        self, question: Query | str, **options: Unpack[DatasetAskOptions]
    ) -> AnswerStream:
        """`Service.ask_stream`."""
        question = self._mine(question, options)
        return self.service.ask_stream(question, dataset_id=self.dataset_id, **options)

    def rebuild(
        self, doc_name: str = "", *, progress: ProgressCallback | None = None
    ) -> RebuildReport:
        """`Service.rebuild` of the dataset, or of one document."""
        return self.service.rebuild(
            dataset_id=self.dataset_id, doc_name=doc_name, progress=progress
        )

    def stats(self) -> DatasetStats:
        """`Service.stats` of this dataset."""
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
