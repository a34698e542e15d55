"""A Service restricted to the access of a caller."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

import attrs

from triptych import deadlines
from triptych._internal.progress import ProgressCallback
from triptych.access.store import AccessQuestionLog, AccessStore
from triptych.access.view import Access
from triptych.contracts import Retriever
from triptych.errors import AccessDeniedError, CancelledError, ValidationError
from triptych.records import (
    Candidate,
    DatasetConfig,
    DoctorReport,
    EmbedReport,
    PutReport,
    RebuildReport,
    ResolvedQuery,
    ScrubReport,
)
from triptych.search.pipeline_record import Pipeline
from triptych.service import Service
from triptych.service.operations import Effect, operations_of
from triptych.service.parts import Parts

_DEEPER = 4
_DEEPEST = 100_000


@attrs.frozen(eq=False)
class AccessLane:
    """A lane over something else than the store, without what is not the caller's.

    The lane is given the access's filter with the query's; what it finds all the same is left out.
    """

    lane: Retriever
    store: AccessStore

    @property
    def name(self) -> str:
        return self.lane.name

    @property
    def signature(self) -> str | None:
        """That of the lane, for a semantic cache."""
        found = getattr(self.lane, "signature", None)
        return found if isinstance(found, str) else None

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        """See `Retriever.recall`. It is asked deeper until enough of what it finds is shown."""
        view = self.store.view
        asked = attrs.evolve(query, filter=view.filter(query.filter))
        limit = query.limit
        while True:
            deadlines.check("the search")
            found = self.lane.recall(attrs.evolve(asked, limit=limit))
            shown = self._shown(found, query)
            if len(shown) >= query.limit or len(found) < limit or limit >= _DEEPEST:
                return shown[: query.limit]
            limit *= _DEEPER

    def _shown(self, found: Sequence[Candidate], query: ResolvedQuery) -> list[Candidate]:
        view = self.store.view
        names: dict[str, list[str]] = {}
        for each in found:
            if each.dataset_id in query.dataset_ids:
                names.setdefault(each.dataset_id, []).append(each.doc_name)
        there = {
            (dataset_id, name)
            for dataset_id, several in names.items()
            for name in view.infos(dataset_id, several)
        }
        return [each for each in found if (each.dataset_id, each.doc_name) in there]


_Method = TypeVar("_Method", bound=Callable[..., Any])


def _writes(method: _Method) -> _Method:
    """A method that writes: refused, whatever it is asked, where the access may only read.

    What it writes, and of which documents, the store of the access decides.
    """

    @functools.wraps(method)
    def checked(self: RestrictedService, *args: Any, **kwargs: Any) -> Any:
        self._require_open()
        self.check_write()
        return method(self, *args, **kwargs)

    return cast(_Method, checked)


def _uncounted(found: Any) -> Any:
    """A report without its counts of texts."""
    if isinstance(found, PutReport | EmbedReport | RebuildReport):
        return attrs.evolve(found, embedded=0, reused=0, encoded=0)
    return found


def _embeds(method: _Method) -> _Method:
    """A method that writes, and that may embed texts.

    A store keeps one vector of a text, whoever's document it is in: under a filter, how much had to
    be embedded would say which texts others have. So nothing is left to be embedded later, no
    progress is reported, and the report counts no texts.
    """

    @functools.wraps(method)
    def checked(self: RestrictedService, *args: Any, **kwargs: Any) -> Any:
        self._require_open()
        self.check_write()
        if self.access.tree is None:
            return method(self, *args, **kwargs)
        if kwargs.get("embed", "now") == "later":
            raise AccessDeniedError(
                "this access is to some documents of a dataset, and must embed them at once: leave "
                "out embed='later'"
            )
        if "progress" in kwargs:
            kwargs["progress"] = None
        try:
            found = method(self, *args, **kwargs)
        except CancelledError as error:
            error.report = _uncounted(error.report)
            raise
        return _uncounted(found)

    return cast(_Method, checked)


class RestrictedService(Service):
    """A Service over what an `Access` shows of another's store; `Service.restricted` makes it.

    Every public method of Service says what it does (`triptych.service.operations`). One that does
    not is refused: somebody must decide first.
    """

    def __init__(self, base: Service, access: Access) -> None:
        """Wire it over the store, the models and the lanes of ``base``."""
        if not isinstance(access, Access):
            raise ValidationError(
                f"restricted takes an Access, not {type(access).__name__}: make one with "
                "triptych.access.Access(dataset_ids=…, can_write=…, where=…)"
            )
        self.base = base
        self.access = access
        store = AccessStore(base.store, base.capabilities, access)
        self._shown = store
        engine = base._main.engine.over(store, lambda lane: AccessLane(lane, store))
        options = attrs.evolve(
            base.options,
            ranker=None,
            retrievers=(),
            pipelines=[
                each for each in base.pipelines.values() if all(map(access.names, _datasets(each)))
            ],
            own_paths=(),
            forget_files=None,
            locate=None,  # where this machine has its files is not the caller's business
        )
        self._others: dict[Service, Service] = {}
        self._narrowing = threading.Lock()
        self._wire(
            Parts(
                store,
                options,
                engine,
                log=AccessQuestionLog(base.question_log, store.view),
                caller=(*base._parts.caller, "access", repr(access.dataset_ids), access.tree),
            )
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} with {self.access!r}{', closed' if self._closed else ''}>"

    @property
    def pipelines(self) -> Mapping[str, Pipeline]:
        """Those of the pipelines whose datasets are all there for the caller."""
        shows = self._shown.view.shows
        return {
            name: each
            for name, each in self._pipelines.items()
            if each.over is not None or all(map(shows, each.datasets))
        }

    @pipelines.setter
    def pipelines(self, pipelines: Mapping[str, Pipeline]) -> None:
        self._pipelines = pipelines

    def check_write(self) -> None:
        """Refuse every write where the access may only read.

        Raises:
            AccessDeniedError: it may only read.
        """
        self._shown.view.check_can_write()

    def close(self) -> None:
        """Release this Service's own threads; the store and the models stay open."""
        super().close()
        for other in self._others.values():
            other.close()

    def create_dataset(self, dataset_id: str, *, language: str | None = None) -> bool:
        """See `Service.create_dataset`.

        Raises:
            AccessDeniedError: the access may only read, or has a filter and names no datasets.
        """
        self._require_open()
        self.check_write()
        if self.access.dataset_ids is None:
            self._shown.view.check_whole(dataset_id, "making a dataset")
        return super().create_dataset(dataset_id, language=language)

    def configure_dataset(self, dataset_id: str, *, language: str) -> DatasetConfig:
        """See `Service.configure_dataset`.

        Raises:
            AccessDeniedError: the access may only read, or has a filter, whether or not there is
                such a dataset.
        """
        self._require_open()
        self._shown.view.check_whole(dataset_id, "its language")
        return super().configure_dataset(dataset_id, language=language)

    def doctor(
        self,
        *,
        repair: bool = False,
        dataset_id: str | None = None,
        progress: ProgressCallback | None = None,
    ) -> DoctorReport:
        """See `Service.doctor`; without the store's own checks, which speak of all that it holds.

        Raises:
            AccessDeniedError: ``repair`` is asked for, and the access may only read.
        """
        if repair:
            self.check_write()
        return super().doctor(repair=repair, dataset_id=dataset_id, progress=progress)

    def _service_of(self, other: Service) -> Service:
        with self._narrowing:
            if other not in self._others:
                self._others[other] = other.restricted(self.access)
            return self._others[other]

    def _forget_elsewhere(self, dataset_id: str, name: str | None, *, existed: bool) -> int:
        # Those of all callers go, uncounted. What a filter hides was not purged.
        if existed or self.access.tree is None:
            self.base._forget_elsewhere(dataset_id, name, existed=existed)
        return 0

    def _remove_layers_above(self, dataset_id: str, name: str, *, every: bool) -> int:
        removed = self.base._remove_layers_above(dataset_id, name, every=every)
        return removed if self.access.tree is None else 0

    def _scrub(self) -> ScrubReport:
        return attrs.evolve(super()._scrub(), terms=None)  # others' words count among them

    def _require_open(self) -> None:
        super()._require_open()
        self.base._require_open()


def _datasets(pipeline: Pipeline) -> Sequence[str]:
    """Where a pipeline looks; of one over another Service all of it, if it names nothing."""
    if pipeline.over is None or pipeline.datasets:
        return pipeline.datasets
    return pipeline.over.list_datasets()


def _refused(name: str) -> Callable[..., Any]:
    def refused(self: RestrictedService, *args: Any, **kwargs: Any) -> Any:
        raise AccessDeniedError(f"{name} is not available to restricted callers")

    return refused


_OWN: Final = frozenset(vars(RestrictedService))


def _decide() -> None:
    """Give `RestrictedService` each public method of `Service` in the form that is decided on."""
    decided = operations_of(Service)
    for name, method in inspect.getmembers(Service, inspect.isfunction):
        if name.startswith("_") or name in _OWN:
            continue
        traits = decided.get(name)
        if traits is None:
            setattr(RestrictedService, name, _refused(name))
        elif traits.embeds:
            setattr(RestrictedService, name, _embeds(method))
        elif traits.effect is not Effect.READS:
            setattr(RestrictedService, name, _writes(method))


_decide()
