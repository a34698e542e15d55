"""Judging whether a result answers its question ("enough", "weak", "nothing") by a calibration.

A calibration leads from the lanes' signals to whether a result answers its question. It holds for
one dataset, as one embedder and one analyzer see it, and is kept in the store's settings.
`triptych_evaluation.calibrate` makes it from questions with and without an answer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import attrs

from triptych.contracts import ChunkRepo, DocLevelSearcher, SettingsStore, Store
from triptych.errors import NotAvailableError, ValidationError
from triptych.records import Answerability, Candidates, DatasetConfig, RankedList, ResolvedQuery
from triptych.records.serialization import from_dict, to_dict
from triptych.search.dataset_settings import CALIBRATION_SETTINGS, set_at_last
from triptych.search.request import Found, SearchRequest, query_stats
from triptych.text import CorpusStats, get_analyzer

SIGNALS: Mapping[str, str] = {
    "bm25_share": "bm25",
    "bm25_best": "bm25",
    "vector_best": "vector",
}
"""The signals, each with the lane that it is of.

bm25_share: the best BM25 score, as a share of the sum of the idf of the query's terms, which is
    more than any text can reach. A rare word that the best text does not hold makes it small, and
    so does one that is nowhere.
bm25_best: the best BM25 score itself: a match of one word says less than one of five.
vector_best: the best cosine.
"""


def signals_of(
    lists: Iterable[RankedList], terms: Sequence[str], stats: CorpusStats | None
) -> Mapping[str, float]:
    """The signals of the lanes that ran for one wording of a query.

    ``terms`` are the query's, as the analyzer cuts them, and ``stats`` the statistics of them;
    None leaves out what needs them. A lane that found nothing gives 0.
    """
    by_lane = {each.lane: Candidates.of(each.candidates) for each in lists}
    found: dict[str, float] = {}
    if "bm25" in by_lane:
        best = _best(by_lane["bm25"])
        found["bm25_best"] = best
        if stats is not None:
            most = math.fsum(stats.idf(term) for term in terms)
            found["bm25_share"] = best / most if most else 0.0
    if "vector" in by_lane:
        found["vector_best"] = _best(by_lane["vector"])
    return found


def _best(candidates: Candidates) -> float:
    return -float(candidates.rows[0][0]) if candidates.rows else 0.0


CALIBRATION_VERSION = 1
"""That of the signals and of the record's form: one of another version is not used."""


@attrs.frozen(kw_only=True, slots=True)
class HeldOut:
    """What a model did on questions that it was not fitted on.

    Attributes:
        auc: how often a question that was answered got the higher probability of two, one answered
            and one not; ties count half.
        precision: of the results judged "enough", the share that answer.
        recall: of the results that answer, the share judged "enough".
        f1: the harmonic mean of the two.
        nothing_precision: of the results judged "nothing", the share that do not answer.
        nothing_recall: of the results that do not answer, the share judged "nothing".
        refused: of the results that answer, the share judged "nothing".
    """

    auc: float
    precision: float
    recall: float
    f1: float
    nothing_precision: float
    nothing_recall: float
    refused: float


@attrs.frozen(kw_only=True, slots=True)
class LaneModel:
    """The probability that a result answers: ``1 / (1 + exp(-(bias + Σ weight · signal)))``.

    Attributes:
        weights: by signal, 0 or more: a higher signal never lowers the probability.
        bias: what is added to the sum.
        nothing: a lower probability than this is "nothing".
        enough: this probability or a higher one is "enough"; what is between is "weak".
        held_out: how it did on questions that it was not fitted on.
    """

    weights: Mapping[str, float]
    bias: float
    nothing: float
    enough: float
    held_out: HeldOut

    def __attrs_post_init__(self) -> None:
        for name, weight in self.weights.items():
            if name not in SIGNALS:
                raise ValidationError(
                    f"there is no signal {name!r}: there are {', '.join(SIGNALS)}"
                )
            if not 0 <= weight < math.inf:
                raise ValidationError(f"the weight of {name} is {weight}: give 0 or more")
        if not (math.isfinite(self.bias) and 0 <= self.nothing <= self.enough <= 1):
            raise ValidationError("a model needs a finite bias, and 0 <= nothing <= enough <= 1")

    def probability(self, signals: Mapping[str, float]) -> float:
        """The probability that a result with these signals answers; each weight needs its own."""
        total = self.bias + math.fsum(
            weight * signals[name] for name, weight in self.weights.items()
        )
        return 1 / (1 + math.exp(-total)) if total > -700 else 0.0

    def verdict(self, probability: float) -> Answerability:
        """What a probability means."""
        if probability < self.nothing:
            return "nothing"
        return "enough" if probability >= self.enough else "weak"


@attrs.frozen(kw_only=True, slots=True)
class Calibration:
    """How a dataset's results are judged, and what that was fitted on.

    Attributes:
        models: one for each set of lanes that may have run, by `lanes_key`.
        embed_sig: the embedder of the vectors, "" for none.
        analyzer_sig: the analyzer of the keyword lane.
        chunker_sig: the chunker.
        answered: how many questions had a relevant text among the hits.
        unanswered: how many had none, or have no answer.
        top_k: how many hits were looked at.
        version: `CALIBRATION_VERSION` when it was made.
    """

    models: Mapping[str, LaneModel]
    embed_sig: str
    analyzer_sig: str
    chunker_sig: str
    answered: int
    unanswered: int
    top_k: int
    version: int = CALIBRATION_VERSION

    def objection(self, config: DatasetConfig) -> str | None:
        """Why it does not hold for a dataset of this configuration; None where it does."""
        if self.version != CALIBRATION_VERSION:
            return f"it is of version {self.version}, not {CALIBRATION_VERSION}"
        for what, was, now in (
            ("embedder", self.embed_sig, config.embed_sig),
            ("analyzer", self.analyzer_sig, get_analyzer(config.language).signature),
            ("chunker", self.chunker_sig, config.chunker_sig),
        ):
            if was != now:
                return f"it was made with the {what} {was or 'none'!r}, not {now or 'none'!r}"
        return None


def lanes_key(lanes: Collection[str]) -> str:
    """The key of a set of lanes in ``Calibration.models``, such as "bm25+vector"."""
    return "+".join(sorted(set(SIGNALS.values()) & set(lanes)))


def calibration_text(settings: SettingsStore, dataset_id: str) -> str | None:
    """The calibration of a dataset as it is kept, None without one."""
    return settings.get_setting(CALIBRATION_SETTINGS + dataset_id)


def parse_calibration(text: str) -> Calibration:
    """The calibration in ``text``, as `save_calibration` keeps it.

    Raises:
        ValidationError: it is not a calibration.
    """
    try:
        return from_dict(Calibration, json.loads(text))
    except (ValueError, ValidationError) as error:
        raise ValidationError(f"the calibration cannot be read: {error}") from error


def save_calibration(
    settings: SettingsStore | None, dataset_id: str, calibration: Calibration
) -> None:
    """Keep a calibration for a dataset, in place of one that is there.

    Raises:
        NotAvailableError: the store keeps no settings.
    """
    if settings is None:
        raise NotAvailableError("the store keeps no settings, and cannot store a calibration")
    set_at_last(settings, CALIBRATION_SETTINGS + dataset_id, json.dumps(to_dict(calibration)))


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
        """Whether the hits answer, None where that is not known; and warnings."""
        if request.target != "chunk" or found.lists is None:
            return None, ()
        verdict: Answerability | None = None
        warnings: tuple[str, ...] = ()
        if found.hits:
            calibration, warnings = self.calibration(request)
            if calibration is not None:
                verdict = self.verdict(calibration, request, found.lists)
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
            language = request.language_of(dataset_id)
            terms = get_analyzer(language).analyze_query(variant.text)
            stats = None
            if self._stats is not None and any(each.lane == "bm25" for each in several):
                stats = query_stats(self._stats, language, variant, several)
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
