"""A calibration: from the lanes' signals to whether a result answers its question.

It holds for one dataset, as one embedder and one analyzer see it, and is kept in the store's
settings. `triptych.evaluation.calibrate` makes it from questions with and without an answer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping

import attrs

from triptych.contracts import SettingsStore
from triptych.errors import NotAvailableError, ValidationError
from triptych.records import Answerability, DatasetConfig
from triptych.records.serialization import from_dict, to_dict
from triptych.search.signals import SIGNALS
from triptych.text import get_analyzer

CALIBRATION_VERSION = 1
"""That of the signals and of the record's form: one of another version is not used."""

CALIBRATION_SETTINGS = "answerability/"


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


def calibrated_dataset(key: str) -> str | None:
    """The dataset whose calibration the setting ``key`` is, None if it is none."""
    return key.removeprefix(CALIBRATION_SETTINGS) if key.startswith(CALIBRATION_SETTINGS) else None


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
        raise NotAvailableError("the store keeps no settings, and so no calibration")
    _set(settings, dataset_id, json.dumps(to_dict(calibration)))


def forget_calibration(settings: SettingsStore | None, dataset_id: str) -> None:
    """Remove the calibration of a dataset, if there is one."""
    if settings is not None:
        _set(settings, dataset_id, None)


def _set(settings: SettingsStore, dataset_id: str, text: str | None) -> None:
    key = CALIBRATION_SETTINGS + dataset_id
    while not settings.set_setting(key, text, expected=settings.get_setting(key)):
        pass
