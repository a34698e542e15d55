"""The search settings of a dataset in the store, keyed by a prefix and the dataset's id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from triptych.contracts import SettingsStore

CALIBRATION_SETTINGS: Final = "answerability/"
"""The calibration of a dataset: `triptych.search.answerability`."""

TUNED_SETTINGS: Final = "tuned/"
"""The ranker that a dataset is tuned to: `triptych.search.tuned`."""

DATASET_SETTINGS: Final = (CALIBRATION_SETTINGS, TUNED_SETTINGS)


def dataset_of(key: str) -> str | None:
    """The dataset that the setting ``key`` is of, None if it is of none."""
    return next((key[len(p) :] for p in DATASET_SETTINGS if key.startswith(p)), None)


def forget_settings(
    settings: SettingsStore | None, dataset_id: str, of: Sequence[str] = DATASET_SETTINGS
) -> None:
    """Remove what is kept of a dataset."""
    if settings is not None:
        for prefix in of:
            set_at_last(settings, prefix + dataset_id, None)


def set_at_last(settings: SettingsStore, key: str, text: str | None) -> None:
    """Set a setting, whatever others set it to meanwhile."""
    while not settings.set_setting(key, text, expected=settings.get_setting(key)):
        pass
