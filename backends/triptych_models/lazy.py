"""An expensive object, created at first use, once for all threads, and again in a forked child."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from triptych.runtime import renewed_in_child

T = TypeVar("T")

_living = renewed_in_child("_forget")


class Lazy(Generic[T]):
    """Holds what ``make`` returns, from the first `get` until `close`.

    A child made by ``fork`` starts empty: a model's threads and locks do not survive it.
    """

    def __init__(self, make: Callable[[], T], dispose: Callable[[T], None] | None = None) -> None:
        self._make = make
        self._dispose = dispose
        self._lock = threading.Lock()
        self._value: T | None = None
        _living.add(self)

    @property
    def made(self) -> T | None:
        """The value, if there is one."""
        return self._value

    def get(self) -> T:
        """The value; the first caller makes it while the others wait.

        When making it raises, nothing is kept and the next caller tries again.
        """
        value = self._value
        if value is not None:
            return value
        with self._lock:
            if self._value is None:
                self._value = self._make()
            return self._value

    def close(self) -> None:
        """Let go of the value; a later `get` makes a new one. Idempotent."""
        with self._lock:
            value, self._value = self._value, None
        if value is not None and self._dispose is not None:
            self._dispose(value)

    def _forget(self) -> None:
        # Another thread of the parent may have held the lock at the moment of the fork.
        self._lock = threading.Lock()
        self._value = None
