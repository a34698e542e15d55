"""The answers that servers keep for requests that are sent again, in the store's settings."""

from __future__ import annotations

from typing import Final

from triptych.contracts import SettingsStore

__all__ = ["BODIES", "KEPT_REQUESTS", "PLACE", "forget_requests"]

KEPT_REQUESTS: Final = "http.idempotency."
"""What the names of these settings begin with. They may hold whole documents."""
BODIES: Final = f"{KEPT_REQUESTS}body."
PLACE: Final = "-"
"""How a body that is not there yet begins; no base64 does."""


def forget_requests(settings: SettingsStore | None) -> int:
    """Remove the answers, and the places of those to come; how many answers there were.

    A request that was under way finds its place gone, and its answer is not kept.
    """
    if settings is None:
        return 0
    answers = 0
    for name in settings.list_settings(KEPT_REQUESTS):
        while (value := settings.get_setting(name)) is not None:
            if settings.set_setting(name, None, expected=value):
                answers += name.startswith(BODIES) and not value.startswith(PLACE)
                break
    return answers
