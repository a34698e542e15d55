"""Planning which layers are stale, why, and their cost, in one pass over names in order.

Documents and both kinds of layers are read page by page and met by name, so the walk holds a
page of each and the folders that lead to the current name, whatever the dataset's size.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter

import attrs

from triptych import deadlines
from triptych.contracts.pages import documents_of, pages_of
from triptych.derivation.folder_tree import Folder, FolderWalk, is_folder, parent_of
from triptych.derivation.layer_journal import LayerJournal
from triptych.layers.builder.generators import LayerGenerator
from triptych.layers.builder.records import Cost, LayerPlan, PlannedLayer, PlanReason
from triptych.records import DerivedLayer, DocumentInfo, Layer, QuarantinedLayer
from triptych.service import Service

LAYERS = (Layer.ABSTRACT, Layer.OVERVIEW)
_PAGE = 500
_MOST_TOLD = 10
_MOST_KEPT = 1_000
_EXPECTED_LINE = 400
"""Bytes of the line of a child whose abstract is yet to be made."""

_Entry = tuple[str, "DocumentInfo | DerivedLayer"]


@attrs.frozen(kw_only=True)
class Scope:
    """What a plan is about.

    Attributes:
        names: the documents and folders to look at, with the folders around them; None for all.
        retry_quarantined: whether what is quarantined is tried again.
        rewrite: whether stale layers that a person wrote are replaced.
    """

    service: Service
    dataset_id: str
    maker: LayerGenerator
    journal: LayerJournal
    names: frozenset[str] | None = None
    retry_quarantined: bool = False
    rewrite: bool = False

    def reason(
        self, stored: DerivedLayer | None, inputs: Collection[str], wanted: str
    ) -> PlanReason | None:
        """Why a layer is stale; ``inputs`` are the digests it may be made from, and ``wanted``
        is the signature of a fresh one."""
        if stored is None:
            return "new"
        if self.is_kept(stored):
            return None
        if stored.sig.input_sig not in inputs:
            return "input" if is_folder(stored.doc_name) else "source"
        if not self.maker.replaces(stored.sig.prompt_sig):
            return None
        return self.maker.difference(stored.sig.prompt_sig, wanted)

    def is_kept(self, stored: DerivedLayer) -> bool:
        """Whether another hand wrote it, so that it stays also when it is stale."""
        if self.maker.replaces(stored.sig.prompt_sig):
            return False
        return not (self.rewrite and stored.sig.prompt_sig == "")

    def is_by_hand(self, layers: Iterable[DerivedLayer]) -> bool:
        """Whether a person wrote one of them, which is not to be replaced."""
        return not self.rewrite and any(each.sig.prompt_sig == "" for each in layers)

    def is_quarantined(
        self, quarantined: QuarantinedLayer | None, inputs: Collection[str], wanted: str
    ) -> bool:
        """Whether nothing has changed since the layer broke the model."""
        return (
            quarantined is not None
            and quarantined.input_sig in inputs
            and quarantined.prompt_sig == wanted
        )

    def folders(self) -> frozenset[str] | None:
        """The folders to look at; None for all."""
        if self.names is None:
            return None
        found = {""}
        for name in self.names:
            if is_folder(name):
                found.add(name)
            while (name := parent_of(name)) not in found:
                found.add(name)
        return frozenset(found)

    def is_wanted(self, name: str) -> bool:
        """Whether a document or folder was named, or a folder around it."""
        if self.names is None or name in self.names:
            return True
        around = name
        while around := parent_of(around):
            if around in self.names:
                return True
        return False


def make_plan(scope: Scope, warnings: tuple[str, ...]) -> LayerPlan:
    """Count what `walk` finds."""
    reasons: Counter[PlanReason] = Counter()
    conditional = 0
    cost = conditional_cost = Cost()
    kept = _Kept()
    orphans: list[str] = []
    for item in walk(scope, kept=kept, orphans=orphans):
        if item.conditional:
            conditional += 1
            conditional_cost += item.cost
        else:
            reasons[item.reason] += 1
            cost += item.cost
    retried = reasons["quarantined"] if scope.retry_quarantined else 0
    quarantined, gone = reasons["quarantined"] - retried, reasons["gone"]
    return LayerPlan(
        dataset_id=scope.dataset_id,
        model=scope.maker.model,
        artifacts=reasons.total() - quarantined - gone,
        conditional=conditional,
        quarantined=quarantined,
        gone=gone,
        kept=kept.layers,
        kept_of_models=kept.of_models,
        kept_names=tuple(kept.names),
        reasons=dict(reasons),
        cost=cost,
        conditional_cost=conditional_cost,
        warnings=(*warnings, *_told(orphans)),
        walk=lambda: walk(scope),
        scope=scope,
    )


def _told(orphans: Sequence[str]) -> Iterator[str]:
    if orphans:
        names = ", ".join(name or "the dataset itself" for name in orphans[:_MOST_TOLD])
        more = len(orphans) - _MOST_TOLD
        names += f" and {more:,} more" if more > 0 else ""
        yield (
            f"without documents, but kept because a person wrote their layers: {names}; "
            "rewrite removes them"
        )


class _Kept:
    """The stale layers that stay as they are, counted."""

    def __init__(self) -> None:
        self.layers: int = 0
        self.of_models: int = 0
        self.names: dict[str, None] = {}

    def add(self, layer: DerivedLayer) -> None:
        self.layers += 1
        self.of_models += layer.sig.prompt_sig != ""
        if len(self.names) < _MOST_KEPT:
            self.names[layer.doc_name] = None


def walk(
    scope: Scope, *, kept: _Kept | None = None, orphans: list[str] | None = None
) -> Iterator[PlannedLayer]:
    """Every stale artifact: documents by name, each folder when its last document is past.

    ``kept`` counts the stale ones that stay as they are; ``orphans`` takes the names of folders
    without documents that stay because a person wrote of them.
    """
    walker = _Walker(scope, kept or _Kept())
    if orphans is not None:
        walker.orphans = orphans
    service, dataset_id, repo = scope.service, scope.dataset_id, scope.service.layer_repo
    # The dataset's own come first, by themselves: a store that looks through its files before a
    # first page does so for the documents alone.
    own = [repo.get(dataset_id, "", kind) for kind in LAYERS]
    walker.take("", [layer for layer in own if layer is not None])
    layers = (pages_of(repo, dataset_id, kind, after="") for kind in LAYERS)
    entries: Iterator[_Entry] = heapq.merge(
        ((info.name, info) for info in documents_of(service.list_documents, dataset_id)),
        *(map(_named, pages) for pages in layers),
        key=itemgetter(0),
    )
    for number, (name, group) in enumerate(groupby(entries, key=itemgetter(0))):
        if number % _PAGE == 0:
            deadlines.check("planning layers")
        walker.take(name, [entry[1] for entry in group])
        yield from walker.found
        walker.found.clear()
    walker.folders.close()
    yield from walker.found


def _named(layer: DerivedLayer) -> _Entry:
    return layer.doc_name, layer


class _Walker:
    def __init__(self, scope: Scope, kept: _Kept) -> None:
        self.found: list[PlannedLayer] = []
        self.orphans: list[str] = []
        self.folders = FolderWalk(self._folder)
        self._scope = scope
        self._kept = kept
        self._wanted_folders = scope.folders()
        self._quarantined = {
            (each.doc_name, each.layer): each
            for each in scope.journal.quarantined(scope.dataset_id)
        }

    def take(self, name: str, entries: Sequence[DocumentInfo | DerivedLayer]) -> None:
        """All that stands under the next name."""
        info: DocumentInfo | None = None
        layers: dict[Layer, DerivedLayer] = {}
        for entry in entries:
            if isinstance(entry, DocumentInfo):
                info = entry
            else:
                layers[entry.layer] = entry
        abstract = layers.get(Layer.ABSTRACT)
        if is_folder(name):
            self.folders.folder(name, abstract, layers.get(Layer.OVERVIEW))
        elif info is not None:
            pending = False
            if self._scope.is_wanted(name):
                pending = self._stale(
                    name, layers, [info.content_sha256], folder=False, size=info.size
                )
            self.folders.document(
                name, None if abstract is None else abstract.content, pending=pending
            )

    def _folder(self, folder: Folder) -> bool:
        """Judge a folder; whether its abstract is about to be made."""
        around = self._wanted_folders
        wanted = around is None or folder.name in around or self._scope.is_wanted(folder.name)
        layers = {
            each.layer: each for each in (folder.abstract, folder.overview) if each is not None
        }
        if not folder.documents:
            if wanted and self._scope.is_by_hand(layers.values()):
                # A store removes the layers of a name together, so the other one stays, too.
                for each in layers.values():
                    self._kept.add(each)
                self.orphans.append(folder.name)
            elif wanted:
                self.found += [
                    PlannedLayer(doc_name=folder.name, layer=layer, reason="gone")
                    for layer in layers
                ]
            return False
        if not wanted or not (folder.children or folder.pending):
            return False
        inputs = [folder.input_sig] if folder.name else [folder.input_sig, self.folders.flat]
        return self._stale(
            folder.name,
            layers,
            inputs,
            folder=True,
            size=folder.size,
            expected=folder.expected * _EXPECTED_LINE,
            pending=folder.pending,
        )

    def _stale(
        self,
        name: str,
        layers: dict[Layer, DerivedLayer],
        inputs: list[str],
        *,
        folder: bool,
        size: int,
        expected: int = 0,
        pending: bool = False,
    ) -> bool:
        """Add the stale ones of a name's two layers; whether its abstract will be made."""
        scope, planned = self._scope, []
        for layer in LAYERS:
            stored = layers.get(layer)
            wanted = scope.maker.prompt_sig(layer, folder=folder, size=size)
            reason = scope.reason(stored, inputs, wanted)
            if stored is not None and scope.is_kept(stored):
                if stored.sig.input_sig not in inputs:
                    self._kept.add(stored)
                continue
            # What a child that is about to be made will say is not known: it may be what the
            # stored layer was made from, as after a delete and a put of the same.
            conditional = (
                pending
                and stored is not None
                and scope.reason(stored, [stored.sig.input_sig], wanted) is None
            )
            if conditional:
                reason = "input"
            if reason is None:
                continue
            if not conditional and scope.is_quarantined(
                self._quarantined.get((name, layer)), inputs, wanted
            ):
                reason = "quarantined"
            planned.append(
                PlannedLayer(doc_name=name, layer=layer, reason=reason, conditional=conditional)
            )
        asked = [
            item for item in planned if item.reason != "quarantined" or scope.retry_quarantined
        ]
        costs = scope.maker.cost(
            [item.layer for item in asked], folder=folder, size=size + expected
        )
        priced = dict(zip((item.layer for item in asked), costs, strict=True))
        self.found += [attrs.evolve(item, cost=priced.get(item.layer, Cost())) for item in planned]
        return any(item.layer is Layer.ABSTRACT for item in asked)
