"""Judging whether a result answers its question ("enough", "weak", "nothing") by a calibration.

A calibration leads from the lanes' signals to whether a result answers its question. It holds for
one dataset, as one embedder and one analyzer see it, and is kept in the store's settings.
`triptych_evaluation.calibrate` makes it from questions with and without an answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from triptych.contracts import ChunkRepo, DocLevelSearcher, SettingsStore, Store
from triptych.errors import ValidationError
from triptych.records import Answerability, RankedList, ResolvedQuery
from triptych.search.dataset_settings import CALIBRATION_SETTINGS
from triptych.search.request import Found, SearchRequest, query_stats
from triptych.text import get_analyzer

if TYPE_CHECKING:
    from triptych.search.calibration import Calibration

_Lists = Sequence[tuple[ResolvedQuery, RankedList]]


@attrs.define(eq=False)
class ResultJudge:
    """Judges results of chunks, by what the lanes found and the dataset's calibration.

    It costs a read of the store's settings, and where there is a calibration one of the keyword
    lane's statistics. Nothing is searched again.
    """

    _chunks: ChunkRepo
    _settings: SettingsStore | None
    _stats: DocLevelSearcher | None
    _parsed: tuple[str, Calibration] | None = attrs.field(default=None, init=False)

    def judge(
        self, request: SearchRequest, found: Found
    ) -> tuple[Answerability | None, tuple[str, ...]]:
        """Whether the hits answer, None where that is not known; and a warning where a calibration
        does not hold."""
        text = self.kept(request) if found.hits and found.lists is not None else None
        dataset_id = request.query.dataset_ids[0] if text else ""
        config = None if text is None else self._chunks.config(dataset_id)
        if text is None or config is None:
            return None, ()
        from triptych.search.calibration import parse_calibration  # few datasets have one

        try:
            if self._parsed is None or self._parsed[0] != text:
                self._parsed = text, parse_calibration(text)
            objection = self._parsed[1].objection(config)
        except ValidationError as error:
            objection = str(error)
        if objection is None:
            assert self._parsed is not None
            return self.verdict(self._parsed[1], request, found.lists or ()), ()
        return None, (
            f"whether the hits answer was not judged: the calibration of {dataset_id!r} does not "
            f"hold, for {objection}; `triptych eval calibrate --save` makes another",
        )

    def kept(self, request: SearchRequest) -> str | None:
        """The calibration of the request's dataset as it is kept, None without one.

        There is none for layers, whole documents and several datasets at once.
        """
        datasets = set(request.query.dataset_ids)
        if self._settings is None or request.target != "chunk" or len(datasets) != 1:
            return None
        (dataset_id,) = datasets
        return self._settings.get_setting(CALIBRATION_SETTINGS + dataset_id)

    def signals(self, request: SearchRequest, lists: _Lists) -> Mapping[str, float]:
        """What the lanes say; of several wordings of the query, each signal's highest."""
        from triptych.search.calibration import signals_of

        by_variant: dict[int, tuple[ResolvedQuery, list[RankedList]]] = {}
        for variant, ranked in lists:
            by_variant.setdefault(id(variant), (variant, []))[1].append(ranked)
        best: dict[str, float] = {}
        for variant, several in by_variant.values():
            dataset_id = variant.dataset_ids[0]
            language = request.language_of(dataset_id)
            terms = get_analyzer(language).analyze_query(variant.text)
            stats = None
            if self._stats is not None and any(each.lane == "bm25" for each in several):
                stats = query_stats(self._stats, language, variant, terms, several)
            for name, value in signals_of(several, terms, stats).items():
                best[name] = max(value, best.get(name, value))
        return best

    def verdict(
        self, calibration: Calibration, request: SearchRequest, lists: _Lists
    ) -> Answerability | None:
        """What the calibration says of the lists; None where it has no model for their lanes."""
        model = calibration.model_of({ranked.lane for _, ranked in lists})
        if model is None:
            return None
        signals = self.signals(request, lists)
        if model.weights.keys() <= signals.keys():
            return model.verdict(model.probability(signals))
        return None


def missing_hits(store: Store, request: SearchRequest, found: Found) -> tuple[str, ...]:
    """The warnings of a search with few hits or none."""
    return (*_fields(request, found), *_not_indexed(store, request))


def _fields(request: SearchRequest, found: Found) -> Iterator[str]:
    """What the query was read as asking for, where nothing has it."""
    if request.fields and not found.hits:
        read = " and ".join(
            f"{key} = {' or '.join(map(repr, each))}" for key, each in request.fields.items()
        )
        yield (
            f"the query was read as asking for documents with {read}: put it into quotes to look "
            "for the words themselves"
        )


def _not_indexed(store: Store, request: SearchRequest) -> Iterator[str]:
    """The warning that documents have no chunks yet, as a process leaves them that was killed.

    Counting reads an index of the whole dataset, so it is done where hits may be missing.
    """
    if request.target == "layer":
        return
    datasets = request.query.dataset_ids
    # Documents first: of those that are derived in between none is counted.
    documents = sum(store.documents.count(each) for each in datasets)
    missing = documents - store.chunks.count_sets(datasets)
    if missing > 0:
        are, them = ("document is", "it") if missing == 1 else ("documents are", "them")
        yield (
            f"{missing} {are} not indexed yet, and no search finds {them}: `triptych rebuild` or "
            f"the next sync derives {them}"
        )
