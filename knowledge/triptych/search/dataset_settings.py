"""The search settings of a dataset in the store, keyed by a prefix and the dataset's id."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from triptych.contracts import SettingsStore
from triptych.derivation.layer_journal import LayerJournal, dataset_of_layers
from triptych.vectors.refused import REFUSED_SETTINGS

CALIBRATION_SETTINGS: Final = "answerability/"
"""The calibration of a dataset: `triptych.search.answerability`."""

GOLDEN_SETTINGS: Final = "golden/"
"""Golden questions about a dataset, as ``triptych eval`` reads them: those kept in the console."""

DATASET_SETTINGS: Final = (CALIBRATION_SETTINGS, GOLDEN_SETTINGS, REFUSED_SETTINGS)


def dataset_of(key: str) -> str | None:
    """The dataset that the setting ``key`` is of, None if it is of none."""
    found = next((key[len(p) :] for p in DATASET_SETTINGS if key.startswith(p)), None)
    return dataset_of_layers(key) if found is None else found


def forget_settings(
    settings: SettingsStore | None, dataset_id: str, of: Sequence[str] = DATASET_SETTINGS
) -> None:
    """Remove what is kept of a dataset."""
    if settings is not None:
        for prefix in of:
            set_at_last(settings, prefix + dataset_id, None)
        if of is DATASET_SETTINGS:
            LayerJournal(settings).forget(dataset_id)


def forget_judgements(settings: SettingsStore | None, dataset_id: str, name: str) -> int:
    """Remove a document's name from the judgements of its dataset's golden questions; how many of
    the questions were judged for it, or name it and still do."""
    key, about = GOLDEN_SETTINGS + dataset_id, 0
    while settings is not None and (text := settings.get_setting(key)) is not None:
        kept, about = json.loads(text), 0
        for question in kept["queries"]:
            was_judged = question["relevance"].pop(name, None) is not None
            about += was_judged or name in question["question"]
        without = json.dumps(kept, ensure_ascii=False)
        if without == text or settings.set_setting(key, without, expected=text):
            break
    return about


def set_at_last(settings: SettingsStore, key: str, text: str | None) -> None:
    """Set a setting, whatever others set it to meanwhile."""
    while not settings.set_setting(key, text, expected=settings.get_setting(key)):
        pass
