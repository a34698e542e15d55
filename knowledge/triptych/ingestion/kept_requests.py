"""The answers that servers keep for requests that are sent again, in the store's settings."""

from __future__ import annotations

from typing import Final

from triptych.contracts import SettingsStore

__all__ = ["KEPT_REQUESTS", "forget_requests"]

KEPT_REQUESTS: Final = "http.idempotency."
"""What the names of these settings begin with. They may hold whole documents."""


def forget_requests(settings: SettingsStore | None) -> int:
    """Remove the answers, and the places of those to come; how many answers there were.

    A request that was under way finds its place gone, and its answer is not kept.
    """
    if settings is None:
        return 0
    requests: set[str] = set()
    for name in settings.list_settings(KEPT_REQUESTS):
        while (value := settings.get_setting(name)) is not None:
            if settings.set_setting(name, None, expected=value):
                requests.add(name.rpartition(".")[2])
                break
    return len(requests)
