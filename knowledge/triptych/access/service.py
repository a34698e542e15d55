"""A Service as a caller with an access sees it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import attrs

from triptych._internal.progress import ProgressCallback
from triptych.access.kept import AccessQuestionLog
from triptych.access.lanes import restricted_lane
from triptych.access.records import Access
from triptych.access.store import AccessStore
from triptych.errors import AccessDeniedError, ValidationError
from triptych.records import DoctorReport, EmbedReport, PutReport, RebuildReport
from triptych.search.question_log import QuestionLog
from triptych.service import Service

__all__ = ["RestrictedService"]

_Method = TypeVar("_Method", bound=Callable[..., Any])


def _reads(method: _Method) -> _Method:
    """A method that reads: it finds what the store of the access holds, and nothing else."""
    return method


def _writes(method: _Method) -> _Method:
    """A method that writes: refused, whatever it is asked, where the access may only read.

    What it writes, and of which documents, the store of the access decides.
    """

    @functools.wraps(method)
    def checked(self: RestrictedService, *args: Any, **kwargs: Any) -> Any:
        self._open()
        self.check_write()
        return method(self, *args, **kwargs)

    return cast(_Method, checked)


def _embeds(method: _Method) -> _Method:
    """A method that writes, and that may embed texts.

    A store keeps one vector of a text, whoever's document it is in: under a filter, how much had to
    be embedded would say which texts others have. So nothing is left to be embedded later, no
    progress is reported, and the report counts no texts.
    """

    @functools.wraps(method)
    def checked(self: RestrictedService, *args: Any, **kwargs: Any) -> Any:
        self._open()
        self.check_write()
        if self.access.tree is None:
            return method(self, *args, **kwargs)
        if kwargs.get("embed", "now") == "later":
            raise AccessDeniedError(
                "this access is to some documents of a dataset, and embeds what it puts at once: "
                "leave out embed='later'"
            )
        if "progress" in kwargs:
            kwargs["progress"] = None
        found = method(self, *args, **kwargs)
        if isinstance(found, PutReport | EmbedReport | RebuildReport):
            return attrs.evolve(found, embedded=0, reused=0, encoded=0)
        return found

    return cast(_Method, checked)


class RestrictedService(Service):
    """A Service over what an `Access` shows of another's store; `Service.restricted` makes it.

    Every public method of Service is listed here as one that reads or writes: a method that comes
    to Service is not one of this class before somebody has decided that.
    """

    def __init__(self, base: Service, access: Access) -> None:
        """Wire it over the store, the models and the lanes of ``base``."""
        if not isinstance(access, Access):
            raise ValidationError(
                f"restricted takes an Access, not {type(access).__name__}: make one with "
                "triptych.Access(dataset_ids=…, can_write=…, where=…)"
            )
        self.base = base
        self.access = access
        store = AccessStore(base.store, base.capabilities, access)
        self._shown = store
        engine = base._engine.mapped(lambda lane: restricted_lane(lane, store))
        pipelines = [
            each for each in base.pipelines.values() if all(map(access.names, each.datasets))
        ]
        options = attrs.evolve(
            base.options, ranker=None, retrievers=(), pipelines=pipelines, own_paths=()
        )
        super().__init__(store, engine, options)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} with {self.access!r}{', closed' if self._closed else ''}>"

    def check_write(self) -> None:
        """Refuse every write where the access may only read.

        Raises:
            AccessDeniedError: it may only read.
        """
        self._shown.view.check_can_write()

    def close(self) -> None:
        """Release this Service's own threads; the store and the models stay open."""
        super().close()

    restricted = _reads(Service.restricted)
    dataset = _reads(Service.dataset)
    pipeline = _reads(Service.pipeline)

    put_document = _embeds(Service.put_document)
    put_documents = _embeds(Service.put_documents)
    embed_pending = _embeds(Service.embed_pending)
    get_document = _reads(Service.get_document)
    list_documents = _reads(Service.list_documents)
    count_documents = _reads(Service.count_documents)
    update_metadata = _writes(Service.update_metadata)
    history = _reads(Service.history)
    diff = _reads(Service.diff)
    restore = _writes(Service.restore)
    list_datasets = _reads(Service.list_datasets)
    create_dataset = _writes(Service.create_dataset)
    configure_dataset = _writes(Service.configure_dataset)
    delete_document = _writes(Service.delete_document)
    delete_documents = _writes(Service.delete_documents)
    remove_expired = _writes(Service.remove_expired)
    delete_dataset = _writes(Service.delete_dataset)
    recreate = _writes(Service.recreate)
    purge = _writes(Service.purge)
    changes = _reads(Service.changes)
    follow = _reads(Service.follow)
    search = _reads(Service.search)
    search_documents = _reads(Service.search_documents)
    search_many = _reads(Service.search_many)
    context = _reads(Service.context)
    verify = _reads(Service.verify)
    ask = _reads(Service.ask)
    ask_stream = _reads(Service.ask_stream)
    replay = _reads(Service.replay)
    layer = _reads(Service.layer)
    dataset_layer = _reads(Service.dataset_layer)
    layers = _reads(Service.layers)
    put_document_layer = _writes(Service.put_document_layer)
    put_dataset_layer = _writes(Service.put_dataset_layer)
    put_folder_layer = _writes(Service.put_folder_layer)
    rebuild = _embeds(Service.rebuild)
    stats = _reads(Service.stats)
    cache_stats = _reads(Service.cache_stats)
    health = _reads(Service.health)

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

    def _log(self) -> QuestionLog:
        return AccessQuestionLog(self.base.question_log, self._shown.view)

    def _of_caller(self) -> Sequence[object]:
        return (*self.base._of_caller(), "access", repr(self.access.dataset_ids), self.access.tree)

    def _open(self) -> None:
        super()._open()
        self.base._open()
