"""The `Service`: every public call goes through it, and it enforces the guarantees.

Each sibling module defines a base class of `Service` with related methods; `triptych.service.parts`
builds the objects that they use.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Literal

import attrs

from triptych.contracts import Store
from triptych.contracts.rules import only_dataset
from triptych.records import check_identifier
from triptych.search.pipeline_record import Pipeline, find_pipeline
from triptych.service.datasets import Datasets
from triptych.service.documents import Documents
from triptych.service.layers import Layers
from triptych.service.operations import Effect, operation
from triptych.service.options import ServiceOptions
from triptych.service.parts import Parts
from triptych.service.searches import Searches
from triptych.service.upkeep import Upkeep
from triptych.service.views import Dataset

if TYPE_CHECKING:
    from triptych.access import Access

__all__ = ["Service", "ServiceOptions"]


class _NotGiven(Enum):
    """Neither None nor "", which a program may hold where it lacks an id."""

    YET = "the only dataset"


class Service(Documents, Datasets, Searches, Layers, Upkeep):
    """A knowledge base: stores documents, derives chunks and vectors from them, and searches them.

    Thread-safe. Close it, or use it as a context manager.
    """

    def __init__(
        self,
        store: Store,
        options: ServiceOptions | None = None,
        *,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        """Create a Service over ``store``. `triptych.open` does this for the built-in stores.

        `triptych.contracts.defaults.Repositories` makes a store of three repositories. Closing the
        Service closes the store and then calls ``on_close``, which may close the models.

        Raises:
            NotAvailableError: ``options`` has a sparse encoder, but the store keeps no sparse
                vectors.
        """
        self._build(Parts(store, options or ServiceOptions()), on_close)

    @operation(Effect.READS)
    def dataset(self, dataset_id: str | Literal[_NotGiven.YET] = _NotGiven.YET) -> Dataset:
        """Return a view of one dataset: this Service's methods with the dataset id filled in.

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

    @operation(Effect.READS)
    def pipeline(self, name: str) -> Service:
        """Return a Service that searches and answers with the named pipeline.

        The pipeline's options are the defaults of each call. It shares the store and the models;
        closing this Service closes it too.

        Raises:
            NotFoundError: there is no pipeline of this name.
        """
        pipeline = find_pipeline(self.pipelines, name)
        with self._making:
            found = self._by_pipeline.get(name)
            if found is None or found._closed:
                over = pipeline.over
                searched = over if isinstance(over, Service) else self
                if searched is not self and self.access is not None:
                    searched = searched.restricted(self.access)
                found = self._by_pipeline[name] = searched._with(pipeline)
        assert isinstance(found, Service)
        return found

    def _with(self, pipeline: Pipeline) -> Service:
        options = attrs.evolve(
            self.options,
            rewriter=pipeline.rewriter,
            lanes=pipeline.lanes,
            ranker=pipeline.ranker or self.options.ranker,
            postprocessors=pipeline.postprocessors,
            llm=pipeline.llm or self.options.llm,
            pipeline=pipeline,
            pipelines=(),
        )
        parts = Parts(self.store, options, caller=self._parts.caller)
        made = Service.__new__(Service)
        made._build(parts, base=self, view=self._view)
        return made

    @operation(Effect.READS)
    def restricted(self, access: Access) -> Service:
        """Return a Service restricted to the documents that ``access`` allows.

        Documents outside ``access`` do not exist for the caller: they are not found, counted or
        suggested, affect no score, and are not named in errors. The new Service shares the store
        and the models; closing this Service closes it too. Restricting it again narrows it.

        Raises:
            ValidationError: ``access`` is not an `Access`.
        """
        from triptych.access.lanes import lane_over
        from triptych.access.store import AccessObserver, store_for

        store = store_for(self, access)
        view = store.view
        options = attrs.evolve(
            self.options,
            retrievers=[lane_over(each, store, view) for each in self.options.retrievers],
            pipelines=[
                each for each in self._pipelines.values() if access.names_all(each.searched)
            ],
            observer=AccessObserver.over(self.options.observer),
            own_paths=(),
            forget_files=None,
            locate=None,  # where this machine has its files is not the caller's business
        )
        caller = (*self._parts.caller, "access", repr(access.dataset_ids), access.tree)
        made = Service.__new__(Service)
        parts = Parts(store, options, caller=caller)
        made._build(parts, base=self, view=view)
        self._restricted.add(made)
        return made
