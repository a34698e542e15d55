"""The Service: every public call goes through here, so the guarantees live in one place.

`Service` has its methods from the modules beside this one, each a class of what belongs together;
`triptych.service.parts` wires what they work with.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Literal

from triptych.contracts import Store
from triptych.contracts.rules import only_dataset
from triptych.records import check_identifier
from triptych.search.engine import SearchEngine
from triptych.search.pipeline_record import Pipeline, find_pipeline
from triptych.service.datasets import Datasets
from triptych.service.documents import Documents
from triptych.service.layers import Layers
from triptych.service.operations import Effect, operation
from triptych.service.options import ServiceOptions
from triptych.service.parts import Parts, build_search
from triptych.service.searches import Searches
from triptych.service.upkeep import Upkeep
from triptych.service.views import Dataset, DatasetMethods, PipelineView, share_docs

if TYPE_CHECKING:
    from triptych.access import Access

__all__ = ["Service", "ServiceOptions"]


class _NotGiven(Enum):
    """Neither None nor "", which a program may hold where it lacks an id."""

    YET = "the only dataset"


class Service(Documents, Datasets, Searches, Layers, Upkeep):
    """A knowledge base: documents in, versioned and derived; the right text out.

    Thread-safe. Close it, or use it as a context manager.
    """

    def __init__(
        self,
        store: Store,
        engine: SearchEngine | None = None,
        options: ServiceOptions | None = None,
        *,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        """Wire a Service over a store; `triptych.open` does it for the built-in ones.

        `triptych.contracts.defaults.Repositories` makes a store of three repositories.
        ``engine`` None builds the lanes that ship. Closing the Service closes the store, and
        then calls ``on_close``, which may close the models.

        Raises:
            ValidationError: ``engine`` is given, and ``options`` has a ranker or retrievers, which
                the engine has itself.
            NotAvailableError: ``options`` has a sparse encoder, and the store keeps no sparse
                vectors.
        """
        self._wire(Parts(store, options or ServiceOptions(), engine), on_close)

    @operation(Effect.READS)
    def dataset(self, dataset_id: str | Literal[_NotGiven.YET] = _NotGiven.YET) -> Dataset:
        """A view of one dataset, with this Service's methods and the id filled in.

        The first document creates the dataset, or `create_dataset`. Without an argument it is the
        only dataset. "" and None, for example from an unset variable, are invalid.

        Raises:
            ValidationError: the id is invalid, or none is given and there are several datasets.
            NotFoundError: none is given, and there is no dataset.
        """
        if dataset_id is _NotGiven.YET:
            dataset_id = only_dataset(self.list_datasets())
        check_identifier(dataset_id, "dataset_id")
        return Dataset(self, dataset_id)

    @operation(Effect.READS)
    def pipeline(self, name: str) -> PipelineView:
        """This Service, searching and answering by the pipeline of this name.

        Raises:
            NotFoundError: there is no pipeline of this name.
        """
        pipeline = find_pipeline(self.pipelines, name)
        other = pipeline.over
        return (self._service_of(other) if isinstance(other, Service) else self)._view(pipeline)

    @operation(Effect.READS)
    def restricted(self, access: Access) -> Service:
        """This Service as a caller with ``access`` sees it: a Service of its own.

        Documents outside of the access do not exist for the caller: they are not found, counted or
        suggested, affect no score, and no error names them. The new Service shares the store and
        the models, and is closed with this Service, or before. Restricting it again narrows it.

        Raises:
            ValidationError: ``access`` is none.
        """
        from triptych.access.service import RestrictedService

        made = RestrictedService(self, access)
        self._restricted.add(made)
        return made

    def _service_of(self, other: Service) -> Service:
        """The Service that a pipeline searches in place of this one, as its caller may see it."""
        return other

    def _view(self, pipeline: Pipeline) -> PipelineView:
        # By the object, for the Services that search over this one each have pipelines by name.
        found = self._by_pipeline.get(id(pipeline))
        if found is None:
            engine = self._main.engine.derive(lanes=pipeline.lanes, ranker=pipeline.ranker)
            made = build_search(self._parts, engine, pipeline.rewriter, pipeline.postprocessors)
            found = self._by_pipeline.setdefault(id(pipeline), (pipeline, made))
        return PipelineView(self, pipeline, found[1].uncached, found[1].cached)


share_docs(DatasetMethods, Service)
share_docs(Dataset, Service)
share_docs(PipelineView, Service)
