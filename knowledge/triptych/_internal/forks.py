"""Hooks that replace locks and threads in a forked child, which cannot use those of its parent."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Any


def in_child(renew: Callable[[], object]) -> None:
    """Have each forked child call ``renew`` before it goes on."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew)


def renewed_in_child(method: str) -> weakref.WeakSet[Any]:
    """A set, of whose members each forked child calls ``method`` before it goes on."""
    members: weakref.WeakSet[Any] = weakref.WeakSet()

    def renew() -> None:
        for each in list(members):
            getattr(each, method)()

    in_child(renew)
    return members
