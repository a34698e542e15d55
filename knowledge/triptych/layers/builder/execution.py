"""Executing a plan: documents first, then folders from the inside out, the dataset last."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import groupby
from typing import Final, NoReturn, cast, get_args

import attrs

from triptych import deadlines
from triptych._internal.concurrency import map_unordered
from triptych._internal.model_texts import BadAnswerError
from triptych._internal.progress import Progress, ProgressCallback
from triptych.derivation.folder_tree import children, is_folder, parent_of, summaries_of
from triptych.errors import (
    CancelledError,
    ConflictError,
    DerivationError,
    NotAvailableError,
    NotFoundError,
    ProviderError,
    ProviderSetupError,
    StoreAwayError,
    StoreError,
    UnusableAnswerError,
)
from triptych.layers.builder.budget import BudgetedLLM, LayerModel, OutOfBudgetError
from triptych.layers.builder.generators import Source
from triptych.layers.builder.plan import LAYERS, Scope, walk
from triptych.layers.builder.records import (
    LayerFailure,
    LayerPlan,
    LayerReport,
    PlannedLayer,
    Stop,
)
from triptych.records import (
    DerivedLayer,
    Layer,
    ParkedReason,
    QuarantinedLayer,
    SourceDocument,
)
from triptych.signatures import content_sha256, summaries_input_sig

_MOST_TOO_LARGE: Final = 1_000
"""After so many that do not fit, and none that does, the run ends."""

PARKED_REASONS: Final = frozenset(get_args(ParkedReason))


class _StoppedError(Exception):
    """The run ends: no further artifact is begun."""


@attrs.define(eq=False, slots=False)
class Run:
    """One `apply`."""

    _plan: LayerPlan
    _scope: Scope
    _meter: BudgetedLLM | None
    _workers: int
    _patience: int

    def __attrs_post_init__(self) -> None:
        self._lock = threading.Lock()
        self._made = self._unchanged = self._removed = self._done = 0
        self._quarantined: list[QuarantinedLayer] = []
        self._failed: list[LayerFailure] = []
        self._in_a_row = 0
        self._stopped: Stop | None = None
        self._short: Stop | None = None
        self._skipped = 0
        self._least: float | None = None
        self._waiting: set[str] = set()
        journal, dataset_id = self._scope.journal, self._scope.dataset_id
        journal.forget_gone(dataset_id, self._scope.service.documents)
        known = journal.quarantined(dataset_id)
        self._known = {(each.doc_name, each.layer): each for each in known}
        self._notes = defaultdict(dict, journal.notes(dataset_id))

    def execute(self, progress: ProgressCallback | None) -> LayerReport:
        """Make what is stale, until it is made, or a ceiling or the provider ends it.

        Raises:
            CancelledError: the deadline passed; what was made stays.
            StoreError: the store failed; likewise. Without a model, what a store that answers
                refuses of one document or folder is a failure of that one.
        """

        def tell(_: object) -> None:
            if progress is not None:
                total = self._plan.artifacts + self._plan.conditional
                progress(Progress(phase="layers", done=self._done, total=max(total, self._done)))

        try:
            with closing(
                map_unordered(self._document, self._documents(), self._workers)
            ) as results:
                for done in results:
                    tell(done)
            if self._stopped is None:
                self._folders(tell)
        except _StoppedError:
            pass
        except CancelledError as error:
            error.report = self._report()
            raise
        return self._report()

    def _report(self) -> LayerReport:
        usage = self._meter.usage if self._meter else None
        calls = usage.calls if usage else 0
        stopped = self._stopped or self._short
        if usage and stopped == "max_calls" and self._failed and usage.failures == calls:
            stopped = "provider"
        return LayerReport(
            made=self._made,
            unchanged=self._unchanged,
            removed=self._removed,
            quarantined=tuple(self._quarantined),
            failed=tuple(self._failed),
            usage=(usage,) if usage and calls else (),
            skipped=self._skipped,
            stopped=stopped,
            least=None if self._made or calls else self._least,
            warnings=self._plan.warnings,
        )

    # What is to be done

    def _documents(self) -> Iterator[tuple[str, list[Layer]]]:
        """The documents with layers to make, read while others are being made.

        A model's calls go to those whose text has changed first: their layers say what is no
        longer there.
        """
        begun: set[str] = set()
        for changed_only in (False,) if self._meter is None else (True, False):
            for name, group in groupby(self._to_do(), key=lambda each: each.doc_name):
                if is_folder(name) or name in begun:
                    continue
                items = list(group)
                if not changed_only or any(each.reason == "source" for each in items):
                    begun.add(name)
                    yield name, [each.layer for each in items]

    def _to_do(self) -> Iterator[PlannedLayer]:
        for item in walk(self._scope):
            if self._stopped is not None:
                return
            if not item.conditional and (
                item.reason != "quarantined" or self._scope.retry_quarantined
            ):
                yield item

    def _folders(self, tell: Callable[[object], None]) -> None:
        """One depth after the other: a folder that comes out otherwise calls on the one around."""
        by_depth: defaultdict[int, set[str]] = defaultdict(set)
        gone: dict[str, int] = defaultdict(int)
        for item in self._to_do():
            if item.reason == "gone":
                gone[item.doc_name] += 1
            elif is_folder(item.doc_name):
                by_depth[item.doc_name.count("/")].add(item.doc_name)
        wanted = self._scope.folders()
        if gone:
            # Of a folder that another has filled meanwhile they stay, stale.
            removed = self._scope.service.documents.delete_orphans(self._scope.dataset_id, gone)
            self._removed += sum(gone[name] for name in removed)
        for depth in range(max(by_depth, default=-1), -1, -1):
            names = sorted(by_depth.pop(depth, set()) - self._waiting)
            with closing(map_unordered(self._folder, names, self._workers)) as results:
                for name, changed in results:
                    tell(name)
                    around = parent_of(name)
                    if (
                        changed
                        and name
                        and (wanted is None or around in wanted or self._scope.is_wanted(around))
                    ):
                        by_depth[depth - 1].add(around)
            if self._stopped is not None:
                return

    # One source

    def _document(self, work: tuple[str, list[Layer]]) -> None:
        """Make a document's stale layers; once more if it changes meanwhile."""
        name, layers = work
        for attempt in range(2):
            try:
                document = self._scope.service.get_document(self._scope.dataset_id, name)
                self._make_document(document, layers)
            except NotFoundError:
                return  # it was deleted meanwhile
            except ConflictError as error:
                if error.expected is None:
                    raise  # the dataset is configured otherwise: nothing can be stored in it
                if attempt:
                    self._fail(name, error)
            except StoreError as error:
                self._fail_in_store(name, error)
                return
            else:
                return

    def _make_document(self, document: SourceDocument, layers: Sequence[Layer]) -> None:
        service, dataset_id = self._scope.service, self._scope.dataset_id

        def put(layer: Layer, content: str, prompt_sig: str) -> None:
            service.put_document_layer(
                dataset_id,
                document.name,
                layer,
                content,
                prompt_sig=prompt_sig,
                source_version=document.version,
            )

        fed = content_sha256(document.content)
        self._make(document.name, Source(document=document), layers, fed, {fed}, put)

    def _folder(self, name: str) -> tuple[str, bool]:
        """Make a folder's stale layers; whether its abstract came out otherwise."""
        service, dataset_id = self._scope.service, self._scope.dataset_id
        below = children(service.layer_repo, dataset_id, name)
        if not below:
            return name, False

        def put(layer: Layer, content: str, prompt_sig: str) -> None:
            if name:
                service.put_folder_layer(
                    dataset_id, name, layer, content, prompt_sig=prompt_sig, summaries=below
                )
            else:
                service.put_dataset_layer(
                    dataset_id, layer, content, prompt_sig=prompt_sig, summaries=below
                )

        fed = summaries_input_sig(below)
        inputs = {fed}
        if not name:
            inputs.add(summaries_input_sig(summaries_of(service.layer_repo, dataset_id)))
        try:
            changed = self._make(name, Source(children=below), LAYERS, fed, inputs, put)
        except NotFoundError:
            return name, False  # its documents were deleted meanwhile
        except StoreError as error:
            self._fail_in_store(name, error)
            return name, False
        return name, changed

    def _make(
        self,
        name: str,
        source: Source,
        layers: Sequence[Layer],
        fed: str,
        inputs: Collection[str],
        put: Callable[[Layer, str, str], None],
    ) -> bool:
        """Make those of ``layers`` that are stale still; whether the abstract is another now."""
        scope, folder, changed = self._scope, source.document is None, False
        write: Callable[[Layer], str] | None = None
        for layer in layers:
            self._check()
            stored = scope.service.layer_repo.get(scope.dataset_id, name, layer)
            wanted = scope.maker.prompt_sig(layer, folder=folder, size=source.size)
            if scope.reason(stored, inputs, wanted) is None:
                continue
            known = self._known.get((name, layer))
            if not scope.retry_quarantined and scope.is_quarantined(known, inputs, wanted):
                continue
            try:
                notes = self._notes[name]
                model = LayerModel(scope.journal, scope.dataset_id, name, self._meter, notes)
                write = write or scope.maker.writer(source, model)
                content = write(layer)
            except OutOfBudgetError as error:
                self._skip(name, error)
                continue
            except (BadAnswerError, UnusableAnswerError) as error:
                self._park(self._entry(name, layer, fed, wanted, error))
                continue
            except (ProviderSetupError, NotAvailableError) as error:
                self._fail(name, error, layer)
                self._stop("provider")
            except ProviderError as error:
                self._fail_by_provider(name, error, layer)
                continue
            try:
                put(layer, content, wanted)
            except DerivationError as error:
                self._fail(name, error, layer)
                continue
            self._count(stored, content)
            if known is not None:
                scope.journal.release_quarantined(scope.dataset_id, name, layer)
            if layer is Layer.ABSTRACT:
                changed = stored is None or stored.content != content
        return changed

    # What came of it

    def _entry(
        self,
        name: str,
        layer: Layer,
        input_sig: str,
        prompt_sig: str,
        error: BadAnswerError | UnusableAnswerError,
    ) -> QuarantinedLayer:
        reason = error.reason
        return QuarantinedLayer(
            dataset_id=self._scope.dataset_id,
            doc_name=name,
            layer=layer,
            input_sig=input_sig,
            prompt_sig=prompt_sig,
            reason=cast(ParkedReason, reason) if reason in PARKED_REASONS else "unusable",
            message=str(error),
            quarantined_at=datetime.now(UTC),
        )

    def _count(self, stored: DerivedLayer | None, content: str) -> None:
        with self._lock:
            self._made += 1
            self._done += 1
            self._unchanged += stored is not None and stored.content == content
            self._in_a_row = 0

    def _park(self, entry: QuarantinedLayer) -> None:
        self._scope.journal.quarantine(entry)
        with self._lock:
            self._quarantined.append(entry)
            self._done += 1
            self._in_a_row = 0  # the provider answers

    def _fail_by_provider(self, name: str, error: ProviderError, layer: Layer) -> None:
        """The provider failed, whatever the input: the next plan tries it again."""
        self._fail(name, error, layer)
        with self._lock:
            self._in_a_row += 1
            given_up = self._in_a_row >= self._patience
        if given_up:
            self._stop("provider")

    def _skip(self, name: str, error: OutOfBudgetError) -> None:
        """Leave it to the next run, or end this one where no other would fit either."""
        with self._lock:
            self._short = self._short or error.ceiling
            self._least = error.needed if self._least is None else min(self._least, error.needed)
            if not error.over:
                self._skipped += 1
                self._done += 1
            folder = name
            # Its folders would be made again as soon as it is there.
            while not error.hopeless and folder not in self._waiting:
                self._waiting.add(folder := parent_of(folder))
            looked_at = self._skipped
        nothing_fits = not self._made and looked_at >= _MOST_TOO_LARGE
        if error.over or nothing_fits:
            self._stop(error.ceiling)

    def _fail(self, name: str, error: Exception, layer: Layer | None = None) -> None:
        dataset_id = self._scope.dataset_id
        failure = LayerFailure(dataset_id=dataset_id, name=name, error=error, layer=layer)
        with self._lock:
            self._failed.append(failure)
            self._done += 1

    def _fail_in_store(self, name: str, error: StoreError) -> None:
        """Go on only where nothing is paid for: a store that fails may take no answer."""
        deadlines.check("making layers")
        if self._meter is not None or isinstance(error, StoreAwayError):
            raise error
        self._fail(name, error)

    def _stop(self, why: Stop) -> NoReturn:
        with self._lock:
            self._stopped = self._stopped or why
        raise _StoppedError

    def _check(self) -> None:
        deadlines.check("making layers")
        if self._stopped is not None:
            raise _StoppedError
