"""Calibrations: what the signals of a search say of whether anything answers."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence

import attrs

from triptych.contracts import SettingsStore
from triptych.errors import NotAvailableError, ValidationError
from triptych.records import Answerability, Candidates, DatasetConfig, RankedList
from triptych.records.serialization import from_dict, to_dict
from triptych.search.dataset_settings import CALIBRATION_SETTINGS, set_at_last
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

    def model_of(self, lanes: Collection[str]) -> LaneModel | None:
        """The model of these lanes, None without one."""
        return self.models.get(lanes_key(lanes))

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
