"""The answers that servers keep for requests that are sent again, in the store's settings."""

from __future__ import annotations

import json
from typing import Final

from triptych.contracts import SettingsStore

KEPT_REQUESTS: Final = "http.idempotency."
"""What the names of these settings begin with. They may hold whole documents."""
BODIES: Final = f"{KEPT_REQUESTS}body."
STATES: Final = f"{KEPT_REQUESTS}state."
PLACE: Final = "-"
"""How a body that is not there yet begins; no base64 does."""


def forget_requests(settings: SettingsStore | None, dataset_id: str, name: str | None) -> int:
    """Remove the answers that may hold a document, or one of a dataset (None), and the places of
    those to come; how many answers there were.

    A state says which dataset and document its request was about; without them, it may be any. A
    request that was under way finds its place gone, and its answer is not kept.
    """
    if settings is None:
        return 0
    answers = 0
    kept = settings.list_settings(KEPT_REQUESTS)
    for key in kept:
        about = json.loads(kept.get(STATES + key.rpartition(".")[2], "{}"))
        if about.get("dataset_id", dataset_id) != dataset_id:
            continue
        if name is not None and about.get("name", name) != name:
            continue
        while (value := settings.get_setting(key)) is not None:
            if settings.set_setting(key, None, expected=value):
                answers += key.startswith(BODIES) and not value.startswith(PLACE)
                break
    return answers
