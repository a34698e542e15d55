"""Whether a result answers: "enough", "weak" or "nothing", by the dataset's calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from triptych.contracts import ChunkRepo, DocLevelSearcher, SettingsStore
from triptych.errors import ValidationError
from triptych.records import Answerability, RankedList, ResolvedQuery
from triptych.search.calibration import Calibration, calibration_text, lanes_key, parse_calibration
from triptych.search.question_log import QuestionLog
from triptych.search.request import Found, SearchRequest
from triptych.search.signals import signals_of
from triptych.text import get_analyzer

_Lists = Sequence[tuple[ResolvedQuery, RankedList]]


class ResultJudge:
    """Judges results of chunks, by what the lanes found and the dataset's calibration.

    It costs a read of the store's settings, and where there is a calibration one of the keyword
    lane's statistics. Nothing is searched again.
    """

    def __init__(
        self,
        chunks: ChunkRepo,
        settings: SettingsStore | None,
        stats: DocLevelSearcher | None,
        log: QuestionLog | None = None,
    ) -> None:
        """``log`` notes the questions that are not answered."""
        self._chunks = chunks
        self._settings = settings
        self._stats = stats
        self._log = log
        self._parsed: tuple[str, Calibration] | None = None

    def judge(
        self, request: SearchRequest, found: Found
    ) -> tuple[Answerability | None, tuple[str, ...]]:
        """Whether the hits answer, None where that is not known; and warnings.

        A question that is not answered is noted in the log.
        """
        if request.target != "chunk" or found.lists is None:
            return None, ()
        verdict: Answerability | None = "nothing"
        warnings: tuple[str, ...] = ()
        if found.hits:
            calibration, warnings = self.calibration(request)
            verdict = None
            if calibration is not None:
                verdict = self.verdict(calibration, request, found.lists)
        query = request.query
        if self._log is not None and verdict in ("nothing", "weak") and not query.offset:
            failed = self._log.note(query.text, query.dataset_ids, verdict, found.hits)
            warnings += (failed,) if failed else ()
        return verdict, warnings

    def kept(self, request: SearchRequest) -> str | None:
        """The calibration of the request's dataset as it is kept, None without one.

        There is none for layers, whole documents and several datasets at once.
        """
        datasets = set(request.query.dataset_ids)
        if self._settings is None or request.target != "chunk" or len(datasets) != 1:
            return None
        return calibration_text(self._settings, *datasets)

    def calibration(self, request: SearchRequest) -> tuple[Calibration | None, tuple[str, ...]]:
        """The calibration that holds for a request, and a warning where one does not hold."""
        text = self.kept(request)
        dataset_id = request.query.dataset_ids[0] if text else ""
        config = None if text is None else self._chunks.config(dataset_id)
        if text is None or config is None:
            return None, ()
        try:
            if self._parsed is None or self._parsed[0] != text:
                self._parsed = text, parse_calibration(text)
            objection = self._parsed[1].objection(config)
        except ValidationError as error:
            objection = str(error)
        if objection is None:
            assert self._parsed is not None
            return self._parsed[1], ()
        return None, (
            f"whether the hits answer was not judged: the calibration of {dataset_id!r} does not "
            f"hold, for {objection}; `triptych eval calibrate --save` makes another",
        )

    def signals(self, request: SearchRequest, lists: _Lists) -> Mapping[str, float]:
        """What the lanes say; of several wordings of the query, each signal's highest."""
        by_variant: dict[int, tuple[ResolvedQuery, list[RankedList]]] = {}
        for variant, ranked in lists:
            by_variant.setdefault(id(variant), (variant, []))[1].append(ranked)
        best: dict[str, float] = {}
        for variant, several in by_variant.values():
            dataset_id = variant.dataset_ids[0]
            language = request.languages.get(dataset_id, "english")
            terms = get_analyzer(language).analyze_query(variant.text)
            stats = None
            if self._stats is not None and any(each.lane == "bm25" for each in several):
                stats = self._stats.corpus_stats([dataset_id], terms)
            for name, value in signals_of(several, terms, stats).items():
                best[name] = max(value, best.get(name, value))
        return best

    def verdict(
        self, calibration: Calibration, request: SearchRequest, lists: _Lists
    ) -> Answerability | None:
        """What the calibration says of the lists; None where it has no model for their lanes."""
        model = calibration.models.get(lanes_key({ranked.lane for _, ranked in lists}))
        if model is None:
            return None
        signals = self.signals(request, lists)
        if model.weights.keys() <= signals.keys():
            return model.verdict(model.probability(signals))
        return None
