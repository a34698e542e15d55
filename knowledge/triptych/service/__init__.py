"""The `KnowledgeBase` and the `Service`, which enforces the guarantees: every call goes through it.

Each sibling module defines a base class of `Service` with related methods; `triptych.service.parts`
builds the objects that they use.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from triptych.access.view import Access, AccessView
from triptych.contracts import Store
from triptych.errors import NotAvailableError, ValidationError
from triptych.search.pipeline_record import Pipeline, find_pipeline
from triptych.service.datasets import Datasets
from triptych.service.documents import Documents
from triptych.service.interface import Operations
from triptych.service.knowledge_base import KnowledgeBase
from triptych.service.operations import Effect
from triptych.service.options import ServiceOptions
from triptych.service.parts import Parts
from triptych.service.searches import Searches

__all__ = [
    "Effect",
    "KnowledgeBase",
    "Operations",
    "Service",
    "ServiceOptions",
    "service_of",
]


class Service(Documents, Datasets, Searches):
    """The `KnowledgeBase` over a store of this machine, or of a database's server."""

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
            NotAvailableError: the store keeps no vectors of a model of ``options``; or a semantic
                cache is asked for, but the store has no change log.
        """
        self._build(Parts(store, options or ServiceOptions()), on_close)

    def pipeline(self, name: str) -> Service:
        self._require_open()
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
        parts = Parts(self.store, options, caller=self._parts.caller, base=self._parts)
        return self._over(parts, self._view)

    def _over(self, parts: Parts, view: AccessView | None) -> Service:
        """A Service that shares what this one has opened."""
        made = Service.__new__(Service)
        made._build(parts, base=self, view=view)
        return made

    def restricted(self, access: Access) -> Service:
        self._require_open()
        # Imported here, because most programs restrict nobody.
        from triptych.access.lanes import lane_over
        from triptych.access.proposals import KeptProposals
        from triptych.access.store import AccessObserver, AccessStore

        if not isinstance(access, Access):
            raise ValidationError(
                f"restricted takes an Access, not {type(access).__name__}: make one with "
                "triptych.access.Access(dataset_ids=…, can_write=…, where=…)"
            )
        settings = self._opened.capabilities.settings if access.agent else None
        proposals = None if settings is None else KeptProposals(settings)
        store = AccessStore(self.store, self.capabilities, access, proposals)
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
        made = self._over(Parts(store, options, caller=caller, base=self._parts), view)
        self._restricted.add(made)
        return made


def service_of(kb: KnowledgeBase, doing: str) -> Service:
    """Return ``kb`` as the Service that it is, for what needs the store itself.

    Raises:
        NotAvailableError: it is a client.
    """
    if not isinstance(kb, Service):
        raise NotAvailableError(
            f"{doing} works on the store itself, and this is a knowledge base on a server: do it "
            "where the server runs"
        )
    return kb
