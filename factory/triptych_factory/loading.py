"""What a table names by ``module:name``, imported when it is needed."""

from __future__ import annotations

import importlib
from typing import Any


def load(place: str) -> Any:
    """The object at ``module:name``."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
