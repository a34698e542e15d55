"""The tuned ranker of a dataset, in the store's settings.

`triptych.evaluation.tuning.tune` keeps it. It fuses the lanes of hybrid searches for the chunks of
that one dataset, as long as the dataset's configuration and the Service's ranker are those that it
was measured with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from triptych.contracts import Ranker, SettingsStore
from triptych.errors import ValidationError
from triptych.records import DatasetConfig
from triptych.records.serialization import from_dict
from triptych.search.dataset_settings import TUNED_SETTINGS
from triptych.search.fusion import chosen_ranker
from triptych.search.request import Choice

if TYPE_CHECKING:
    from triptych.records import HealthCheck


@attrs.frozen(kw_only=True, slots=True)
class TunedRanking:
    """A choice, what it is worth, and the ranker (described) and configuration it is for."""

    choice: Choice
    summary: str
    ranker: str
    config: DatasetConfig


def not_tuned(configs: object) -> tuple[Choice, None]:
    """A `Tuned` of which nothing is kept."""
    return {}, None


def read_tuned(
    settings: SettingsStore | None, own: Ranker, configs: Mapping[str, DatasetConfig | None]
) -> tuple[Choice, HealthCheck | None]:
    """The choice that holds for the one dataset of ``configs``, and what is to be said of it.

    It is empty where none is kept or holds, and for several datasets. ``own`` is the Service's
    ranker.
    """
    if settings is None or len(configs) != 1:
        return {}, None
    ((dataset_id, config),) = configs.items()
    text = settings.get_setting(TUNED_SETTINGS + dataset_id)
    if text is None:
        return {}, None
    from triptych.records import HealthCheck  # most searches need it not

    try:
        kept = from_dict(TunedRanking, json.loads(text))
        chosen_ranker(kept.choice, own)
        if kept.config == config and kept.ranker == described_ranker(own):
            detail = f"dataset {dataset_id!r}: {kept.summary}"
            return kept.choice, HealthCheck(name="search settings", status="ok", detail=detail)
        objection = "the ranker or the dataset's configuration is another than was measured"
    except (ValueError, TypeError, ValidationError) as error:
        objection = f"they cannot be read ({error})"
    return {}, HealthCheck(
        name="search settings",
        status="warning",
        detail=f"the tuned search settings of dataset {dataset_id!r} are not used: {objection}",
        remedy="`triptych eval tune --apply` measures again, `--reset` removes them",
    )


def described_ranker(ranker: Ranker) -> str:
    """A text that is equal for rankers that work alike; of a class without attrs, its name."""
    from triptych.search.cache_options import describe

    return describe(ranker, "")
